"""Which nodes a pod fits, and why it does not fit the others.

Source: pkg/scheduler/framework/plugins (kubernetes v1.34.4): nodeunschedulable, tainttoleration, nodeaffinity,
nodeports, noderesources, interpodaffinity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from ...model.fit import insufficient_resources
from ...model.version import Difference, Version
from ..objects.node_selection import matches_required_affinity, tolerates, untolerated_taint
from .cluster_state import NodeInfo
from .pod_affinity import PodAffinityFilter
from .pod_info import PodInfo
from .refusals import Plugin, Refusal

__all__ = ["HARD_TAINTS", "Filters", "tolerates_cordon"]

_UNTOLERATED_TAINT: Final = Difference(
    "the scheduler's text for a taint, with ``{key}`` and ``{value}``",
    {"1.26": "node(s) had untolerated taint {{{key}: {value}}}", "1.34": "node(s) had untolerated taint(s)"},
    "tainttoleration/taint_toleration.go, ``Filter`` (kubernetes v1.33.13, v1.34.4)",
)
_HAS_UNRESOLVABLE_REQUESTS: Final = Difference(
    "no preemption is tried for a request above the node's allocatable, and the FailedScheduling text says so",
    {"1.26": False, "1.34": True},
    "noderesources/fit.go, ``fitsRequest`` (kubernetes v1.33.13, v1.34.4)",
)

HARD_TAINTS: Final = ("NoSchedule", "NoExecute")
_CORDON: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}

_CORDONED: Final = Refusal(Plugin.NODE_UNSCHEDULABLE, ("node(s) were unschedulable",))
_NO_AFFINITY: Final = Refusal(Plugin.NODE_AFFINITY, ("node(s) didn't match Pod's node affinity/selector",))
_PORT_TAKEN: Final = Refusal(
    Plugin.NODE_PORTS, ("node(s) didn't have free ports for the requested pod ports",), is_resolvable=True
)


class Filters:
    """The filters that have a say about one pod, in the order of the default profile.

    Args:
        nodes: all nodes of the cluster, for what depends on the pods of others.
    """

    def __init__(self, pod: PodInfo, nodes: Iterable[NodeInfo], version: Version) -> None:
        self._pod = pod
        self._version = version
        self._pod_affinity = PodAffinityFilter(pod, nodes)
        self._filters: list[Callable[[NodeInfo], Refusal | None]] = [self._cordon, self._taints]
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
        pod_affinity = self._pod_affinity
        if without or coming:
            tried, pod_affinity = node.copy(), pod_affinity.copy()
            for other in without:
                tried.remove(other)
                pod_affinity.count(other, node, -1)
            for other in coming:
                tried.put(other)
                pod_affinity.count(other, node, 1)
            node = tried
        for ask in self._filters:
            refusal = ask(node)
            if refusal is not None:
                return refusal
        return pod_affinity.refusal(node) if pod_affinity.has_a_say else None

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
        taken = any(wanted.clashes_with(port) for wanted in self._pod.host_ports for port in node.host_ports)
        return _PORT_TAKEN if taken else None

    def _resources(self, node: NodeInfo) -> Refusal | None:
        missing = insufficient_resources(self._pod.requests, node.allocatable, node.requested)
        if not missing:
            return None
        reasons = tuple(each.reason for each in missing)
        is_hopeless = _HAS_UNRESOLVABLE_REQUESTS.at(self._version) and any(each.is_unresolvable for each in missing)
        return Refusal(Plugin.NODE_RESOURCES_FIT, reasons, is_resolvable=not is_hopeless)


def tolerates_cordon(pod: PodInfo) -> bool:
    """Whether a pod may go to nodes that are marked unschedulable."""
    return any(tolerates(toleration, _CORDON) for toleration in pod.tolerations)
