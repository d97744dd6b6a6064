"""What happens in a cluster, and whether it is worth another try of a pod that was refused.

Source: pkg/scheduler/framework/events.go; ``EventsToRegister`` and the queueing hints of each plugin below
pkg/scheduler/framework/plugins (kubernetes v1.34.4 to v1.37.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from ...model.node import Node
from ...model.resources import PODS, ResourceName, insufficient_resources
from ...model.version import Difference, Version
from ..objects.node_selection import HARD_TAINTS, is_undecidable, matches_required_affinity, untolerated_taint
from .cluster_state import PodInfo, have_clash
from .plugins import tolerates_cordon
from .pod_affinity import matches_all, matches_any, required_affinity, required_anti_affinity
from .refusals import Plugin
from .topology_spread import are_in_topology, hard_constraints

__all__ = [
    "ClusterEvent",
    "Kind",
    "NodeEvent",
    "PodEvent",
    "ResourceEvent",
    "is_of_interest",
    "is_worth_a_try",
    "node_changes",
    "pod_changes",
]


class Kind(Enum):
    """What happened; each changed part of a node or a pod is an event of its own."""

    NODE_ADDED = auto()
    NODE_ALLOCATABLE = auto()
    NODE_DELETED = auto()
    NODE_LABELS = auto()
    NODE_TAINTS = auto()
    CLAIM_WRITTEN = auto()
    CLASS_WRITTEN = auto()
    SLICE_WRITTEN = auto()
    POD_ADDED = auto()
    POD_CLAIM_GENERATED = auto()
    POD_DELETED = auto()
    POD_LABELS = auto()
    POD_SCALED_DOWN = auto()
    POD_TOLERATIONS = auto()
    POD_UNGATED = auto()


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node came, changed or went.

    Attributes:
        old: its state before; None where it came or went.
        new: its newest state.
        left_to_claims: extended resources of which it has none, and that claims serve.
    """

    kind: Kind
    old: Node | None
    new: Node
    left_to_claims: frozenset[ResourceName] = frozenset()


