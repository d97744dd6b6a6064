"""One try of one pod: where it goes, or why it goes nowhere and which less important pods must go for it.

Source: pkg/scheduler/schedule_one.go, ``schedulePod``; framework/preemption/preemption.go, ``Preempt``;
plugins/defaultpreemption/default_preemption.go (kubernetes v1.34.4), without disruption budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final

from ...model.version import Difference, Version
from ..cel.run import Effort
from ..objects.objects import JSON
from .cluster_state import ClusterState, NodeInfo, PodInfo
from .dynamic_resources.inventory import Inventory
from .dynamic_resources.plugin import BoundClaim, ClaimsCycle
from .dynamic_resources.requests import AllocatorError
from .plugins import Filters, PreferredNodes, scores
from .refusals import NO_NODES, PRE_BIND_FAILED, Plugin, Refusal, failed_scheduling, nodes_available

__all__ = ["Assignment", "Failure", "SchedulingCycles"]

_COUNTS_EXCLUDED_NODES: Final = Difference(
    "the FailedScheduling text counts the nodes that the pod excludes by name",
    {"1.26": False, "1.32": True},
    "scheduler/schedule_one.go, ``findNodesThatFitPod`` (kubernetes v1.31.14, v1.32.13)",
)

_SAYS_PLACE: Final = Difference(
    "the FailedScheduling text of a pod that preempts others says on which node, and how many",
    {"1.26": False, "1.37": True},
    "scheduler/framework/preemption/preemption.go, ``Preempt`` (kubernetes v1.36.3, v1.37.0)",
)
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_FILTERED_OUT: Final = "node(s) didn't satisfy plugin(s)"
_CONFLICT: Final = "pod affinity terms conflict"
_NOBODY_TO_PREEMPT: Final = "No preemption victims found for incoming pod"
_FEWEST_NODES: Final = 100
_FEWEST_PERCENT: Final = 5


@dataclass(frozen=True, slots=True)
class Assignment:
    """The node for a pod.

    Attributes:
        scores: those of all nodes that it fits, where these are several.
        claims: what it uses there.
    """

    node: str
    scores: Mapping[str, int] = field(default_factory=dict)
    claims: tuple[BoundClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A pod fits nowhere.

    Attributes:
        rejectors: the plugins that refused it; none where there is no node, or where the try ended with an error.
        nominated_node: where room is being made for it; empty where nowhere is, None where that does not change.
        victims: the pods that are to go for it.
        displaced: less important pods for which room was kept there.
        deallocated: a claim whose devices are given back for it.
        is_error: the try ended with an error, no node has refused the pod.
    """

    message: str
    rejectors: frozenset[Plugin] = frozenset()
    nominated_node: str | None = ""
    victims: tuple[PodInfo, ...] = ()
    displaced: tuple[PodInfo, ...] = ()
    deallocated: JSON | None = None
    is_error: bool = False


class SchedulingCycles:
    """Tries pods, one after the other.

    Args:
        state: of the cluster.
        inventory: its claims and devices; None where dynamic resource allocation is off.
        version: the scheduler's.
    """

    def __init__(self, state: ClusterState, inventory: Inventory | None, version: Version) -> None:
        self._state = state
        self._inventory = inventory
        self._version = version
        self._next_start = 0

    def try_pod(self, pod: PodInfo, effort: Effort) -> Assignment | Failure:
        """Choose a node for a pod; nothing changes.

        Raises:
            ExhaustedError: the effort was stopped in another thread.
            SchedulerPanicError: the scheduler of this version would end here.
        """
        if not self._state.nodes:
            return Failure(NO_NODES)
        claims = ClaimsCycle(pod, self._inventory, effort)
        try:
            return _Cycle(pod, self._state, self._version, self._take_turns(), claims, effort).result()
        except AllocatorError as error:
            return Failure(f'running "{Plugin.DYNAMIC_RESOURCES}" filter plugin: {error}', is_error=True)

    def _take_turns(self) -> list[NodeInfo]:
        """All nodes, beginning with another one each time in clusters where not all of them are looked at."""
        nodes = list(self._state.nodes.values())
        if len(nodes) <= _FEWEST_NODES:
            return nodes
        start = self._next_start % len(nodes)
        self._next_start = start + _enough_of(len(nodes))
        return nodes[start:] + nodes[:start]


