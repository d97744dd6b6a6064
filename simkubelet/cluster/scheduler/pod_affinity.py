"""Affinity and anti-affinity between pods: who must, must not or would rather share a node, a zone, ….

Source: pkg/scheduler/framework/plugins/interpodaffinity (kubernetes v1.34.4), without namespace selectors that select
by label.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..objects.node_selection import selects
from .cluster_state import NodeInfo, PodInfo
from .refusals import Plugin, Refusal

__all__ = [
    "PodAffinityFilter",
    "PodTerm",
    "matches_all",
    "pod_affinity_scores",
    "required_affinity",
    "required_anti_affinity",
]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

_NO_AFFINITY: Final = Refusal(Plugin.INTER_POD_AFFINITY, ("node(s) didn't match pod affinity rules",))
_ANTI_AFFINITY: Final = Refusal(
    Plugin.INTER_POD_AFFINITY, ("node(s) didn't match pod anti-affinity rules",), is_resolvable=True
)
_OTHERS_ANTI_AFFINITY: Final = Refusal(
    Plugin.INTER_POD_AFFINITY, ("node(s) didn't satisfy existing pods anti-affinity rules",), is_resolvable=True
)
_HARD_WEIGHT: Final = 1

_Place = tuple[str, str]
"""A topology key and a node's value for it."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that a pod wants near or far, and what near means.

    Attributes:
        namespaces: where they are; None stands for everywhere.
        labels: what they are selected by; None selects no pod.
        weight: below zero for those that are better far; of a required term it says nothing.
    """

    topology_key: str
    namespaces: frozenset[str] | None
    labels: Mapping[str, Any] | None
    weight: int = 0

    def matches(self, pod: PodInfo) -> bool:
        if self.labels is None or (self.namespaces is not None and pod.namespace not in self.namespaces):
            return False
        return selects(self.labels, pod.labels)


def required_affinity(pod: PodInfo) -> tuple[PodTerm, ...]:
    """Whom a pod must be near."""
    return _required(pod, "podAffinity")


def required_anti_affinity(pod: PodInfo) -> tuple[PodTerm, ...]:
    """From whom a pod must be far."""
    return _required(pod, "podAntiAffinity")


def matches_all(terms: tuple[PodTerm, ...], pod: PodInfo) -> bool:
    """Whether a pod is one that all of some terms mean; there must be one term at least."""
    return bool(terms) and all(term.matches(pod) for term in terms)


def matches_any(terms: tuple[PodTerm, ...], pod: PodInfo) -> bool:
    """Whether a pod is one that one of some terms means."""
    return any(term.matches(pod) for term in terms)


class PodAffinityFilter:
    """What the required terms of one pod, and of those that run, leave of the nodes.

    Counts follow when pods are thought to come to a node or to leave it.
    """

    def __init__(self, pod: PodInfo, nodes: Iterable[NodeInfo]) -> None:
        self._pod = pod
        self._affinity = required_affinity(pod)
        self._anti_affinity = required_anti_affinity(pod)
        self._near: Counter[_Place] = Counter()
        self._far: Counter[_Place] = Counter()
        self._far_from_others: Counter[_Place] = Counter()
        has_terms = bool(self._affinity or self._anti_affinity)
        for node in nodes:
            for other in node.pods.values() if has_terms else node.with_pod_affinity.values():
                self.count(other, node, 1)
        self.has_a_say = has_terms or bool(self._far_from_others)

    def copy(self) -> PodAffinityFilter:
        copied = PodAffinityFilter(self._pod, ())
        copied._near, copied._far = self._near.copy(), self._far.copy()
        copied._far_from_others = self._far_from_others.copy()
        copied.has_a_say = self.has_a_say
        return copied

    def count(self, other: PodInfo, node: NodeInfo, sign: int) -> None:
        """Take note of a pod that is on a node, or is not any more."""
        for term in required_anti_affinity(other):
            if term.matches(self._pod):
                _add(self._far_from_others, term, node, sign)
        if matches_all(self._affinity, other):
            for term in self._affinity:
                _add(self._near, term, node, sign)
        for term in self._anti_affinity:
            if term.matches(other):
                _add(self._far, term, node, sign)

    def refusal(self, node: NodeInfo) -> Refusal | None:
        if not self._satisfies_affinity(node):
            return _NO_AFFINITY
        places = {term.topology_key: node.labels.get(term.topology_key, "") for term in self._anti_affinity}
        if any(self._far[place] > 0 for place in places.items() if place[0] in node.labels):
            return _ANTI_AFFINITY
        if any(self._far_from_others[place] > 0 for place in node.labels.items()):
            return _OTHERS_ANTI_AFFINITY
        return None

    def _satisfies_affinity(self, node: NodeInfo) -> bool:
        if any(term.topology_key not in node.labels for term in self._affinity):
            return False
        if all(self._near[term.topology_key, node.labels[term.topology_key]] > 0 for term in self._affinity):
            return True
        # The first of a group whose pods want to be together may go anywhere.
        return not +self._near and matches_all(self._affinity, self._pod)


def pod_affinity_scores(pod: PodInfo, feasible: Iterable[NodeInfo], nodes: Iterable[NodeInfo]) -> dict[str, int] | None:
    """Node -> 0 to 100 by preferred terms, and by required affinity of others; None if no pod has any."""
    own = (*_preferred(pod, "podAffinity", 1), *_preferred(pod, "podAntiAffinity", -1))
    weights: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        for other in node.pods.values() if own else node.with_pod_affinity.values():
            for term in (*(term for term in own if term.matches(other)), *_wishes_for(pod, other)):
                if term.topology_key in node.labels:
                    weights[term.topology_key][node.labels[term.topology_key]] += term.weight
    if not weights:
        return None
    sums = {
        node.name: sum(counts[node.labels[key]] for key, counts in weights.items() if key in node.labels)
        for node in feasible
    }
    low, high = min(sums.values()), max(sums.values())
    return {name: int(100 * ((count - low) / (high - low))) if high > low else 0 for name, count in sums.items()}


def _wishes_for(pod: PodInfo, other: PodInfo) -> Iterator[PodTerm]:
    hard = (PodTerm(term.topology_key, term.namespaces, term.labels, _HARD_WEIGHT) for term in required_affinity(other))
    for term in (*hard, *_preferred(other, "podAffinity", 1), *_preferred(other, "podAntiAffinity", -1)):
        if term.matches(pod):
            yield term


def _required(pod: PodInfo, kind: str) -> tuple[PodTerm, ...]:
    affinity = (pod.spec.get("affinity") or {}).get(kind) or {}
    return tuple(_term(term, pod) for term in affinity.get(_REQUIRED) or ())


def _preferred(pod: PodInfo, kind: str, sign: int) -> tuple[PodTerm, ...]:
    affinity = (pod.spec.get("affinity") or {}).get(kind) or {}
    return tuple(
        _term(each.get("podAffinityTerm") or {}, pod, sign * each.get("weight", 0))
        for each in affinity.get(_PREFERRED) or ()
    )


def _term(term: Mapping[str, Any], pod: PodInfo, weight: int = 0) -> PodTerm:
    namespaces = frozenset(term.get("namespaces") or ())
    everywhere = term.get("namespaceSelector") == {}
    if not namespaces and term.get("namespaceSelector") is None:
        namespaces = frozenset({pod.namespace})
    return PodTerm(term.get("topologyKey", ""), None if everywhere else namespaces, term.get("labelSelector"), weight)


def _add(counts: Counter[_Place], term: PodTerm, node: NodeInfo, sign: int) -> None:
    if term.topology_key in node.labels:
        counts[term.topology_key, node.labels[term.topology_key]] += sign
