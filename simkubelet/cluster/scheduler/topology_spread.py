"""Topology spread constraints: how even the pods of a selector must, or should, be over zones, nodes, ….

Those that a pod has by default are left out: they are for pods of Services, ReplicationControllers, ReplicaSets and
StatefulSets, which a simulated cluster does not have.

Source: pkg/scheduler/framework/plugins/podtopologyspread (kubernetes v1.26.15 to v1.37.2).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..objects.node_selection import HARD_TAINTS, matches_required_affinity, selects, untolerated_taint
from .cluster_state import NodeInfo, PodInfo
from .refusals import Plugin, Refusal

__all__ = ["SpreadConstraint", "SpreadFilter", "are_in_topology", "hard_constraints", "spread_scores"]

_SKEWED: Final = Refusal(
    Plugin.POD_TOPOLOGY_SPREAD, ("node(s) didn't match pod topology spread constraints",), is_resolvable=True
)
_NO_LABEL: Final = Refusal(
    Plugin.POD_TOPOLOGY_SPREAD, ("node(s) didn't match pod topology spread constraints (missing required label)",)
)
_HOSTNAME: Final = "kubernetes.io/hostname"
_MAX_SCORE: Final = 100


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """Pods that are to be spread, and over what; a topology is the nodes with one value of a label.

    Attributes:
        max_skew: how many more of the pods a topology may have than the one with the fewest.
        min_domains: with fewer topologies than that, the fewest count as none.
        labels: what the pods are selected by; None selects no pod.
        own: more labels that they must have.
        honors_affinity: nodes that the pod's node affinity excludes do not count.
        honors_taints: nodes with a taint that the pod does not tolerate do not count.
    """

    max_skew: int
    topology_key: str
    min_domains: int
    labels: Mapping[str, Any] | None
    own: Mapping[str, str]
    honors_affinity: bool
    honors_taints: bool

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is one of those that are spread."""
        return self.labels is not None and self.own.items() <= labels.items() and selects(self.labels, labels)

    def count_on(self, node: NodeInfo, namespace: str) -> int:
        """Return how many of the pods a node has; a selector that is empty finds none here."""
        if not (self.own or any((self.labels or {}).values())):
            return 0
        return sum(
            pod.namespace == namespace and not pod.is_deleted and self.selects(pod.labels) for pod in node.pods.values()
        )

    def takes(self, node: NodeInfo, pod: PodInfo) -> bool:
        """Whether a node's pods count for a pod that has the constraint.

        Source: common.go, ``matchNodeInclusionPolicies``.
        """
        if self.honors_affinity and not matches_required_affinity(pod.spec, node.as_json):
            return False
        return not self.honors_taints or untolerated_taint(node.taints, pod.tolerations, HARD_TAINTS) is None


def hard_constraints(pod: PodInfo) -> tuple[SpreadConstraint, ...]:
    """Return the constraints that no node may violate."""
    return _constraints(pod, "DoNotSchedule")


