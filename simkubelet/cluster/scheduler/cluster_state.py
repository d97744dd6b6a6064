"""The nodes and the pods on them as the scheduler knows them, and the pods for which a preemption makes room.

Source: pkg/scheduler/backend/cache/cache.go; backend/queue/nominator.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections import defaultdict

from ...model.node import Node
from ...model.pod import PodUID
from .node_info import NodeInfo
from .pod_info import PodInfo

__all__ = ["ClusterState"]


class ClusterState:
    """What a try of a pod looks at; `nodes` are in the order in which they came."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._without_node: defaultdict[str, dict[PodUID, PodInfo]] = defaultdict(dict)
        self._nominated: dict[str, dict[PodUID, PodInfo]] = {}

    def put_node(self, node: Node) -> None:
        """Take a node in its newest state."""
        if node.name in self.nodes:
            self.nodes[node.name].node = node
            return
        self.nodes[node.name] = NodeInfo(node)
        for pod in self._without_node.pop(node.name, {}).values():
            self.nodes[node.name].put(pod)

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods are still there when it comes back."""
        self._without_node[name] = self.nodes.pop(name).pods

    def put_pod(self, pod: PodInfo) -> None:
        """Take a pod that is bound, in its newest state."""
        node = self.nodes.get(pod.node_name or "")
        if node is None:
            self._without_node[pod.node_name or ""][pod.uid] = pod
        else:
            node.put(pod)

    def drop_pod(self, pod: PodInfo) -> None:
        """Forget a pod that was bound; any of its states will do."""
        node = self.nodes.get(pod.node_name or "")
        if node is None:
            self._without_node[pod.node_name or ""].pop(pod.uid, None)
        elif pod.uid in node.pods:
            node.remove(node.pods[pod.uid])

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep room for a pod on a node, instead of on any other; an empty name keeps none."""
        for pods in self._nominated.values():
            pods.pop(pod.uid, None)
        if node:
            self._nominated.setdefault(node, {})[pod.uid] = pod

    def nominated_node(self, uid: PodUID) -> str:
        """Where room is kept for a pod; empty where it is nowhere."""
        return next((node for node, pods in self._nominated.items() if uid in pods), "")

    def nominated_on(self, node: str) -> tuple[PodInfo, ...]:
        """The pods for which room is kept."""
        return tuple(self._nominated.get(node, {}).values())
