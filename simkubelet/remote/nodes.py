"""The nodes of this process: their objects as the server has them, what kubelets publish of them, and their leases.

Source: kubelet/kubelet_node_status.go, ``tryRegisterWithAPIServer``, ``tryUpdateNodeStatus``; component-helpers,
node/util/status.go, ``PatchNodeStatus``; apimachinery/lease/controller.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .._internal.doors import Door
from ..cluster.objects.nodes import KubeletEndpoint, new_node_json, node_status_json, read_node, read_node_status
from ..cluster.objects.objects import WallTime
from ..model.clock import Clock
from ..model.events import NodeStatusUpdated, Observer
from ..model.node import Node, NodeStatus
from .back_off import WorkQueue
from .client import JSON, ApiClient, ApiError, is_older, object_of
from .status_patch import status_patch

__all__ = ["RemoteNodes"]

_LISTED: Final = Door("listed node")
_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class RemoteNodes:
    """A `Follower` of nodes, and the nodes' part of `ClusterApi`.

    Args:
        client: of the server.
        endpoints: the nodes of this process -> where their kubelets are; others are ignored.
        labels: of nodes that are registered, beside those of every node.
        wall_time: the date.
        clock: the time of pauses.
        observe: called with each change of capacity or allocatable.
        tasks: owns what is sent.
        complain: called with what the server refuses.
    """

    def __init__(
        self,
        client: ApiClient,
        endpoints: Mapping[str, KubeletEndpoint],
        labels: Mapping[str, str],
        wall_time: WallTime,
        clock: Clock,
        observe: Observer,
        tasks: asyncio.TaskGroup,
        complain: Callable[[str], None],
    ) -> None:
        self._client = client
        self._endpoints = endpoints
        self._labels = labels
        self._wall_time = wall_time
        self._observe = observe
        self._nodes: dict[str, Node] = {}
        self._wanted: dict[str, NodeStatus] = {}
        self._leases: dict[str, JSON] = {}
        self._lease_s: dict[str, int] = {}
        self._updates: WorkQueue[str] = WorkQueue(self._send, tasks, clock, complain)
        self._renewals: WorkQueue[str] = WorkQueue(self._renew, tasks, clock, complain)

    def node(self, name: str) -> Node | None:
        """Return a node; one that is being registered is None until the server has it."""
        return self._nodes.get(name)

    async def registered(self, name: str) -> Node | None:
        """Return a node when the server has what kubelets have published; None where it is removed."""
        await self.until_sent()
        return self.node(name)

    def publish(self, name: str, status: NodeStatus) -> None:
        """Have a status published; the node is registered with it where the server has no such node."""
        self._wanted[name] = status
        if (node := self._nodes.get(name)) is not None:
            self._take(name, node.manifest)
        self._updates.add(name)

    def renew_lease(self, name: str, duration_s: int) -> None:
        """Have the lease of a node renewed."""
        self._lease_s[name] = duration_s
        self._renewals.add(name)

    async def until_sent(self) -> None:
        """Return when the server has all of it."""
        await self._updates.until_done()

    async def close(self) -> None:
        """Send nothing more."""
        await self._updates.close()
        await self._renewals.close()

    # What the server has

    def replaced(self, items: Sequence[JSON]) -> bool:
        """See `Follower`."""
        there = {str(item["metadata"]["name"]): item for item in items}
        for name in self._nodes.keys() - there.keys():
            self._forget(name)
        is_whole = True
        for item in there.values():
            with _LISTED(item["metadata"].get("name")) as passage:
                self.changed(item)
            is_whole = is_whole and passage.error is None
        return is_whole

    def changed(self, item: JSON) -> None:
        """See `Follower`."""
        name = str(item["metadata"]["name"])
        known = self._nodes.get(name)
        if name in self._endpoints and (known is None or not is_older(item, known.manifest)):
            self._take(name, item)

    def deleted(self, item: JSON) -> None:
        """See `Follower`."""
        self._forget(str(item["metadata"]["name"]))

    def _forget(self, name: str) -> None:
        self._nodes.pop(name, None)
        # A node whose object was removed is registered again at its kubelet's next start, not before.
        self._wanted.pop(name, None)

    def _take(self, name: str, item: Mapping[str, Any]) -> None:
        old = self._nodes.get(name, Node(name)).status
        status = self._wanted.get(name) or read_node_status(item.get("status") or {}, self._wall_time)
        self._nodes[name] = read_node(item, status)
        if (old.capacity, old.allocatable) != (status.capacity, status.allocatable):
            capacity = {str(resource): amount for resource, amount in status.capacity.items()}
            allocatable = {str(resource): amount for resource, amount in status.allocatable.items()}
            self._observe(NodeStatusUpdated(name, capacity, allocatable))

    # What is sent

    async def _send(self, name: str) -> None:
        wanted = self._wanted.get(name)
        if wanted is None:
            return
        node = self._nodes.get(name)
        try:
            after = await (self._register(name, wanted) if node is None else self._patch(node, wanted))
        except ApiError as error:
            if error.status != 404:
                raise
            self._forget(name)
            return
        if self._wanted.get(name) is wanted:
            del self._wanted[name]
        if after is not None:
            self.changed(after)

    async def _register(self, name: str, status: NodeStatus) -> JSON:
        new = new_node_json(name)
        metadata = {**new["metadata"], "labels": {**new["metadata"]["labels"], **self._labels}}
        try:
            status_json = node_status_json(new, status, self._wall_time, self._endpoints[name])
            body = {**new, "metadata": metadata, "status": status_json}
            return object_of(await self._client.call("POST", _NODES, body))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        # Somebody was faster; the kubelet publishes its status over that one's.
        return object_of(await self._client.get(f"{_NODES}/{name}"))

    async def _patch(self, node: Node, status: NodeStatus) -> JSON | None:
        old = node.manifest.get("status") or {}
        new = node_status_json(node.manifest, status, self._wall_time, self._endpoints[node.name])
        for amounts in ("capacity", "allocatable"):
            # Resources that others have published meanwhile stay.
            new[amounts] = {**(old.get(amounts) or {}), **new[amounts]}
        patch = status_patch(old, new)
        return await self._client.patch(f"{_NODES}/{node.name}/status", {"status": patch}) if patch else None

    async def _renew(self, name: str) -> None:
        lease = self._leases.pop(name, None) or await self._client.find(f"{_LEASES}/{name}")
        spec = {"leaseDurationSeconds": self._lease_s[name], "renewTime": self._wall_time.now_micro()}
        try:
            if lease is None:
                body = self._with_owner({"metadata": {"name": name, "namespace": "kube-node-lease"}, "spec": spec})
                body["spec"]["holderIdentity"] = name
                self._leases[name] = object_of(await self._client.call("POST", _LEASES, body))
            else:
                body = self._with_owner({**lease, "spec": {**(lease.get("spec") or {}), **spec}})
                self._leases[name] = object_of(await self._client.call("PUT", f"{_LEASES}/{name}", body))
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            # It was removed, or written by another; the next try reads it.
            raise ApiError(0, error.reason, str(error)) from None

    def _with_owner(self, lease: JSON) -> JSON:
        """Return a lease that goes with its node.

        Raises:
            ApiError: the node is not registered; it may be later.

        Source: kubelet/util/nodelease.go, ``SetNodeOwnerFunc`` (kubernetes v1.34.4).
        """
        metadata = lease["metadata"]
        if metadata.get("ownerReferences"):
            return lease
        node = self._nodes.get(metadata["name"])
        if node is None:
            raise ApiError(0, "NotFound", f"node {metadata['name']} is not registered")
        uid = node.manifest["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": uid}
        return {**lease, "metadata": {**metadata, "ownerReferences": [owner]}}
