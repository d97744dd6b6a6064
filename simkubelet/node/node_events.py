"""The Kubernetes Events that a kubelet records about its own node.

Source: kubelet/kubelet.go, ``BirthCry``; kubelet_node_status.go, ``recordNodeStatusEvent``; nodestatus/setters.go;
cm/node_container_manager_linux.go, ``enforceNodeAllocatableCgroups`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ..cluster.store.store import Store
from ..model.node_condition import ConditionStatus, ConditionType, NodeCondition

__all__ = ["NodeEvents"]

_COMPONENT: Final = "kubelet"


class NodeEvents:
    """The Events of one node, told by its kubelet."""

    def __init__(self, node: str, store: Store) -> None:
        self._node = node
        self._store = store

    def started(self) -> None:
        """The kubelet has started, and remembers no Event."""
        self._store.recorder.forget(_COMPONENT, self._node)
        self._record("Starting", "Starting kubelet.")
        self._record("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")

    def changed(self, before: Sequence[NodeCondition], after: Sequence[NodeCondition]) -> None:
        """The node's conditions are others now."""
        for reason in _reasons(before, after):
            self._record(reason, f"Node {self._node} status is now: {reason}")

    def _record(self, reason: str, message: str) -> None:
        # To a kubelet, its node's name is the node's uid.
        about = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": self._node}
        self._store.recorder.record(about, "Normal", reason, message, _COMPONENT, host=self._node)


def _reasons(before: Sequence[NodeCondition], after: Sequence[NodeCondition]) -> Iterable[str]:
    known = {condition.type: condition.status for condition in before}
    for condition in after:
        if condition.status is known.get(condition.type):
            continue
        if condition.type is not ConditionType.READY:
            yield condition.reason.replace("Kubelet", "Node", 1)
        elif condition.type in known:
            yield "NodeReady" if condition.status is ConditionStatus.TRUE else "NodeNotReady"
