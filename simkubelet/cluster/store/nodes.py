"""The nodes of a cluster: what their kubelets write, their current state, and the addresses of their pods.

All pod addresses are loopback, so a server that listens on any address can be reached there. Each node has a range of
256 addresses, as a cluster's controller manager assigns them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from ipaddress import ip_network
from itertools import count
from typing import Final

from ..._internal.change import Change
from ...model.events import NodeStatusUpdated, Observer
from ...model.node import Node, NodeStatus, has_changed
from ..objects.nodes import new_node_json, node_status_json, read_node, read_node_status
from ..objects.objects import Key, Objects, Verb, Written

__all__ = ["NodeRanges", "Nodes", "free_address"]

_CLUSTER: Final = ip_network("127.64.0.0/10")
_RANGE: Final = 256
_FIRST: Final = 2


class NodeRanges:
    """Gives each new node a range; after 16,384 nodes the first one comes again."""

    def __init__(self) -> None:
        self._count = count()

    def next(self) -> str:
        """The next range, as ``127.64.0.0/24``."""
        place = next(self._count) * _RANGE % _CLUSTER.num_addresses
        return f"{_CLUSTER.network_address + place}/24"


def free_address(pod_range: str, used: Container[str]) -> str:
    """The first free address of a node's range; empty where none is left, or where the node has no range."""
    if not pod_range:
        return ""
    network = ip_network(pod_range, strict=False)
    for place in range(_FIRST, network.num_addresses - 1):
        if (address := str(network.network_address + place)) not in used:
            return address
    return ""


class Nodes:
    """The nodes of one cluster, oldest first.

    Args:
        objects: what is stored; no node is in there yet.
        observe: called with each change of capacity or allocatable.
        change: notified of every change except heartbeats.

    Attributes:
        by_name: node -> what it is; read only.
        statuses: node -> its status; read only.
    """

    def __init__(self, objects: Objects, observe: Observer, change: Change) -> None:
        self.by_name: dict[str, Node] = {}
        self.statuses: dict[str, NodeStatus] = {}
        self._objects = objects
        self._observe = observe
        self._change = change
        self._ranges = NodeRanges()
        self._own: NodeStatus | None = None
        objects.subscribe("nodes", self._follow)

    def register(self, node: str, status: NodeStatus) -> None:
        """Make the object of a node that has none, as its kubelet does when it starts."""
        body = new_node_json(node, self._ranges.next())
        self._own = status
        self._objects.create(
            Key("nodes", "", node), {**body, "status": node_status_json(body, status, self._objects.wall_time)}
        )

    def publish(self, node: str, status: NodeStatus) -> None:
        """Publish a node's status as its kubelet; nothing happens where the node's object is gone."""
        known = self.by_name.get(node)
        if known is None:
            return
        self._own = status
        new = node_status_json(known.manifest, status, self._objects.wall_time)
        self._objects.replace(Key("nodes", "", node), {**known.manifest, "status": new})
        if self._own is not None:
            # Nothing that the API shows has changed.
            self._own = None
            self.by_name[node], self.statuses[node] = replace(known, status=status), status

    def renew_lease(self, node: str, duration_s: int) -> None:
        """Write the lease of a node with the date of now; a removed lease is created again.

        Source: component-helpers, apimachinery/lease/controller.go, ``newLease`` (v0.34.4).
        """
        key = Key("leases.coordination.k8s.io", "kube-node-lease", node)
        renewed = {
            "holderIdentity": node,
            "leaseDurationSeconds": duration_s,
            "renewTime": self._objects.wall_time.now_micro(),
        }
        old = self._objects.get(key)
        if old is not None:
            self._objects.replace(key, {**old, "spec": {**(old.get("spec") or {}), **renewed}})
            return
        known = self.by_name.get(node)
        owner = known and {"apiVersion": "v1", "kind": "Node", "name": node, "uid": known.manifest["metadata"]["uid"]}
        self._objects.create(key, {"metadata": {"ownerReferences": [owner]} if owner else {}, "spec": renewed})

    def _follow(self, written: Written) -> None:
        own, self._own = self._own, None
        name = written.key.name
        old = self.by_name.get(name, Node(name))
        if written.verb is Verb.DELETED:
            del self.by_name[name], self.statuses[name]
            self._change.notify()
            return
        status = own
        if status is None and written.object.get("status") == old.manifest.get("status"):
            status = old.status
        if status is None:
            status = read_node_status(written.object.get("status") or {}, self._objects.wall_time)
        new = self.by_name[name] = read_node(written.object, status)
        self.statuses[name] = status
        if (old.status.capacity, old.status.allocatable) != (status.capacity, status.allocatable):
            capacity = {str(resource): amount for resource, amount in status.capacity.items()}
            allocatable = {str(resource): amount for resource, amount in status.allocatable.items()}
            self._observe(NodeStatusUpdated(name, capacity, allocatable))
        if replace(old, status=status) != new or has_changed(old.status, status):
            self._change.notify()
