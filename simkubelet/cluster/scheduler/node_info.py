"""A node and the pods on it, with the sums that filters and scores ask for.

Source: pkg/scheduler/framework/types.go, ``NodeInfo`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...model.fit import PODS
from ...model.node import Node
from ...model.pod import PodUID
from ...model.resources import ResourceName
from .pod_info import HostPort, PodInfo

__all__ = ["NodeInfo"]


class NodeInfo:
    """One node; its sums follow each pod that comes or goes.

    Attributes:
        pods: those that are bound to it, or are thought to be there.
        requested: what they ask for together, with their number under ``pods``.
        with_pod_affinity: those of them that have terms about other pods.
        counted: the same for CPU and memory, see `PodInfo.counted_requests`.
        host_ports: how many take each port; one is the most but for pods that were bound by hand.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pods: dict[PodUID, PodInfo] = {}
        self.with_pod_affinity: dict[PodUID, PodInfo] = {}
        self.requested: Counter[ResourceName] = Counter()
        self.counted: Counter[ResourceName] = Counter()
        self.host_ports: Counter[HostPort] = Counter()

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.labels

    @property
    def allocatable(self) -> Mapping[ResourceName, int]:
        return self.node.status.allocatable

    @property
    def as_json(self) -> Mapping[str, Any]:
        return self.node.manifest

    @property
    def taints(self) -> list[Mapping[str, Any]]:
        return (self.node.manifest.get("spec") or {}).get("taints") or []

    def put(self, pod: PodInfo) -> None:
        """Take a pod that is new here, or is another state of one that is known."""
        known = self.pods.get(pod.uid)
        if known is not None and known.spec is pod.spec and known.labels == pod.labels:
            self.pods[pod.uid] = pod
            if pod.has_pod_affinity:
                self.with_pod_affinity[pod.uid] = pod
            return
        if known is not None:
            self.remove(known)
        self.pods[pod.uid] = pod
        if pod.has_pod_affinity:
            self.with_pod_affinity[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        self._count(self.pods.pop(pod.uid), -1)
        self.with_pod_affinity.pop(pod.uid, None)

    def copy(self) -> NodeInfo:
        """The same node with the same pods, to try other pods on."""
        copied = NodeInfo(self.node)
        copied.pods = dict(self.pods)
        copied.with_pod_affinity = dict(self.with_pod_affinity)
        copied.requested = self.requested.copy()
        copied.counted = self.counted.copy()
        copied.host_ports = self.host_ports.copy()
        return copied

    def _count(self, pod: PodInfo, sign: int) -> None:
        self.requested[PODS] += sign
        for name, amount in pod.requests.items():
            self.requested[name] += sign * amount
        for name, amount in pod.counted_requests.items():
            self.counted[name] += sign * amount
        for port in pod.host_ports:
            self.host_ports[port] += sign
            if not self.host_ports[port]:
                del self.host_ports[port]
