"""The cluster's objects: pods, nodes' statuses, Kubernetes Events. What an API server keeps, in memory.

The scheduler and the kubelets write here and wait here for each other's changes; each write is also reported to the
`Observer`. Reading never changes anything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..change import Change
from ..errors import InputError
from ..events import (
    EventRecorded,
    NodeStatusUpdated,
    Observer,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
)
from ..node_status import NodeStatus
from ..pod import Pod, PodStatus, PodUID, pod_from_manifest

__all__ = ["KubeEvent", "Store"]


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """A Kubernetes Event about a pod; repeats of the same text raise `count`."""

    pod_uid: PodUID
    type: str
    reason: str
    message: str
    component: str
    count: int = 1


class Store:
    """Objects of one cluster, changed only through these methods; `change` tells of every write."""

    def __init__(self, observe: Observer) -> None:
        self.change = Change()
        self._observe = observe
        self._pods: dict[PodUID, Pod] = {}
        self._nodes: dict[str, NodeStatus] = {}
        self._events: dict[PodUID, Counter[KubeEvent]] = defaultdict(Counter)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, oldest first."""
        return tuple(self._pods.values())

    @property
    def nodes(self) -> Mapping[str, NodeStatus]:
        return dict(self._nodes)

    def pod_named(self, key: str) -> Pod | None:
        """The pod of this `Pod.key`."""
        return next((pod for pod in self._pods.values() if pod.key == key), None)

    def events_of(self, uid: PodUID) -> tuple[KubeEvent, ...]:
        """Events about a pod, oldest first."""
        recorded = self._events.get(uid, Counter[KubeEvent]())
        return tuple(replace(event, count=count) for event, count in recorded.items())

    def create_pod(self, manifest: Mapping[str, Any]) -> Pod:
        """Take a v1 Pod manifest.

        Raises:
            InputError: the API server would refuse it, or a pod of that name is there.
        """
        pod = pod_from_manifest(manifest)
        if self.pod_named(pod.key) is not None:
            raise InputError(f"pods {pod.name!r} already exists")
        self._pods[pod.uid] = pod
        self.change.notify()
        return pod

    def delete_pod(self, uid: PodUID) -> None:
        """Ask for the end of a pod: one that no node has is gone at once, the others when their kubelet says so."""
        pod = self._pods[uid]
        if pod.node_name is None:
            self.remove_pod(uid)
        elif not pod.is_deleting:
            self._replace(replace(pod, is_deleting=True))

    def remove_pod(self, uid: PodUID) -> None:
        """Drop a pod object for good."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._observe(PodRemoved(pod.key))
            self.change.notify()

    def bind(self, uid: PodUID, node: str) -> None:
        """Give a pod to a node."""
        pod = replace(self._pods[uid], node_name=node)
        self._observe(PodScheduled(pod.key, node))
        self._replace(pod)

    def set_pod_status(self, uid: PodUID, status: PodStatus) -> None:
        """Publish a pod's status; nothing happens when it is unchanged or the pod is gone."""
        pod = self._pods.get(uid)
        if pod is not None and pod.status != status:
            self._observe(PodStatusUpdated(pod.key, status.phase.value, status.reason, status.message))
            self._replace(replace(pod, status=status))

    def publish_node(self, node: str, status: NodeStatus) -> None:
        """Publish a node's status; nothing happens when it is unchanged."""
        if self._nodes.get(node) != status:
            self._nodes[node] = status
            capacity = {str(name): amount for name, amount in status.capacity.items()}
            allocatable = {str(name): amount for name, amount in status.allocatable.items()}
            self._observe(NodeStatusUpdated(node, capacity, allocatable))
            self.change.notify()

    def record(self, pod: Pod, type_: str, reason: str, message: str, component: str) -> None:
        """Record an Event about a pod."""
        self._observe(EventRecorded(pod.key, type_, reason, message, component))
        self._events[pod.uid][KubeEvent(pod.uid, type_, reason, message, component)] += 1
        self.change.notify()

    def _replace(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        self.change.notify()
