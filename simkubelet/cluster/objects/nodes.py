"""The node objects of the API: what a kubelet registers and publishes, and how they are read.

Source: kubelet/kubelet_node_status.go, ``initialNode``, ``tryUpdateNodeStatus``; kubelet/nodestatus/setters.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

import hashlib
import platform
import uuid
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from ...model.node import ConditionStatus, ConditionType, Node, NodeCondition, NodeStatus, Taint
from ...model.resources import ResourceName, format_amount, parse_amount
from .objects import JSON
from .wall_time import WallTime

__all__ = ["HOST", "new_node_json", "node_status_json", "read_node", "read_node_status"]

HOST: Final = "127.0.0.1"
"""Where every simulated node is."""

_KUBELET_PORT: Final = 10250
_RUNTIME: Final = "containerd://2.2.0"
_OS_IMAGE: Final = "Debian GNU/Linux 12 (bookworm)"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITION_TYPES: Final = frozenset(type_.value for type_ in ConditionType)
_STATUSES: Final = frozenset(status.value for status in ConditionStatus)


def new_node_json(name: str, pod_cidr: str) -> JSON:
    """A node as a kubelet registers it, with the range of pod addresses that the cluster gives it; without a status."""
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
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"podCIDR": pod_cidr, "podCIDRs": [pod_cidr]},
        "status": {},
    }


def node_status_json(stored: Mapping[str, Any], status: NodeStatus, wall_time: WallTime) -> JSON:
    """The status that a node has once its kubelet has published; what others wrote there stays."""
    name = stored["metadata"]["name"]
    old = stored.get("status") or {}
    published = {condition.type.value: _condition_json(condition, wall_time) for condition in status.conditions}
    conditions = [published.pop(each["type"], each) for each in old.get("conditions") or ()]
    return {
        **old,
        "addresses": [{"type": "InternalIP", "address": HOST}, {"type": "Hostname", "address": name}],
        "capacity": _quantities(status.capacity, old.get("capacity") or {}),
        "allocatable": _quantities(status.allocatable, old.get("allocatable") or {}),
        "conditions": [*conditions, *published.values()],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": _KUBELET_PORT}},
        "nodeInfo": _node_info(name, status.kubelet_version),
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
    return NodeStatus(
        _amounts(status.get("capacity") or {}),
        _amounts(status.get("allocatable") or {}),
        tuple(_conditions(status.get("conditions") or (), wall_time)),
        str((status.get("nodeInfo") or {}).get("kubeletVersion") or ""),
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


def _node_info(name: str, kubelet_version: str) -> JSON:
    return {
        "architecture": _architecture(),
        "bootID": _id("boot", name),
        "containerRuntimeVersion": _RUNTIME,
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": kubelet_version,
        "machineID": hashlib.md5(name.encode(), usedforsecurity=False).hexdigest(),
        "operatingSystem": "linux",
        "osImage": _OS_IMAGE,
        "systemUUID": _id("system", name),
    }


@cache
def _architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _id(kind: str, name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{kind}.{name}"))
