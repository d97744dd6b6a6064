"""How well nodes suit a pod that fits them all, and which nodes its preferred node affinity names.

Source: pkg/scheduler/framework/plugins (kubernetes v1.34.4): tainttoleration, nodeaffinity, noderesources (least and
balanced allocation), interpodaffinity; weights: pkg/scheduler/apis/config/v1/default_plugins.go; component-helpers/
scheduling/corev1/nodeaffinity/nodeaffinity.go, ``PreferredSchedulingTerms`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ...model.version import Difference, Version
from ..api.errors import FieldError
from ..api.registry.names import is_label_value
from ..objects.node_selection import as_integer, matches_term, tolerates
from .cluster_state import NodeInfo
from .pod_affinity import pod_affinity_scores
from .pod_info import CPU, MEMORY, PodInfo

__all__ = ["PreferredNodes", "scores"]

_SKIPS_BALANCE_OF_BEST_EFFORT: Final = Difference(
    "pods that request no CPU and no memory are not scored by the balance of both",
    {"1.26": False, "1.33": True},
    "noderesources/balanced_allocation.go, ``PreScore`` (kubernetes v1.32.13, v1.33.13)",
)
_MAX: Final = 100
_TAINT_TOLERATION_WEIGHT: Final = 3
_NODE_AFFINITY_WEIGHT: Final = 2
_POD_AFFINITY_WEIGHT: Final = 2


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


def scores(pod: PodInfo, feasible: Collection[NodeInfo], nodes: Iterable[NodeInfo], version: Version) -> dict[str, int]:
    """Node -> the sum of what all plugins give it, weighted.

    Args:
        pod: the pod that is tried.
        feasible: the nodes that the pod fits; one at least.
        nodes: all nodes of the cluster.
        version: of the scheduler.
    """
    total = {node.name: _least_allocated(pod, node) for node in feasible}
    if any(pod.requests.get(name) for name in (CPU, MEMORY)) or not _SKIPS_BALANCE_OF_BEST_EFFORT.at(version):
        for node in feasible:
            total[node.name] += _balanced(pod, node)
    taints = _normalized({node.name: _soft_taints(pod, node) for node in feasible if node.taints})
    for name in total:
        total[name] += _TAINT_TOLERATION_WEIGHT * (_MAX - taints.get(name, 0))
    preferred = PreferredNodes(pod)
    for name, score in _normalized({node.name: preferred.weight(node) for node in feasible if preferred}).items():
        total[name] += _NODE_AFFINITY_WEIGHT * score
    for name, score in (pod_affinity_scores(pod, feasible, nodes) or {}).items():
        total[name] += _POD_AFFINITY_WEIGHT * score
    return total


def _least_allocated(pod: PodInfo, node: NodeInfo) -> int:
    """Source: noderesources/least_allocated.go, ``leastResourceScorer`` (kubernetes v1.34.4)."""
    shares = []
    for name in (CPU, MEMORY):
        capacity = node.allocatable.get(name, 0)
        if capacity:
            free = capacity - node.counted[name] - pod.counted_requests[name]
            shares.append(max(free, 0) * _MAX // capacity)
    return sum(shares) // len(shares) if shares else 0


def _balanced(pod: PodInfo, node: NodeInfo) -> int:
    """Source: noderesources/balanced_allocation.go, ``balancedResourceScorer`` (kubernetes v1.34.4)."""
    fractions = [
        min((node.requested[name] + pod.requests.get(name, 0)) / node.allocatable[name], 1.0)
        for name in (CPU, MEMORY)
        if node.allocatable.get(name)
    ]
    deviation = abs((fractions[0] - fractions[1]) / 2) if len(fractions) == 2 else 0.0
    return int((1 - deviation) * _MAX)


def _soft_taints(pod: PodInfo, node: NodeInfo) -> int:
    """How many taints ask a pod to stay away that does not tolerate them."""
    fitting = [one for one in pod.tolerations if one.get("effect") in (None, "", "PreferNoSchedule")]
    return sum(
        taint.get("effect") == "PreferNoSchedule" and not any(tolerates(one, taint) for one in fitting)
        for taint in node.taints
    )


def _normalized(counts: Mapping[str, int]) -> dict[str, int]:
    """Source: plugins/helper/normalize_score.go, ``DefaultNormalizeScore`` (kubernetes v1.34.4)."""
    most = max(counts.values(), default=0)
    return {name: _MAX * count // most if most else 0 for name, count in counts.items()}
