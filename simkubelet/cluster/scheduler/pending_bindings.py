"""Pods that have a node and are not bound yet: they wait for the binding conditions of their devices.

The scheduler looks at the claims of such a pod every five seconds, for ten minutes.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``PreBind``, ``isPodReadyForBinding``
(kubernetes v1.36.3, v1.37.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...model.pod import PodUID
from ..objects.objects import Key, Objects
from .cluster_state import PodInfo
from .dynamic_resources.binding_conditions import BINDING_TIMEOUT_S, BindingError, is_overdue, is_ready
from .queue import QueuedPod

__all__ = ["PendingBinding", "PendingBindings", "binding_fault"]

_PERIOD_S: Final = 5.0


@dataclass(slots=True)
class PendingBinding:
    """One pod that waits.

    Attributes:
        queued: the pod, which has left the queue.
        node: where it goes.
        claims: what it uses there.
        since: when it began to wait.
        looks: how often its claims have been looked at.
    """

    queued: QueuedPod
    node: str
    claims: Sequence[Key]
    since: float
    looks: int = 0

    @property
    def next_look(self) -> float:
        return self.since + self.looks * _PERIOD_S


class PendingBindings:
    """The pods that wait, by the cluster's clock.

    Args:
        objects: the cluster's.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods: dict[PodUID, PendingBinding] = {}

    def add(self, queued: QueuedPod, node: str, claims: Sequence[Key]) -> PendingBinding:
        """Let a pod wait, until `remove`; it is due at once."""
        pending = PendingBinding(queued, node, claims, self._objects.wall_time.elapsed())
        self._pods[queued.pod.uid] = pending
        return pending

    def of(self, uid: PodUID) -> PendingBinding | None:
        """What a pod waits for; None where it does not wait."""
        return self._pods.get(uid)

    def remove(self, pending: PendingBinding) -> None:
        """Let a pod wait no longer."""
        del self._pods[pending.queued.pod.uid]

    def due(self) -> list[PendingBinding]:
        """Those whose claims are to be looked at now."""
        now = self._objects.wall_time.elapsed()
        return [pending for pending in self._pods.values() if pending.next_look <= now]

    def next_look(self) -> float | None:
        """When the next one is due; None where none waits."""
        return min((pending.next_look for pending in self._pods.values()), default=None)

    def look(self, pending: PendingBinding) -> bool:
        """Whether a pod may be bound now; else it is due again later.

        Raises:
            BindingError: it will not be.
        """
        wall_time = self._objects.wall_time
        if wall_time.elapsed() >= pending.since + BINDING_TIMEOUT_S:
            raise BindingError("device binding timeout: context deadline exceeded")
        pending.looks += 1
        for key in pending.claims:
            claim = self._objects.get(key)
            if claim is None:
                raise BindingError(f'could not find ResourceClaim "{key.namespace}/{key.name}"')
            if not is_ready(claim):
                if is_overdue(claim, wall_time):
                    raise BindingError(f"device binding timeout: claim={key.name}")
                return False
        return True


def binding_fault(name: str, pod: PodInfo | None) -> str:
    """Why the API server refuses to bind a pod; empty where it does not.

    Source: pkg/registry/core/pod/storage/storage.go, ``setPodNodeAndMetadata`` (kubernetes v1.36.3).
    """
    if pod is None:
        return f'pods "{name}" not found'
    conflict = f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} is'
    if pod.is_deleted:
        return f"{conflict} being deleted, cannot be assigned to a host"
    return f'{conflict} already assigned to node "{pod.node_name}"' if pod.node_name is not None else ""
