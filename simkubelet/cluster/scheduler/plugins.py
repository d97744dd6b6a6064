"""What the plugins of the default profile say about nodes: which of them a pod fits, and how well.

Source: pkg/scheduler/framework/plugins (kubernetes v1.34.4): nodeunschedulable, tainttoleration, nodeaffinity,
nodeports, noderesources (fit, least and balanced allocation), podtopologyspread, interpodaffinity; weights:
pkg/scheduler/apis/config/v1/default_plugins.go; component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go,
``PreferredSchedulingTerms`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from ...model.resources import ResourceName, insufficient_resources
from ...model.version import Difference, Version
from ..api.errors import FieldError
from ..api.registry.names import is_label_value
from ..objects.node_selection import (
    HARD_TAINTS,
    Tolerations,
    as_integer,
    matches_required_affinity,
    matches_term,
    tolerates,
    untolerated_taint,
)
from .cluster_state import CPU, MEMORY, NodeInfo, PodInfo, have_clash
from .dynamic_resources.extended_claims import left_to_claims
from .pod_affinity import PodAffinityFilter, pod_affinity_scores
from .refusals import Plugin, Refusal
from .topology_spread import SpreadFilter, spread_scores

__all__ = ["Filters", "PreferredNodes", "scores", "tolerates_cordon"]

_UNTOLERATED_TAINT: Final = Difference(
    "the scheduler's text for a taint, with ``{key}`` and ``{value}``",
    {"1.26": "node(s) had untolerated taint {{{key}: {value}}}", "1.34.2": "node(s) had untolerated taint(s)"},
    "tainttoleration/taint_toleration.go, ``Filter`` (kubernetes v1.34.0, v1.34.2)",
)
_HAS_UNRESOLVABLE_REQUESTS: Final = Difference(
    "no preemption is tried for a request above the node's allocatable, and the FailedScheduling text says so",
    {"1.26": False, "1.34": True},
    "noderesources/fit.go, ``fitsRequest`` (kubernetes v1.33.13, v1.34.4)",
)
_SKIPS_BALANCE_OF_BEST_EFFORT: Final = Difference(
    "pods that request no CPU and no memory are not scored by the balance of both",
    {"1.26": False, "1.33": True},
    "noderesources/balanced_allocation.go, ``PreScore`` (kubernetes v1.32.13, v1.33.13)",
)
_SCORES_GAIN_OF_BALANCE: Final = Difference(
    "the balance of CPU and memory counts by how much a pod improves it, not as it is with the pod",
    {"1.26": False, "1.36": True},
    "noderesources/balanced_allocation.go, ``balancedResourceScorer`` (kubernetes v1.35.4, v1.36.3)",
)

_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_MAX_SCORE: Final = 100
_TAINT_TOLERATION_WEIGHT: Final = 3
_NODE_AFFINITY_WEIGHT: Final = 2
_POD_AFFINITY_WEIGHT: Final = 2
_DYNAMIC_RESOURCES_WEIGHT: Final = 2
_TOPOLOGY_SPREAD_WEIGHT: Final = 2

_CORDONED: Final = Refusal(Plugin.NODE_UNSCHEDULABLE, ("node(s) were unschedulable",))
_NO_AFFINITY: Final = Refusal(Plugin.NODE_AFFINITY, ("node(s) didn't match Pod's node affinity/selector",))
_PORT_TAKEN: Final = Refusal(
    Plugin.NODE_PORTS, ("node(s) didn't have free ports for the requested pod ports",), is_resolvable=True
)


class Filters:
    """The filters that have a say about one pod, in the order of the default profile.

    Args:
        nodes: all nodes of the cluster, for what depends on the pods of others.
        claims: says whether a node has devices for the pod's claims; asked last.
        extended: resources that claims serve where a node has none of them.
    """

    def __init__(
        self,
        pod: PodInfo,
        nodes: Collection[NodeInfo],
        version: Version,
        claims: Callable[[NodeInfo], Refusal | None] = lambda node: None,
        extended: Collection[ResourceName] = (),
    ) -> None:
        self._extended = extended
        self._pod = pod
        self._version = version
        self._spread = SpreadFilter(pod, nodes)
        self._pod_affinity = PodAffinityFilter(pod, nodes)
        self._claims = claims
        self._filters: list[Callable[[NodeInfo], Refusal | None]] = []
        if pod.spec.get("nodeSelector") or (pod.spec.get("affinity") or {}).get("nodeAffinity"):
            self._filters.append(self._node_affinity)
        if pod.host_ports:
            self._filters.append(self._ports)
        self._filters.append(self._resources)

    def refusal(
        self, node: NodeInfo, *, without: Collection[PodInfo] = (), coming: Collection[PodInfo] = ()
    ) -> Refusal | None:
        """The first no about a node; None where the pod fits.

        Args:
            node: a node of the cluster.
            without: pods of the node that are thought away.
            coming: pods that are thought to be there.
        """
        spread, pod_affinity = self._spread, self._pod_affinity
        if without or coming:
            tried, spread, pod_affinity = node.copy(), spread.copy(), pod_affinity.copy()
            for other in without:
                tried.remove(other)
                spread.count(other, node, -1)
                pod_affinity.count(other, node, -1)
            for other in coming:
                tried.put(other)
                spread.count(other, node, 1)
                pod_affinity.count(other, node, 1)
            node = tried
        for ask in (self._cordon, self._taints, *self._filters):
            refusal = ask(node)
            if refusal is not None:
                return refusal
        refusal = spread.refusal(node) if spread.has_a_say else None
        if refusal is None and pod_affinity.has_a_say:
            refusal = pod_affinity.refusal(node)
        return refusal or self._claims(node)

    def admit(self, node: NodeInfo) -> bool:
        """Whether a node is a reason to try the pod again up to 1.31, whatever other pods and claims say.

        Source: pkg/scheduler/eventhandlers.go, ``preCheckForNode``, ``AdmissionCheck`` (kubernetes v1.31.14).
        """
        if untolerated_taint(node.taints, self._pod.tolerations, ("NoSchedule",)) is not None:
            return False
        return all(ask(node) is None for ask in self._filters)

    def _cordon(self, node: NodeInfo) -> Refusal | None:
        if not node.node.is_unschedulable or tolerates_cordon(self._pod):
            return None
        return _CORDONED

    def _taints(self, node: NodeInfo) -> Refusal | None:
        if not node.taints:
            return None
        taint = untolerated_taint(node.taints, self._pod.tolerations, HARD_TAINTS)
        if taint is None:
            return None
        reason = _UNTOLERATED_TAINT.at(self._version).format(key=taint.get("key") or "", value=taint.get("value") or "")
        return Refusal(Plugin.TAINT_TOLERATION, (reason,))

    def _node_affinity(self, node: NodeInfo) -> Refusal | None:
        return None if matches_required_affinity(self._pod.spec, node.as_json) else _NO_AFFINITY

    def _ports(self, node: NodeInfo) -> Refusal | None:
        return _PORT_TAKEN if have_clash(self._pod.host_ports, node.host_ports) else None

    def _resources(self, node: NodeInfo) -> Refusal | None:
        requests = self._pod.requests
        if self._extended:
            left = left_to_claims(self._extended, node.allocatable)
            requests = {name: amount for name, amount in requests.items() if name not in left}
        missing = insufficient_resources(requests, node.allocatable, node.requested)
        if not missing:
            return None
        reasons = tuple(each.reason for each in missing)
        is_hopeless = _HAS_UNRESOLVABLE_REQUESTS.at(self._version) and any(each.is_unresolvable for each in missing)
        return Refusal(Plugin.NODE_RESOURCES_FIT, reasons, is_resolvable=not is_hopeless)


def tolerates_cordon(pod: PodInfo) -> bool:
    """Whether a pod may go to nodes that are marked unschedulable."""
    return any(tolerates(toleration, _CORDON) for toleration in pod.tolerations)


class PreferredNodes:
    """The preferred terms of one pod; there may be none."""

    def __init__(self, pod: PodInfo) -> None:
        affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
        self._terms: Sequence[Mapping[str, Any]] = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def fault(self) -> str:
        """What makes the scheduler fail that the API server lets pass; empty where there is nothing."""
        texts = list(dict.fromkeys(map(str, self._faults())))
        return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)

    def weight(self, node: NodeInfo) -> int:
        """The weights of the terms that a node meets."""
        met = (one for one in self._terms if matches_term(one.get("preference") or {}, node.labels, node.name))
        return sum(one.get("weight", 0) for one in met)

    def _faults(self) -> Iterator[FieldError]:
        """Source: apimachinery/pkg/labels/selector.go, ``NewRequirement`` (v0.34.4)."""
        for place, term in enumerate(self._terms):
            for number, one in enumerate((term.get("preference") or {}).get("matchExpressions") or ()):
                path = f"[{place}].matchExpressions[{number}].values"
                values: Sequence[str] = one.get("values") or ()
                if one.get("operator") in ("Gt", "Lt"):
                    text = "for 'Gt', 'Lt' operators, the value must be an integer"
                    wrong = [index for index, value in enumerate(values) if as_integer(value) is None]
                    yield from (FieldError.invalid(f"{path}[{index}]", values[index], text) for index in wrong)
                for index, value in enumerate(values):
                    if faults := is_label_value(value):
                        where = f"{path}[{index}][{one.get('key', '')}]"
                        yield FieldError.invalid(where, value, "; ".join(faults))


def scores(
    pod: PodInfo,
    feasible: Collection[NodeInfo],
    nodes: Collection[NodeInfo],
    version: Version,
    claims: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Node -> the sum of what all plugins give it, weighted.

    Args:
        pod: the pod that is tried.
        feasible: the nodes that the pod fits; one at least.
        nodes: all nodes of the cluster.
        version: of the scheduler.
        claims: node -> what DynamicResources gives it; none where that plugin has no say.
    """
    total = {node.name: _least_allocated(pod, node) for node in feasible}
    if any(pod.requests.get(name) for name in (CPU, MEMORY)) or not _SKIPS_BALANCE_OF_BEST_EFFORT.at(version):
        for node in feasible:
            total[node.name] += _balanced(pod, node, version)
    taints = _normalized({node.name: _soft_taints(pod, node) for node in feasible if node.taints})
    for name in total:
        total[name] += _TAINT_TOLERATION_WEIGHT * (_MAX_SCORE - taints.get(name, 0))
    preferred = PreferredNodes(pod)
    for name, score in _normalized({node.name: preferred.weight(node) for node in feasible if preferred}).items():
        total[name] += _NODE_AFFINITY_WEIGHT * score
    for name, score in (spread_scores(pod, feasible, nodes) or {}).items():
        total[name] += _TOPOLOGY_SPREAD_WEIGHT * score
    for name, score in (pod_affinity_scores(pod, feasible, nodes) or {}).items():
        total[name] += _POD_AFFINITY_WEIGHT * score
    for name, score in _normalized(claims).items():
        total[name] += _DYNAMIC_RESOURCES_WEIGHT * score
    return total