@dataclass(frozen=True, slots=True)
class ResourceEvent:
    """A claim, class or slice of dynamic resources was added or changed; who reports it says which pods it concerns.

    Attributes:
        resources: the extended resources that a class newly stands for.
    """

    kind: Kind
    resources: frozenset[ResourceName] = frozenset()


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A bound pod was added, changed or deleted, or a waiting pod was changed."""

    kind: Kind
    old: PodInfo | None
    new: PodInfo | None


_SPREADS_AGAIN: Final = Difference(
    "a pod that waits as its topology spread constraints allow no node is tried again when a pod of its namespace is "
    "bound or has other labels; from 1.32 on only where that may help",
    {"1.26": False, "1.31": True},
    "backend/queue/scheduling_queue.go, ``getUnschedulablePodsWithCrossTopologyTerm`` (kubernetes v1.30.14, v1.31.14)",
)
_TAINTS_AS_NEW: Final = Difference(
    "a pod that waits for new nodes is tried again when the taints of a node change, whatever refused it",
    {"1.26": True, "1.37": False},
    "scheduler/scheduler.go, ``buildQueueingHintMap`` (kubernetes v1.36.5, v1.37.2)",
)
_COUNTS_NOMINATED: Final = Difference(
    "a pod that waits as others are near or far, or are not spread evenly, is tried again when a pod that was only "
    "nominated for a node goes",
    {"1.26": False, "1.36": True},
    "plugins/interpodaffinity/plugin.go, ``isSchedulableAfterPodChange``; plugins/podtopologyspread/plugin.go, "
    "``involvedInTopologySpreading`` (kubernetes v1.35.8, v1.36.5)",
)
_IS_SHUNNED: Final = Difference(
    "a pod that waits as others must be far from it is tried again when one of these goes, or its own labels change",
    {"1.26": False, "1.36": True},
    "plugins/interpodaffinity/plugin.go, ``isSchedulableAfterPodChange`` (kubernetes v1.35.8, v1.36.5)",
)
_ONE_TERM_SUFFICES: Final = Difference(
    "a pod that waits as it must be far from others is tried again when a pod goes that one of its terms means; "
    "before, only when all of them mean it",
    {"1.26": False, "1.37": True},
    "plugins/interpodaffinity/plugin.go, ``podMatchesAnyAffinityTerms`` (kubernetes v1.36.5, v1.37.2)",
)
ClusterEvent: TypeAlias = NodeEvent | PodEvent | ResourceEvent
_GENERATED_CLAIMS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus")


def node_changes(old: Node, new: Node) -> Iterator[NodeEvent]:
    """Source: framework/events.go, ``NodeSchedulingPropertiesChange`` (kubernetes v1.34.4)."""
    if old.is_unschedulable and not new.is_unschedulable:
        yield NodeEvent(Kind.NODE_TAINTS, old, new)
    if old.status.allocatable != new.status.allocatable:
        yield NodeEvent(Kind.NODE_ALLOCATABLE, old, new)
    if old.labels != new.labels:
        yield NodeEvent(Kind.NODE_LABELS, old, new)
    if old.taints != new.taints:
        yield NodeEvent(Kind.NODE_TAINTS, old, new)


def pod_changes(old: PodInfo, new: PodInfo) -> Iterator[PodEvent]:
    """Source: framework/events.go, ``PodSchedulingPropertiesChange`` (kubernetes v1.34.4)."""
    if old.labels != new.labels:
        yield PodEvent(Kind.POD_LABELS, old, new)
    if any(amount > new.requests.get(name, 0) for name, amount in old.requests.items()):
        yield PodEvent(Kind.POD_SCALED_DOWN, old, new)
    if old.is_gated and not new.is_gated:
        yield PodEvent(Kind.POD_UNGATED, old, new)
    if len(old.tolerations) != len(new.tolerations):
        yield PodEvent(Kind.POD_TOLERATIONS, old, new)
    if any(old.status.get(name) != new.status.get(name) for name in _GENERATED_CLAIMS):
        yield PodEvent(Kind.POD_CLAIM_GENERATED, old, new)


def is_worth_a_try(plugin: Plugin, pod: PodInfo, event: ClusterEvent, version: Version) -> bool:
    """Whether an event may turn a plugin's no about a waiting pod into a yes."""
    if isinstance(event, ResourceEvent):
        is_served = plugin is Plugin.NODE_RESOURCES_FIT and any(map(pod.requests.get, event.resources))
        return plugin is Plugin.DYNAMIC_RESOURCES or is_served
    if isinstance(event, NodeEvent):
        node_hint = _NODE_HINTS.get((plugin, event.kind))
        if node_hint is None:
            waits_for_nodes = (plugin, Kind.NODE_ADDED) in _NODE_HINTS
            return event.kind is Kind.NODE_TAINTS and waits_for_nodes and _TAINTS_AS_NEW.at(version)
        if node_hint is _grown_enough:
            return _grown_enough(pod, event.old, event.new, event.left_to_claims)
        return node_hint(pod, event.old, event.new)
    pod_hint = _POD_HINTS.get((plugin, event.kind))
    return pod_hint is not None and pod_hint(pod, event.old, event.new, version)


def is_of_interest(plugin: Plugin, pod: PodInfo, event: ClusterEvent, version: Version) -> bool:
    """The same up to 1.31, where no plugin looks at what exactly changed of a node, and any pod that goes may help."""
    if isinstance(event, NodeEvent):
        return plugin is not Plugin.SCHEDULING_GATES
    if isinstance(event, PodEvent) and event.kind is Kind.POD_DELETED:
        return (plugin, event.kind) in _POD_HINTS
    if isinstance(event, PodEvent) and plugin is Plugin.POD_TOPOLOGY_SPREAD:
        is_near = event.new is not None and event.new.namespace == pod.namespace
        return is_near and event.kind in (Kind.POD_ADDED, Kind.POD_LABELS) and _SPREADS_AGAIN.at(version)
    return is_worth_a_try(plugin, pod, event, version)


def _uncordoned(_: PodInfo, old: Node | None, new: Node) -> bool:
    return (old is None or old.is_unschedulable) and not new.is_unschedulable


def _cordon_tolerated(pod: PodInfo, _: PodInfo | None, new: PodInfo | None, __: Version) -> bool:
    return new is not None and new.uid == pod.uid and tolerates_cordon(new)


def _itself(pod: PodInfo, _: PodInfo | None, new: PodInfo | None, __: Version) -> bool:
    return new is not None and new.uid == pod.uid


