"""How well nodes suit a pod that fits them all.

Source: pkg/scheduler/framework/plugins (kubernetes v1.34.4): tainttoleration, nodeaffinity, noderesources (least and
balanced allocation), interpodaffinity; weights: pkg/scheduler/apis/config/v1/default_plugins.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ...model.version import Version
from ..objects.node_selection import tolerates
from .node_info import NodeInfo
from .pod_affinity import pod_affinity_scores
from .pod_info import CPU, MEMORY, PodInfo
from .preferred_nodes import PreferredNodes

__all__ = ["scores"]

_MAX: Final = 100
_TAINT_TOLERATION_WEIGHT: Final = 3
_NODE_AFFINITY_WEIGHT: Final = 2
_POD_AFFINITY_WEIGHT: Final = 2


def scores(pod: PodInfo, feasible: Collection[NodeInfo], nodes: Iterable[NodeInfo], version: Version) -> dict[str, int]:
    """Node -> the sum of what all plugins give it, weighted.

    Args:
        pod: the pod that is tried.
        feasible: the nodes that the pod fits; one at least.
        nodes: all nodes of the cluster.
        version: of the scheduler.
    """
    total = {node.name: _least_allocated(pod, node) for node in feasible}
    if any(pod.requests.get(name) for name in (CPU, MEMORY)) or not version.spares_best_effort_balance:
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
