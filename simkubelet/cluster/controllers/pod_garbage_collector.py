"""Deletes the pods of nodes that are gone, once they have been gone for a while, and pods that end on no node.

Source: pkg/controller/podgc/gc_controller.go, ``gcOrphaned``, ``gcUnscheduledTerminating`` (kubernetes v1.34.4); the
number of ended pods has no limit here.
"""

from __future__ import annotations

from typing import Final

from ...model.clock import Clock
from ...model.pod import Pod
from ...model.pod_status import Condition, ConditionType, PodPhase
from ..store.store import Store

__all__ = ["PodGarbageCollector"]

_PERIOD_S: Final = 20.0
_QUARANTINE_S: Final = 40.0
_ANNOUNCED: Final = Condition(ConditionType.DISRUPTION_TARGET, True, "DeletionByPodGC", "PodGC: node no longer exists")


class PodGarbageCollector:
    """Looks after the pods of one cluster for as long as `run` runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._missing_since: dict[str, float] = {}

    async def run(self) -> None:
        """Look every twenty seconds, until cancelled."""
        while True:
            await self._clock.sleep(_PERIOD_S)
            self._collect()

    def _collect(self) -> None:
        now = self._clock.now()
        missing = {pod.node_name for pod in self._store.pods if pod.node_name} - {
            node.name for node in self._store.all_nodes
        }
        self._missing_since = {node: self._missing_since.get(node, now) for node in missing}
        gone = {node for node, since in self._missing_since.items() if now - since >= _QUARANTINE_S}
        for pod in self._store.pods:
            if pod.node_name in gone:
                self._delete(pod)
            elif pod.node_name is None and pod.is_deleting:
                self._store.delete_pod(pod.uid, 0)

    def _delete(self, pod: Pod) -> None:
        if not pod.status.phase.is_terminal:
            self._store.patch_pod_status(pod.uid, _ANNOUNCED, phase=PodPhase.FAILED)
        self._store.delete_pod(pod.uid, 0)