class _Cycle:
    def __init__(
        self,
        pod: PodInfo,
        state: ClusterState,
        version: Version,
        nodes: list[NodeInfo],
        claims: ClaimsCycle,
        effort: Effort,
    ) -> None:
        self._effort = effort
        self._pod = pod
        self._state = state
        self._version = version
        self._nodes = nodes
        self._claims = claims
        self._filters = Filters(pod, nodes, version, claims.on, claims.extended)
        self._refusals: dict[str, Refusal] = {}

    def result(self) -> Assignment | Failure:
        named = _named_nodes(self._pod.spec)
        if named is not None and not named:
            return self._conflict()
        if self._claims.refusal is not None:
            reasons = f"{nodes_available(len(self._nodes), ())} {self._claims.refusal.reasons[0]}."
            return self._failure(reasons, {self._claims.refusal.plugin})
        nominated = self._state.nodes.get(self._pod.nominated_node)
        if nominated is not None and self._accepts(nominated):
            return self._assignment(nominated.name)
        # The text for the nodes that are not named is made now, so it has what speaks against the nominated one.
        filters = sorted({Plugin.NODE_AFFINITY, *(refusal.plugin for refusal in self._refusals.values())})
        feasible = self._feasible([node for node in self._nodes if named is None or node.name in named])
        if len(feasible) > 1:
            if fault := PreferredNodes(self._pod).fault():
                return Failure(f'running PreScore plugin "NodeAffinity": {fault}', is_error=True)
            if fault := self._claims.score_error():
                text = f'plugin "{Plugin.DYNAMIC_RESOURCES}" failed with: {fault}'
                return Failure(f"running Score plugins: {text}", is_error=True)
            rated = scores(self._pod, feasible, self._nodes, self._version, self._claims.scores(feasible))
            return self._assignment(min(rated, key=lambda name: (-rated[name], name)), rated)
        if feasible:
            return self._assignment(feasible[0].name)
        others = len(self._nodes) - len(self._refusals) if _COUNTS_EXCLUDED_NODES.at(self._version) else 0
        refused = chain.from_iterable(refusal.reasons for refusal in self._refusals.values())
        rejectors = {refusal.plugin for refusal in self._refusals.values()}
        filtered_out = [f"{_FILTERED_OUT} [{' '.join(filters)}]"] * others
        reasons = nodes_available(len(self._nodes), (*refused, *filtered_out))
        return self._failure(reasons, rejectors if named is None else rejectors | {Plugin.NODE_AFFINITY})

    def _assignment(self, node: str, rated: Mapping[str, int] = MappingProxyType({})) -> Assignment | Failure:
        if error := self._claims.error_on(node):
            return Failure(f"{PRE_BIND_FAILED}{error}", is_error=True)
        return Assignment(node, rated, self._claims.bound(node))

    def _feasible(self, nodes: Collection[NodeInfo]) -> list[NodeInfo]:
        return list(islice((node for node in nodes if self._accepts(node)), _enough_of(len(nodes))))

    def _accepts(self, node: NodeInfo) -> bool:
        refusal = self._fits(node)
        if refusal is not None:
            self._refusals[node.name] = refusal
        return refusal is None

    def _fits(self, node: NodeInfo, without: Collection[PodInfo] = ()) -> Refusal | None:
        """What speaks against a node, with the pods that are about to come there, and without.

        Source: framework/runtime/framework.go, ``RunFilterPluginsWithNominatedPods`` (kubernetes v1.34.4).
        """
        self._effort.spend()
        coming = [
            other
            for other in self._state.nominated_on(node.name)
            if other.priority >= self._pod.priority and other.uid != self._pod.uid
        ]
        refusal = self._filters.refusal(node, without=without, coming=coming) if coming else None
        return refusal or self._filters.refusal(node, without=without)

    def _conflict(self) -> Failure:
        """No try to make room follows: it ends with an error where dynamic resources are asked first.

        Source: plugins/dynamicresources/dynamicresources.go, ``PostFilter`` (kubernetes v1.34.4).
        """
        reasons = f"{nodes_available(len(self._nodes), ())} {_CONFLICT}."
        if self._claims.is_off:
            return self._failure(reasons, {Plugin.NODE_AFFINITY})
        message = failed_scheduling(reasons, ("not found",), self._version)
        return Failure(message, frozenset({Plugin.NODE_AFFINITY}), nominated_node=None)

    def _failure(self, reasons: str, rejectors: Iterable[Plugin]) -> Failure:
        done, deallocated = self._claims.clear_up()
        outcome = self._preempt()
        if isinstance(outcome, _Candidate):
            displaced = tuple(
                other for other in self._state.nominated_on(outcome.node) if other.priority < self._pod.priority
            )
            place = f"on node {outcome.node}, preempting {len(outcome.victims)} victims"
            found = (f"preemption: found a potential placement for pod {place}",)
            message = failed_scheduling(reasons, found if _SAYS_PLACE.at(self._version) else (), self._version)
            return Failure(
                message, frozenset(rejectors), outcome.node, outcome.victims, displaced, deallocated=deallocated
            )
        words, nominated_node = outcome
        message = failed_scheduling(reasons, (*done, f"preemption: {words}"), self._version)
        return Failure(message, frozenset(rejectors), nominated_node, deallocated=deallocated)

    def _preempt(self) -> _Candidate | tuple[str, str | None]:
        """Where to make room; or why not, and the node on which room is kept from now on (see `Failure`)."""
        if not self._pod.may_preempt:
            return "not eligible due to preemptionPolicy=Never.", None
        if self._waits_for_victims():
            return "not eligible due to a terminating pod on the nominated node.", None
        search = _Preemption(self._pod, self._fits)
        found: list[_Candidate] = []
        dismissed: list[str] = []
        for node in self._nodes:
            refusal = self._refusals.get(node.name)
            outcome = search.on(node) if refusal and refusal.is_resolvable else _Dismissal((_NOT_HELPFUL,))
            if isinstance(outcome, _Candidate):
                found.append(outcome)
            else:
                dismissed += outcome.reasons
        return _best_candidate(found) if found else (nodes_available(len(self._nodes), dismissed), "")

    def _waits_for_victims(self) -> bool:
        """Source: plugins/defaultpreemption/default_preemption.go, ``PodEligibleToPreemptOthers``."""
        node = self._state.nodes.get(self._pod.nominated_node)
        if node is None:
            return False
        refusal = self._refusals.get(node.name)
        if refusal is None or not refusal.is_resolvable:
            return False
        return any(other.is_preempted and other.priority < self._pod.priority for other in node.pods.values())


