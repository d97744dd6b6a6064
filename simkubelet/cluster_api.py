"""What a kubelet asks of its cluster: the API server as the parts of one node use it.

The kubelet's parts import this and not `cluster`, so they run against anything that has these methods: `cluster.Store`
implements them over the objects of a simulated cluster, `remote.RemoteCluster` over the HTTP API of any cluster.
Only `PodWatch.change` and the methods of `ResourceApi` wait: a cluster that is elsewhere is read from copies and
written to by queues, but for claims and slices the server itself is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ._internal.change import Change
from .model.node import Node, NodeStatus
from .model.pod import Pod, PodUID
from .model.pod_status import PodStatus

__all__ = ["ClaimNotReadError", "ClusterApi", "PodWatch", "ResourceApi"]


class ClaimNotReadError(Exception):
    """A ResourceClaim could not be read; the message is that of the server or of the connection."""


class PodWatch:
    """The changed pods of one node; changes on other nodes do not wake the watcher.

    Attributes:
        change: notified at each change.

    Args:
        pods: the pods that are on the node already; the first `take` returns them.
    """

    def __init__(self, pods: Iterable[PodUID]) -> None:
        self.change = Change()
        self._changed = dict.fromkeys(pods)

    def note(self, uid: PodUID) -> None:
        """Record that a pod of the node was written or removed."""
        self._changed[uid] = None
        self.change.notify()

    def take(self) -> tuple[PodUID, ...]:
        """Return the pods that were written or removed since the last call, each once."""
        changed, self._changed = self._changed, {}
        return tuple(changed)


class ResourceApi(Protocol):
    """What the DRA manager of a kubelet asks of its cluster: it reads the server itself, never a copy."""

    async def resource_claim(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return a ResourceClaim; None where there is none.

        Raises:
            ClaimNotReadError: the server does not answer, or refuses.
        """
        ...

    async def delete_resource_slices(self, selector: Mapping[str, str]) -> bool:
        """Delete the ResourceSlices whose fields have these values, as a delete of the collection does.

        Args:
            selector: field -> value, such as ``spec.nodeName`` -> the kubelet's node.

        Returns:
            Whether that is done; False where the server does not do it now, or the node has no object yet.
        """
        ...


class ClusterApi(ResourceApi, Protocol):
    """The cluster of a kubelet."""

    # Objects that pods refer to

    def read_object(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return an object of the API.

        Args:
            kind: the plural, such as ``configmaps``.
            namespace: of the object.
            name: of the object.
        """
        ...

    # Pods

    def pod(self, uid: PodUID) -> Pod | None:
        """Return the pod of this uid."""
        ...

    def pod_named(self, key: str) -> Pod | None:
        """Return the pod of this `Pod.key`."""
        ...

    def watch_pods(self, node: str) -> PodWatch:
        """Begin to follow the pods of a node; `end_watch` ends it."""
        ...

    def end_watch(self, node: str, watch: PodWatch) -> None:
        """Stop following; may be called twice."""
        ...

    def create_pod(self, manifest: Mapping[str, Any]) -> Pod | None:
        """Create a pod; a kubelet does so for the mirrors of its static pods.

        Returns:
            The pod; None where the cluster is asked for it and the pod comes later.

        Raises:
            InputError: the API server would refuse it, or a pod of that name exists.
        """
        ...

    def remove_pod(self, uid: PodUID) -> None:
        """Remove a pod object; one with finalizers stays until they are gone."""
        ...

    def set_pod_status(self, uid: PodUID, status: PodStatus) -> None:
        """Publish a pod's status; an unchanged status and a removed pod are ignored."""
        ...

    # The node

    def node(self, name: str) -> Node | None:
        """Return the node of this name."""
        ...

    def register_node(self, node: str, status: NodeStatus) -> None:
        """Create the object of a node that has none."""
        ...

    def publish_node(self, node: str, status: NodeStatus) -> None:
        """Publish a node's status; a removed node is ignored."""
        ...

    def renew_lease(self, node: str, duration_s: int) -> None:
        """Write the lease of a node with the date of now; a removed lease is created again."""
        ...

    # Events

    def record(
        self, pod: Pod, type_: str, reason: str, message: str, component: str, *, container: str | None = None
    ) -> None:
        """Record an Event about a pod, or about one of its containers.

        Args:
            pod: a static pod by its own uid.
            type_: ``Normal`` or ``Warning``.
            reason: one word.
            message: one sentence.
            component: who records it.
            container: the name of a container of the pod.
        """
        ...

    def record_node_event(self, node: str, type_: str, reason: str, message: str, component: str) -> None:
        """Record an Event of a component of a node about this node; the type is ``Normal`` or ``Warning``."""
        ...

    def forget_events(self, node: str, component: str) -> None:
        """Start to count Events from zero: the component has restarted, so its next Event repeats none."""
        ...
