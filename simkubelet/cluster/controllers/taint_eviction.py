"""The controller that ends pods on nodes whose NoExecute taints they do not tolerate, or no longer.

Source: pkg/controller/tainteviction/taint_eviction.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..._internal.change import Change
from ...model.clock import Clock
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition, ConditionType
from ..objects.node_selection import tolerates
from ..objects.objects import Written
from ..store.store import Store

__all__ = ["TaintEviction"]

COMPONENT: Final = "taint-eviction-controller"
_ANNOUNCED: Final = Condition(
    ConditionType.DISRUPTION_TARGET,
    True,
    "DeletionByTaintManager",
    "Taint manager: deleting due to NoExecute taint",
)


@dataclass(frozen=True, slots=True)
class _Eviction:
    """A pod that is to go: since when its taints count, and who waits for the time."""

    began_at: float
    due_at: float
    wait: asyncio.Task[None]


class TaintEviction:
    """Ends the pods of one cluster that taints drive away, for as long as `run` runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._evictions: dict[PodUID, _Eviction] = {}
        self._nodes = dict.fromkeys(node.name for node in store.all_nodes)
        self._change = Change()
        store.objects.subscribe("nodes", self._note_node)
        store.objects.subscribe("pods", self._note_pod)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                seen = self._change.count
                nodes, self._nodes = self._nodes, {}
                for name in nodes:
                    self._settle(name, tasks)
                await self._change.wait(seen)

    def _note_node(self, written: Written) -> None:
        self._note(written.key.name)

    def _note_pod(self, written: Written) -> None:
        node = written.object["spec"].get("nodeName")
        uid = PodUID(written.object["metadata"]["uid"])
        if node is not None and (uid in self._evictions or _taints_of(self._store, node)):
            self._note(node)

    def _note(self, node: str) -> None:
        self._nodes[node] = None
        self._change.notify()

    def _settle(self, node: str, tasks: asyncio.TaskGroup) -> None:
        taints = _taints_of(self._store, node)
        for pod in self._store.pods_on(node):
            if not pod.is_deleting:
                self._consider(pod, taints, tasks)
        for uid in [uid for uid in self._evictions if self._store.pod(uid) is None]:
            self._cancel(uid)

    def _consider(self, pod: Pod, taints: Sequence[Mapping[str, Any]], tasks: asyncio.TaskGroup) -> None:
        stay_s = _tolerated_s(taints, pod.spec.get("tolerations") or ())
        if stay_s is None:
            if self._cancel(pod.uid):
                self._record(pod, f"Cancelling deletion of Pod {pod.namespace}/{pod.name}")
            return
        now, known = self._clock.now(), self._evictions.get(pod.uid)
        began_at = now if known is None else known.began_at
        due_at = began_at + stay_s
        if known is not None and known.due_at == due_at:
            return
        self._cancel(pod.uid)
        wait = tasks.create_task(self._evict(pod.uid, due_at - now), name=f"eviction of {pod.key}")
        self._evictions[pod.uid] = _Eviction(began_at, due_at, wait)

    def _cancel(self, uid: PodUID) -> bool:
        eviction = self._evictions.pop(uid, None)
        if eviction is not None:
            eviction.wait.cancel()
        return eviction is not None

    async def _evict(self, uid: PodUID, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        del self._evictions[uid]
        pod = self._store.pod(uid)
        if pod is not None:
            self._record(pod, f"Marking for deletion Pod {pod.namespace}/{pod.name}")
            self._store.patch_pod_status(uid, _ANNOUNCED)
            self._store.delete_pod(uid)

    def _record(self, pod: Pod, message: str) -> None:
        self._store.record(pod, "Normal", "TaintManagerEviction", message, COMPONENT, host="")


def _taints_of(store: Store, name: str) -> list[Mapping[str, Any]]:
    """The NoExecute taints of a node."""
    node = store.node(name)
    taints = [] if node is None else (node.manifest.get("spec") or {}).get("taints") or []
    return [taint for taint in taints if taint.get("effect") == "NoExecute"]


def _tolerated_s(taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]) -> float | None:
    """How long a pod may stay: 0 where it does not tolerate them all, None where it may for ever."""
    used = []
    for taint in taints:
        first = next((each for each in tolerations if tolerates(each, taint)), None)
        if first is None:
            return 0.0
        used.append(first)
    limits = [float(each["tolerationSeconds"]) for each in used if each.get("tolerationSeconds") is not None]
    return max(min(limits), 0.0) if limits else None