def _named_nodes(spec: Mapping[str, Any]) -> frozenset[str] | None:
    """The nodes that required terms name one by one, as DaemonSets do; None where a term leaves it open.

    Source: plugins/nodeaffinity/node_affinity.go, ``PreFilter`` (kubernetes v1.34.4).
    """
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")
    if not terms:
        return None
    named: frozenset[str] = frozenset()
    for term in terms:
        fields = [one for one in term.get("matchFields") or () if one.get("key") == "metadata.name"]
        values = [frozenset(one.get("values") or ()) for one in fields if one.get("operator") == "In"]
        if not values:
            return None
        named |= frozenset.intersection(*values)
    return named


def _enough_of(node_count: int) -> int:
    """How many nodes that a pod fits are enough to choose from.

    Source: pkg/scheduler/schedule_one.go, ``numFeasibleNodesToFind`` (kubernetes v1.34.4).
    """
    if node_count < _FEWEST_NODES:
        return node_count
    percent = max(50 - node_count // 125, _FEWEST_PERCENT)
    return max(node_count * percent // 100, _FEWEST_NODES)


_Fits = Callable[[NodeInfo, Collection[PodInfo]], Refusal | None]
"""Asks the filters about a node, from which some pods are thought away."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A node that a pod would fit without some others, the most important first."""

    node: str
    victims: tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True)
class _Dismissal:
    """Why preempting on a node would not help."""

    reasons: tuple[str, ...]


class _Preemption:
    """The search for victims of one pod."""

    def __init__(self, pod: PodInfo, fits: _Fits) -> None:
        self._pod = pod
        self._fits = fits

    def on(self, node: NodeInfo) -> _Candidate | _Dismissal:
        """The fewest and least important pods of a node that must go.

        Source: ``SelectVictimsOnNode``.
        """
        lesser = [other for other in node.pods.values() if other.priority < self._pod.priority]
        if not lesser:
            return _Dismissal((_NOBODY_TO_PREEMPT,))
        refusal = self._fits(node, lesser)
        if refusal is not None:
            return _Dismissal(refusal.reasons)
        gone = sorted(lesser, key=_unimportance)
        victims = []
        for other in tuple(gone):
            gone.remove(other)
            if self._fits(node, gone) is not None:
                gone.append(other)
                victims.append(other)
        return _Candidate(node.name, tuple(victims))


def _best_candidate(candidates: Iterable[_Candidate]) -> _Candidate:
    """The node where preempting hurts least; the first by name among equals.

    Source: ``pickOneNodeForPreemption``.
    """

    def harm(candidate: _Candidate) -> tuple[int, int, int]:
        priorities = [victim.priority + 2**31 for victim in candidate.victims]
        return priorities[0], sum(priorities), len(priorities)

    ordered = sorted(candidates, key=lambda candidate: candidate.node)
    least = min(harm(candidate) for candidate in ordered)
    return max((each for each in ordered if harm(each) == least), key=_earliest_start)


def _earliest_start(candidate: _Candidate) -> str:
    most = candidate.victims[0].priority
    return min(victim.start_time for victim in candidate.victims if victim.priority == most)


def _unimportance(pod: PodInfo) -> tuple[int, str]:
    return -pod.priority, pod.start_time
