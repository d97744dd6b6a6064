"""What changes of nodes, pods and devices mean for the scheduler's view of its cluster, and for the pods that wait.

Source: pkg/scheduler/eventhandlers.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...model.node import Node
from ...model.pod import PodUID
from ...model.resources import ResourceName
from ...model.version import Difference, Version
from ..objects.device_taint_rules import TAINT_RULES
from ..objects.objects import Verb, Written
from .cluster_state import DEFAULT_SCHEDULER, ClusterState, PodInfo
from .dynamic_resources.extended_claims import classes_by_resource, left_to_claims
from .dynamic_resources.inventory import CLAIMS, CLASSES, SLICES, Inventory
from .hints import Kind, NodeEvent, PodEvent, ResourceEvent, node_changes, pod_changes
from .plugins import Filters
from .queue import HAS_QUEUEING_HINTS, SchedulingQueue

__all__ = ["EventHandlers"]

_NOMINATION_IS_TOLD: Final = Difference(
    "pods that had to yield to a pod that was nominated for a node are tried again when it goes, or is no longer "
    "nominated for that node",
    {"1.26": False, "1.33": True},
    "scheduler/eventhandlers.go, ``deletePodFromSchedulingQueue``, ``updatePodInSchedulingQueue`` (kubernetes "
    "v1.32.13, v1.33.13)",
)
_BINDING_IS_TOLD: Final = Difference(
    "pods that had to yield to a pod that was nominated for a node are tried again when it is bound",
    {"1.26": False, "1.33": True, "1.35": False},
    "scheduler/eventhandlers.go, ``deletePodFromSchedulingQueue`` (kubernetes v1.32.13, v1.33.13, v1.34.12, v1.35.8)",
)
_CLAIM_GOES: Final = Difference(
    "pods that wait for devices are tried again when a claim is deleted that has devices",
    {"1.26": False, "1.37": True},
    "plugins/dynamicresources/dynamicresources.go, ``isSchedulableAfterClaimChange`` (kubernetes v1.36.5, v1.37.2)",
)
_RESOURCE_KINDS: Final = {
    CLAIMS: Kind.CLAIM_WRITTEN,
    CLASSES: Kind.CLASS_WRITTEN,
    SLICES: Kind.SLICE_WRITTEN,
}


class EventHandlers:
    """Updates the view and the queue at each change of the objects.

    Args:
        state: the view.
        queue: the pods that wait.
        version: the scheduler's.
        inventory: the classes that stand for extended resources.
    """

    def __init__(self, state: ClusterState, queue: SchedulingQueue, version: Version, inventory: Inventory) -> None:
        self._inventory = inventory
        self._state = state
        self._queue = queue
        self._version = version
        self._pods: dict[PodUID, PodInfo] = {}
        self._assumed: dict[PodUID, PodInfo] = {}

    def put_node(self, node: Node) -> None:
        """A node came, or changed."""
        known = self._state.nodes.get(node.name)
        old = None if known is None else known.node
        self._state.put_node(node)
        if old is None:
            self._node_happened(NodeEvent(Kind.NODE_ADDED, None, node))
            return
        for event in node_changes(old, node):
            self._node_happened(event)

    def drop_node(self, name: str) -> None:
        """A node is gone."""
        known = self._state.nodes.get(name)
        if known is not None:
            if HAS_QUEUEING_HINTS.at(self._version):
                self._queue.happened(NodeEvent(Kind.NODE_DELETED, None, known.node))
            self._state.drop_node(name)

    def put_pod(self, pod: PodInfo) -> None:
        """A pod came, or changed; one that has ended is none any more."""
        old = self._pods.get(pod.uid)
        if pod.pod.status.phase.is_terminal:
            self.drop_pod(pod.uid)
            return
        if pod.node_name is None and pod.scheduler_name != DEFAULT_SCHEDULER:
            return
        self._pods[pod.uid] = pod
        if pod.node_name is None:
            self._pending(old, pod)
        else:
            self._bound(old, pod)

    def assume(self, pod: PodInfo, node: str) -> None:
        """A pod is about to be bound: it has its room on the node, and is not in the queue, until `forget`."""
        assumed = PodInfo(replace(pod.pod, node_name=node))
        self._assumed[pod.uid] = assumed
        self._state.nominate(pod, "")
        self._state.put_pod(assumed)

    def forget(self, uid: PodUID) -> None:
        """A pod is not bound after all; nothing happens where that was not assumed."""
        assumed = self._assumed.pop(uid, None)
        if assumed is not None:
            self._state.drop_pod(assumed)
            self._queue.happened(PodEvent(Kind.POD_DELETED, assumed, None))

    def known(self, uid: PodUID) -> PodInfo | None:
        """The newest state of a pod; None where it is gone."""
        return self._pods.get(uid)

    def drop_pod(self, uid: PodUID) -> None:
        """A pod is gone; nothing happens where it was not known."""
        old = self._pods.pop(uid, None)
        if old is None:
            return
        if old.uid in self._assumed:
            self.forget(uid)
        elif old.node_name is None:
            self._no_longer_pending(old)
        else:
            self._state.drop_pod(old)
            self._queue.happened(PodEvent(Kind.POD_DELETED, old, None))

    def put_resource(self, written: Written) -> bool:
        """Take a write to what dynamic resource allocation is made of; whether it may help pods."""
        inventory, kind = self._inventory, written.key.kind
        if kind == TAINT_RULES:
            if helps := inventory.take_rule(written):
                self._queue.happened(ResourceEvent(Kind.SLICE_WRITTEN))
            return helps
        inventory.take(written)
        if written.verb is Verb.DELETED:
            return self._claim_goes(written)
        event = ResourceEvent(_RESOURCE_KINDS[kind], self._newly_served(written))
        if kind == CLAIMS:
            self._queue.happened(event, lambda pod: inventory.concerns(pod, written.before, written.object))
        else:
            self._queue.happened(event)
        return True

    def _claim_goes(self, written: Written) -> bool:
        is_held = bool((written.object.get("status") or {}).get("allocation"))
        helps = written.key.kind == CLAIMS and is_held and _CLAIM_GOES.at(self._version)
        if helps:
            self._queue.happened(ResourceEvent(Kind.CLAIM_WRITTEN))
        return helps

    def _newly_served(self, written: Written) -> frozenset[ResourceName]:
        """Source: plugins/noderesources/fit.go, ``isSchedulableAfterDeviceClassEvent`` (kubernetes v1.36.3)."""
        if written.key.kind != CLASSES:
            return frozenset()
        before = frozenset(classes_by_resource([written.before] if written.before is not None else []))
        return (frozenset(classes_by_resource([written.object])) - before) & self._inventory.by_resource.keys()

    def _pending(self, old: PodInfo | None, pod: PodInfo) -> None:
        if pod.uid in self._assumed:
            if pod.is_deleted:
                self.forget(pod.uid)
            return
        if old is None:
            self._queue.add(pod)
            self._state.nominate(pod, pod.nominated_node)
            return
        self._queue.update(old, pod)
        is_kept = not old.nominated_node and not pod.nominated_node
        self._state.nominate(pod, self._state.nominated_node(pod.uid) if is_kept else pod.nominated_node)
        if old.nominated_node and old.nominated_node != pod.nominated_node:
            self._no_longer_nominated(old)

    def _bound(self, old: PodInfo | None, pod: PodInfo) -> None:
        assumed = self._assumed.pop(pod.uid, None)
        if assumed is not None:
            self._state.drop_pod(assumed)
        self._state.put_pod(pod)
        if old is not None and old.node_name is not None:
            for event in pod_changes(old, pod):
                self._queue.happened(event)
            return
        self._queue.happened(PodEvent(Kind.POD_ADDED, None, pod))
        if old is not None and assumed is None:
            self._no_longer_pending(old, is_told=_BINDING_IS_TOLD.at(self._version))

    def _no_longer_pending(self, pod: PodInfo, *, is_told: bool = True) -> None:
        self._queue.delete(pod.uid)
        self._state.nominate(pod, "")
        if pod.nominated_node and is_told:
            self._no_longer_nominated(pod)

    def _no_longer_nominated(self, pod: PodInfo) -> None:
        """Room that was kept for a pod is free for those that had to yield to it."""
        if not _NOMINATION_IS_TOLD.at(self._version):
            return
        event = PodEvent(Kind.POD_DELETED, pod, None)
        self._queue.happened(event, lambda other: other.priority <= pod.priority)

    def _node_happened(self, event: NodeEvent) -> None:
        if by_resource := self._inventory.by_resource:
            event = replace(event, left_to_claims=left_to_claims(by_resource, event.new.status.allocatable))
        self._queue.happened(event, self._admission_check(event.new))

    def _admission_check(self, node: Node) -> Callable[[PodInfo], bool]:
        """Up to 1.31, whether a pod fits a node now.

        Source: pkg/scheduler/eventhandlers.go, ``preCheckForNode`` (kubernetes v1.31.14).
        """
        if HAS_QUEUEING_HINTS.at(self._version):
            return lambda pod: True
        info = self._state.nodes[node.name]
        return lambda pod: Filters(pod, (), self._version).admit(info)