def _least_allocated(pod: PodInfo, node: NodeInfo) -> int:
    """Source: noderesources/least_allocated.go, ``leastResourceScorer`` (kubernetes v1.34.4)."""
    shares = []
    for name in (CPU, MEMORY):
        capacity = node.allocatable.get(name, 0)
        if capacity:
            free = capacity - node.counted[name] - pod.counted_requests[name]
            shares.append(max(free, 0) * _MAX_SCORE // capacity)
    return sum(shares) // len(shares) if shares else 0


def _balanced(pod: PodInfo, node: NodeInfo, version: Version) -> int:
    """Source: noderesources/balanced_allocation.go, ``balancedResourceScorer`` (kubernetes v1.34.4, v1.36.3)."""
    after = _balance({name: node.requested[name] + pod.requests.get(name, 0) for name in (CPU, MEMORY)}, node)
    if not _SCORES_GAIN_OF_BALANCE.at(version):
        return after
    half, gain = _MAX_SCORE // 2, after - _balance(node.requested, node)
    return half + (half + gain) // 2


def _balance(requested: Mapping[ResourceName, int], node: NodeInfo) -> int:
    """From 50, where one of CPU and memory is taken and the other free, to 100."""
    amounts = [(requested.get(name, 0), node.allocatable.get(name, 0)) for name in (CPU, MEMORY)]
    fractions = [min(amount / of, 1.0) for amount, of in amounts if of]
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return int((1 - deviation) * _MAX_SCORE)


def _soft_taints(pod: PodInfo, node: NodeInfo) -> int:
    """How many taints ask a pod to stay away that does not tolerate them."""
    tolerations = Tolerations(pod.tolerations)
    soft = (taint for taint in node.taints if taint.get("effect") == "PreferNoSchedule")
    return sum(tolerations.first_for(taint) is None for taint in soft)


def _normalized(counts: Mapping[str, int]) -> dict[str, int]:
    """Source: plugins/helper/normalize_score.go, ``DefaultNormalizeScore`` (kubernetes v1.34.4)."""
    most = max(counts.values(), default=0)
    return {name: _MAX_SCORE * count // most if most else 0 for name, count in counts.items()}