def are_in_topology(constraints: Iterable[SpreadConstraint], labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is in a topology of each constraint."""
    return all(constraint.topology_key in labels for constraint in constraints)


class SpreadFilter:
    """What the hard constraints of one pod leave of the nodes.

    Counts follow when pods are thought to come to a node or to leave it.
    """

    def __init__(self, pod: PodInfo, nodes: Iterable[NodeInfo]) -> None:
        self._pod = pod
        self._constraints = hard_constraints(pod)
        self._counts = [dict[str, int]() for _ in self._constraints]
        self._fewest: list[int | None] = [None] * len(self._constraints)
        self.has_a_say = bool(self._constraints)
        for node in nodes if self.has_a_say else ():
            for place, constraint in self._counted_on(node):
                self._add(place, node, constraint.count_on(node, pod.namespace))

    def copy(self) -> SpreadFilter:
        copied = SpreadFilter(self._pod, ())
        copied._counts, copied._fewest = [counts.copy() for counts in self._counts], self._fewest.copy()
        return copied

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """Take note of a pod that is on a node, or is not any more.

        Source: filtering.go, ``updateWithPod``.
        """
        if other.namespace == self._pod.namespace:
            for place, constraint in self._counted_on(node):
                if constraint.selects(other.labels):
                    self._add(place, node, sign)

    def refusal(self, node: NodeInfo) -> Refusal | None:
        for place, constraint in enumerate(self._constraints):
            if constraint.topology_key not in node.labels:
                return _NO_LABEL
            there = self._counts[place].get(node.labels[constraint.topology_key], 0)
            if there + constraint.selects(self._pod.labels) - self._fewest_of(place) > constraint.max_skew:
                return _SKEWED
        return None

    def _counted_on(self, node: NodeInfo) -> Sequence[tuple[int, SpreadConstraint]]:
        if not are_in_topology(self._constraints, node.labels):
            return ()
        return [pair for pair in enumerate(self._constraints) if pair[1].takes(node, self._pod)]

    def _add(self, place: int, node: NodeInfo, count: int) -> None:
        topology = node.labels[self._constraints[place].topology_key]
        self._counts[place][topology] = self._counts[place].get(topology, 0) + count
        self._fewest[place] = None

    def _fewest_of(self, place: int) -> int:
        found = self._fewest[place]
        if found is None:
            counts = self._counts[place]
            found = 0 if len(counts) < self._constraints[place].min_domains else min(counts.values())
            self._fewest[place] = found
        return found


def spread_scores(pod: PodInfo, feasible: Collection[NodeInfo], nodes: Iterable[NodeInfo]) -> dict[str, int] | None:
    """Return node -> 0 to 100, more where fewer of the pods are; None if the pod has no soft constraint.

    Source: scoring.go.
    """
    constraints = _constraints(pod, "ScheduleAnyway")
    if not constraints:
        return None
    rated = [node for node in feasible if are_in_topology(constraints, node.labels)]
    counts = [dict.fromkeys((node.labels[each.topology_key] for node in rated), 0) for each in constraints]
    for node in nodes:
        if are_in_topology(constraints, node.labels):
            for found, constraint in zip(counts, constraints, strict=True):
                topology = node.labels[constraint.topology_key]
                if constraint.topology_key != _HOSTNAME and topology in found and constraint.takes(node, pod):
                    found[topology] += constraint.count_on(node, pod.namespace)
    sums = {}
    for node in rated:
        score = 0.0
        for found, constraint in zip(counts, constraints, strict=True):
            if constraint.topology_key == _HOSTNAME:
                count, size = constraint.count_on(node, pod.namespace), len(rated)
            else:
                count, size = found[node.labels[constraint.topology_key]], len(found)
            score += count * math.log(size + 2) + (constraint.max_skew - 1)
        sums[node.name] = math.floor(score) + (score % 1 >= 0.5)
    low, high = min(sums.values(), default=0), max(sums.values(), default=0)
    normalized = {name: _MAX_SCORE * (high + low - one) // high if high else _MAX_SCORE for name, one in sums.items()}
    return {node.name: normalized.get(node.name, 0) for node in feasible}


def _constraints(pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
    """Source: common.go, ``filterTopologySpreadConstraints``."""
    return tuple(
        SpreadConstraint(
            max_skew=one.get("maxSkew") or 0,
            topology_key=one.get("topologyKey") or "",
            min_domains=1 if one.get("minDomains") is None else one["minDomains"],
            labels=one.get("labelSelector"),
            own={key: pod.labels[key] for key in one.get("matchLabelKeys") or () if key in pod.labels},
            honors_affinity=(one.get("nodeAffinityPolicy") or "Honor") == "Honor",
            honors_taints=one.get("nodeTaintsPolicy") == "Honor",
        )
        for one in pod.spec.get("topologySpreadConstraints") or ()
        if one.get("whenUnsatisfiable") == action
    )