def _taints_tolerated(pod: PodInfo, old: Node | None, new: Node) -> bool:
    return (old is None or not _tolerates(pod, old)) and _tolerates(pod, new)


def _tolerates(pod: PodInfo, node: Node) -> bool:
    taints = (node.manifest.get("spec") or {}).get("taints") or ()
    return untolerated_taint(taints, pod.tolerations, HARD_TAINTS) is None


def _matches_now(pod: PodInfo, old: Node | None, new: Node) -> bool:
    if not matches_required_affinity(pod.spec, new.manifest):
        return is_undecidable(pod.spec, new.manifest)
    return old is None or not matches_required_affinity(pod.spec, old.manifest)


def _any_node(_pod: PodInfo, _old: Node | None, _new: Node) -> bool:
    return True


def _has_place(pod: PodInfo) -> bool:
    return bool(pod.node_name or pod.nominated_node)


def _port_freed(pod: PodInfo, old: PodInfo | None, _: PodInfo | None, __: Version) -> bool:
    return old is not None and _has_place(old) and have_clash(pod.host_ports, old.host_ports)


def _grown_enough(pod: PodInfo, old: Node | None, new: Node, left_to_claims: Set[ResourceName] = frozenset()) -> bool:
    requests = {name: amount for name, amount in pod.requests.items() if name not in left_to_claims}
    if insufficient_resources(requests, new.status.allocatable, {}):
        return False
    if old is None or any(pod.requests.get(name) for name in left_to_claims):
        return True
    before, now = old.status.allocatable, new.status.allocatable
    wanted = (PODS, *(name for name, amount in pod.requests.items() if amount))
    return any(now.get(name, 0) > before.get(name, 0) for name in wanted)


def _room_freed(_: PodInfo, old: PodInfo | None, __: PodInfo | None, ___: Version) -> bool:
    return old is not None and _has_place(old)


def _asks_for_less(pod: PodInfo, old: PodInfo | None, new: PodInfo | None, _: Version) -> bool:
    if old is None or new is None:
        return False
    if new.uid == pod.uid:
        return True
    wanted = (name for name, amount in pod.requests.items() if amount)
    return bool(new.node_name) and any(old.requests.get(name, 0) > new.requests.get(name, 0) for name in wanted)


def _company_changed(pod: PodInfo, old: PodInfo | None, new: PodInfo | None, version: Version) -> bool:
    """Source: plugins/interpodaffinity/plugin.go, ``isSchedulableAfterAssignedPodChange`` (kubernetes v1.37.2)."""
    is_shunned = _IS_SHUNNED.at(version)
    if old is not None and new is not None and new.uid == pod.uid:
        return is_shunned
    if not all(_counts(other, version) for other in (old, new) if other is not None):
        return False
    near, far = required_affinity(pod), required_anti_affinity(pod)
    is_meant = matches_any if _ONE_TERM_SUFFICES.at(version) else matches_all
    if new is not None and matches_all(near, new) and not (old and matches_all(near, old)):
        return True
    if old is None:
        return False
    if is_meant(far, old) and not (new and is_meant(far, new)):
        return True
    return is_shunned and new is None and is_meant(required_anti_affinity(old), pod)


def _counts(pod: PodInfo, version: Version) -> bool:
    """Whether a pod is one of those that pods are near to, far from or spread over."""
    return bool(pod.node_name) or (_COUNTS_NOMINATED.at(version) and bool(pod.nominated_node))


def _place_changed(pod: PodInfo, old: Node | None, new: Node) -> bool:
    before: Mapping[str, str] = {} if old is None else old.labels
    for term in required_affinity(pod):
        place = new.labels.get(term.topology_key)
        if place is not None and place != before.get(term.topology_key):
            return True
    far = required_anti_affinity(pod)
    if old is None:
        return bool(far)
    return any(before.get(term.topology_key) not in (None, new.labels.get(term.topology_key)) for term in far)


def _spread_changed(pod: PodInfo, old: PodInfo | None, new: PodInfo | None, version: Version) -> bool:
    """Source: plugins/podtopologyspread/plugin.go, ``isSchedulableAfterPodChange`` (kubernetes v1.36.5)."""
    states = [other for other in (old, new) if other is not None]
    others = (other for other in states if other.uid != pod.uid)
    if not all(_counts(other, version) and other.namespace == pod.namespace for other in others):
        return False
    constraints = hard_constraints(pod)
    if old is None or new is None:
        return any(one.selects(other.labels) for one in constraints for other in states)
    if new.uid == pod.uid and new.tolerations != old.tolerations and any(one.honors_taints for one in constraints):
        return True
    return any(one.selects(old.labels) != one.selects(new.labels) for one in constraints)


