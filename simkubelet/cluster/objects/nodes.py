"""The nodes of a cluster: as kubelets write them, as the scheduler reads them, and the addresses of their pods.

All pod addresses are loopback, so a server that listens on any address can be reached there. Each node has a range of
256 addresses, as a cluster's controller manager assigns them.

Source: kubelet/kubelet_node_status.go, ``initialNode``, ``tryUpdateNodeStatus``; kubelet/nodestatus/setters.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import ip_network
from itertools import count
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any, Final

from ..._internal.change import Change
from ...model.events import NodeStatusUpdated, Observer
from ...model.node import ConditionStatus, ConditionType, Node, NodeCondition, NodeStatus, Taint, has_changed
from ...model.pod import Pod
from ...model.pod_status import ConditionType as PodConditionType
from ...model.pod_status import PodStatus, Waiting
from ...model.resources import ResourceName, format_amount, parse_amount
from .objects import JSON, Key, Objects, Verb, WallTime, Written

__all__ = [
    "HOST",
    "KubeletEndpoint",
    "Nodes",
    "free_address",
    "new_node_json",
    "node_status_json",
    "pod_address",
    "read_node",
    "read_node_status",
]

HOST: Final = "127.0.0.1"
"""Where every node of a simulated cluster is."""

_RUNTIME: Final = "containerd://2.2.0"
_OS_IMAGE: Final = "Debian GNU/Linux 12 (bookworm)"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITION_TYPES: Final = frozenset(type_.value for type_ in ConditionType)
_STATUSES: Final = frozenset(status.value for status in ConditionStatus)
_CLUSTER: Final = ip_network("127.64.0.0/10")
_RANGE: Final = 256
_FIRST: Final = 2


@dataclass(frozen=True, slots=True)
class KubeletEndpoint:
    """Where an API server reaches the kubelet of a node; by default as every simulated cluster has it.

    Attributes:
        address: of the node, also that of its pods in the host's network.
        port: of the kubelet's API; the kubelet's default is there where none is served.
    """

    address: str = HOST
    port: int = 10250


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
        self._ranges = _NodeRanges()
        self._own: NodeStatus | None = None
        objects.subscribe("nodes", self._follow)

    def register(self, node: str, status: NodeStatus) -> None:
        """Make the object of a node that has none, as its kubelet does when it starts."""
        body = _with_range(new_node_json(node), self._ranges.next())
        self._own = status
        new = node_status_json(body, status, self._objects.wall_time, KubeletEndpoint())
        self._objects.create(Key("nodes", "", node), {**body, "status": new})

    def publish(self, node: str, status: NodeStatus) -> None:
        """Publish a node's status as its kubelet; nothing happens where the node's object is gone."""
        known = self.by_name.get(node)
        if known is None:
            return
        self._own = status
        new = node_status_json(known.manifest, status, self._objects.wall_time, KubeletEndpoint())
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


class _NodeRanges:
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
    first, family = network.network_address, AF_INET if network.version == 4 else AF_INET6
    for number in range(int(first) + _FIRST, int(first) + network.num_addresses - 1):
        # Many are in use on a full node, and an object of an address takes twenty times as long as its text.
        if (address := inet_ntop(family, number.to_bytes(len(first.packed)))) not in used:
            return address
    return ""


def pod_address(pod: Pod, status: PodStatus, node: Node | None, used: Iterable[str], host: str) -> str:
    """A pod's address, from the time at which it has a sandbox; empty before, and where its node has no range.

    Args:
        pod: as it is stored.
        status: its next one.
        node: the pod's.
        used: the addresses of the pods on the node; read only where a new one is needed.
        host: the node's own address.
    """
    if known := (pod.manifest.get("status") or {}).get("podIP"):
        return str(known)
    ready = status.condition(PodConditionType.READY_TO_START_CONTAINERS)
    containers = (*status.init_containers, *status.containers)
    if not (ready.is_true if ready else any(not isinstance(each.state, Waiting) for each in containers)):
        return ""
    if node is None or pod.manifest["spec"].get("hostNetwork"):
        return host
    pod_range = (node.manifest.get("spec") or {}).get("podCIDR") or ""
    return free_address(pod_range, set(used))


def new_node_json(name: str) -> JSON:
    """A node as a kubelet registers it, without a status."""
    architecture = _architecture()
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "beta.kubernetes.io/arch": architecture,
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {},
        "status": {},
    }


def _with_range(node: JSON, pod_cidr: str) -> JSON:
    """A new node with what a cluster's controllers add to it: the range of its pods' addresses, and how long to cache.

    Source: pkg/controller/nodeipam; pkg/controller/ttl/ttl_controller.go (kubernetes v1.34.4).
    """
    metadata = node["metadata"]
    annotations = {"node.alpha.kubernetes.io/ttl": "0", **metadata["annotations"]}
    return {
        **node,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]},
    }


def node_status_json(
    stored: Mapping[str, Any], status: NodeStatus, wall_time: WallTime, endpoint: KubeletEndpoint
) -> JSON:
    """The status that a node has once its kubelet has published; what others wrote there stays."""
    name = stored["metadata"]["name"]
    old = stored.get("status") or {}
    published = {condition.type.value: _condition_json(condition, wall_time) for condition in status.conditions}
    conditions = [published.pop(each["type"], each) for each in old.get("conditions") or ()]
    return {
        **old,
        "addresses": [{"type": "InternalIP", "address": endpoint.address}, {"type": "Hostname", "address": name}],
        "capacity": _quantities(status.capacity, old.get("capacity") or {}),
        "allocatable": _quantities(status.allocatable, old.get("allocatable") or {}),
        "conditions": [*conditions, *published.values()],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": endpoint.port}},
        "nodeInfo": _node_info(name, status),
    }


def read_node(stored: Mapping[str, Any], status: NodeStatus) -> Node:
    """The node that an object describes, whose status has been read."""
    spec = stored.get("spec") or {}
    return Node(
        name=stored["metadata"]["name"],
        labels=stored["metadata"].get("labels") or {},
        taints=tuple(_taint(each) for each in spec.get("taints") or ()),
        is_unschedulable=bool(spec.get("unschedulable")),
        status=status,
        manifest=stored,
    )


def read_node_status(status: Mapping[str, Any], wall_time: WallTime) -> NodeStatus:
    """The status of a node object; times are whole seconds, and conditions of unknown types are left out.

    Any client may write a status, and the API server accepts most of it: an invalid status of a condition is unknown.

    Raises:
        InputError: a quantity is none.
    """
    info = status.get("nodeInfo") or {}
    return NodeStatus(
        _amounts(status.get("capacity") or {}),
        _amounts(status.get("allocatable") or {}),
        tuple(_conditions(status.get("conditions") or (), wall_time)),
        str(info.get("kubeletVersion") or ""),
        str(info.get("bootID") or ""),
    )


def _taint(taint: Mapping[str, Any]) -> Taint:
    return Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint.get("effect") or ""))


def _condition_json(condition: NodeCondition, wall_time: WallTime) -> JSON:
    return {
        "type": condition.type.value,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": wall_time.date(condition.last_heartbeat_time),
        "lastTransitionTime": wall_time.date(condition.last_transition_time),
    }


def _conditions(conditions: Iterable[Mapping[str, Any]], wall_time: WallTime) -> Iterable[NodeCondition]:
    for each in conditions:
        if each.get("type") in _CONDITION_TYPES:
            beat, transition = (each.get(name) for name in ("lastHeartbeatTime", "lastTransitionTime"))
            yield NodeCondition(
                ConditionType(each["type"]),
                ConditionStatus(each["status"]) if each.get("status") in _STATUSES else ConditionStatus.UNKNOWN,
                str(each.get("reason") or ""),
                str(each.get("message") or ""),
                wall_time.seconds(beat) if beat else 0.0,
                wall_time.seconds(transition) if transition else 0.0,
            )


def _amounts(quantities: Mapping[str, Any]) -> dict[ResourceName, int]:
    return {ResourceName(name): parse_amount(name, text) for name, text in quantities.items()}


def _quantities(amounts: Mapping[ResourceName, int], old: Mapping[str, str]) -> dict[str, str]:
    """Amounts as quantities; one that says the same as before stays as it was written."""
    return {str(name): _quantity(name, amount, old.get(name)) for name, amount in amounts.items()}


def _quantity(name: str, amount: int, old: str | None) -> str:
    return old if old is not None and parse_amount(name, old) == amount else format_amount(name, amount)


def _node_info(name: str, status: NodeStatus) -> JSON:
    return {
        "architecture": _architecture(),
        "bootID": status.boot_id,
        "containerRuntimeVersion": _RUNTIME,
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": status.kubelet_version,
        "machineID": hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(),
        "operatingSystem": "linux",
        "osImage": _OS_IMAGE,
        "systemUUID": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"system.{name}")),
    }


@cache
def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())