def _topologies_changed(pod: PodInfo, old: Node | None, new: Node) -> bool:
    """Source: plugins/podtopologyspread/plugin.go, ``isSchedulableAfterNodeChange`` (kubernetes v1.34.4)."""
    constraints = hard_constraints(pod)
    is_in = are_in_topology(constraints, new.labels)
    if old is None or is_in is not are_in_topology(constraints, old.labels):
        return old is not None or is_in
    keys = {one.topology_key for one in constraints}
    return is_in and (new.taints != old.taints or any(new.labels[key] != old.labels[key] for key in keys))


_PodHint: TypeAlias = Callable[[PodInfo, PodInfo | None, PodInfo | None, Version], bool]
_NODE_HINTS: Final[Mapping[tuple[Plugin, Kind], Callable[[PodInfo, Node | None, Node], bool]]] = {
    (Plugin.NODE_UNSCHEDULABLE, Kind.NODE_ADDED): _uncordoned,
    (Plugin.NODE_UNSCHEDULABLE, Kind.NODE_TAINTS): _uncordoned,
    (Plugin.TAINT_TOLERATION, Kind.NODE_ADDED): _taints_tolerated,
    (Plugin.TAINT_TOLERATION, Kind.NODE_TAINTS): _taints_tolerated,
    (Plugin.NODE_AFFINITY, Kind.NODE_ADDED): _matches_now,
    (Plugin.NODE_AFFINITY, Kind.NODE_LABELS): _matches_now,
    (Plugin.NODE_PORTS, Kind.NODE_ADDED): _any_node,
    (Plugin.NODE_RESOURCES_FIT, Kind.NODE_ADDED): _grown_enough,
    (Plugin.NODE_RESOURCES_FIT, Kind.NODE_ALLOCATABLE): _grown_enough,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.NODE_ADDED): _topologies_changed,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.NODE_DELETED): _topologies_changed,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.NODE_LABELS): _topologies_changed,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.NODE_TAINTS): _topologies_changed,
    (Plugin.INTER_POD_AFFINITY, Kind.NODE_ADDED): _place_changed,
    (Plugin.INTER_POD_AFFINITY, Kind.NODE_LABELS): _place_changed,
    (Plugin.DYNAMIC_RESOURCES, Kind.NODE_ADDED): _any_node,
    (Plugin.DYNAMIC_RESOURCES, Kind.NODE_ALLOCATABLE): _any_node,
    (Plugin.DYNAMIC_RESOURCES, Kind.NODE_LABELS): _any_node,
}
_POD_HINTS: Final[Mapping[tuple[Plugin, Kind], _PodHint]] = {
    (Plugin.SCHEDULING_GATES, Kind.POD_UNGATED): _itself,
    (Plugin.NODE_UNSCHEDULABLE, Kind.POD_TOLERATIONS): _cordon_tolerated,
    (Plugin.TAINT_TOLERATION, Kind.POD_TOLERATIONS): _itself,
    (Plugin.NODE_PORTS, Kind.POD_DELETED): _port_freed,
    (Plugin.NODE_RESOURCES_FIT, Kind.POD_DELETED): _room_freed,
    (Plugin.NODE_RESOURCES_FIT, Kind.POD_SCALED_DOWN): _asks_for_less,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.POD_ADDED): _spread_changed,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.POD_DELETED): _spread_changed,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.POD_LABELS): _spread_changed,
    (Plugin.POD_TOPOLOGY_SPREAD, Kind.POD_TOLERATIONS): _spread_changed,
    (Plugin.INTER_POD_AFFINITY, Kind.POD_ADDED): _company_changed,
    (Plugin.INTER_POD_AFFINITY, Kind.POD_DELETED): _company_changed,
    (Plugin.INTER_POD_AFFINITY, Kind.POD_LABELS): _company_changed,
    (Plugin.DYNAMIC_RESOURCES, Kind.POD_CLAIM_GENERATED): _itself,
}
