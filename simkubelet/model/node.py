"""A node as the cluster knows it: its object, its status and conditions, and how a kubelet updates the status.

Times are seconds of the node's clock.

Source: kubelet/nodestatus/setters.go; kubelet_node_status.go, ``tryUpdateNodeStatus`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from .resources import ResourceName, is_extended_resource

__all__ = [
    "NODE_STATUS_REPORT_PERIOD_S",
    "NODE_STATUS_UPDATE_PERIOD_S",
    "ConditionStatus",
    "ConditionType",
    "DeviceCapacity",
    "Node",
    "NodeCondition",
    "NodeStatus",
    "ReportSchedule",
    "Taint",
    "conditions_of",
    "has_changed",
    "updated",
    "with_conditions",
    "with_extended_resources_reset",
]

NODE_STATUS_UPDATE_PERIOD_S: Final = 10.0
NODE_STATUS_REPORT_PERIOD_S: Final = 300.0
_REQUIRED: Final = ("cpu", "memory", "pods", "ephemeral-storage")


class ConditionType(StrEnum):
    """What a condition is about."""

    MEMORY_PRESSURE = "MemoryPressure"
    DISK_PRESSURE = "DiskPressure"
    PID_PRESSURE = "PIDPressure"
    READY = "Ready"


class ConditionStatus(StrEnum):
    """Whether it is so. Unknown is written by others, for a node that is silent."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """One condition; times are seconds of the node's clock.

    `last_transition_time` is when `status` was last another one, `last_heartbeat_time` when the kubelet last looked.
    """

    type: ConditionType
    status: ConditionStatus
    reason: str
    message: str
    last_heartbeat_time: float
    last_transition_time: float


_NO_PRESSURE: Final = (
    (ConditionType.MEMORY_PRESSURE, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    (ConditionType.DISK_PRESSURE, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    (ConditionType.PID_PRESSURE, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def conditions_of(
    known: Sequence[NodeCondition],
    *,
    missing_capacities: Sequence[str],
    now: float,
    runtime_errors: Sequence[str] = (),
) -> tuple[NodeCondition, ...]:
    """The conditions as of now, over those published before; Ready is the last one.

    Source: kubelet/nodestatus/setters.go, ``ReadyCondition`` (kubernetes v1.34.4).
    """
    by_type = {condition.type: condition for condition in known}
    for type_, reason, message in _NO_PRESSURE:
        old = by_type.get(type_)
        if old is not None and old.status is ConditionStatus.FALSE:
            # What others wrote there stays.
            by_type[type_] = replace(old, last_heartbeat_time=now)
        else:
            by_type[type_] = NodeCondition(type_, ConditionStatus.FALSE, reason, message, now, now)
    by_type[ConditionType.READY] = _ready(
        by_type.get(ConditionType.READY), [*runtime_errors, *_missing(missing_capacities)], now
    )
    return tuple(by_type.values())


def _missing(capacities: Sequence[str]) -> list[str]:
    return [f"missing node capacity for resources: {', '.join(capacities)}"] if capacities else []


def _ready(old: NodeCondition | None, errors: Sequence[str], now: float) -> NodeCondition:
    status, reason, message = ConditionStatus.TRUE, "KubeletReady", "kubelet is posting ready status"
    if errors:
        status, reason = ConditionStatus.FALSE, "KubeletNotReady"
        message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
    transition = now if old is None or old.status is not status else old.last_transition_time
    return NodeCondition(ConditionType.READY, status, reason, message, now, transition)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """What a node publishes of itself.

    Attributes:
        capacity: resource -> amount (see `resources.parse_amount`).
        allocatable: likewise, what pods can get.
        conditions: in the order in which the kubelet first set them, Ready last.
        kubelet_version: for instance ``v1.34.4``; empty as long as no kubelet has reported.
        boot_id: what the machine has from one boot to the next; empty as long as no kubelet has reported.
    """

    capacity: Mapping[ResourceName, int] = field(default_factory=dict)
    allocatable: Mapping[ResourceName, int] = field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    kubelet_version: str = ""
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """The devices that a device manager reports for the node's status.

    Attributes:
        capacity: resource -> devices known.
        allocatable: resource -> healthy devices. A resource whose first list has not come is absent from both.
        deleted: resources forgotten since the last report; each is reported once.
    """

    capacity: Mapping[ResourceName, int]
    allocatable: Mapping[ResourceName, int]
    deleted: frozenset[ResourceName] = field(default_factory=frozenset)


def updated(status: NodeStatus, machine: Mapping[ResourceName, int], devices: DeviceCapacity) -> NodeStatus:
    """The next status: the machine's resources and the devices over what was published before.

    A forgotten resource stays in the status with 0, and so does what others wrote there: nothing is ever removed.

    Source: kubelet/nodestatus/setters.go, ``MachineInfo`` (kubernetes v1.34.4).
    """
    capacity = {**status.capacity, **machine, **devices.capacity, **dict.fromkeys(devices.deleted, 0)}
    return replace(status, capacity=capacity, allocatable={**capacity, **devices.allocatable})


def with_extended_resources_reset(status: NodeStatus) -> NodeStatus:
    """The status of a node that was created again: its extended resources are 0 until a plugin brings them back.

    Source: kubelet_node_status.go, ``reconcileExtendedResource`` (kubernetes v1.34.4).
    """
    zeroed = {name: 0 for name in status.capacity if is_extended_resource(name)}
    return replace(status, capacity={**status.capacity, **zeroed}, allocatable={**status.allocatable, **zeroed})


def with_conditions(status: NodeStatus, *, now: float, runtime_errors: Sequence[str] = ()) -> NodeStatus:
    """The status with its conditions as of now; see `RuntimeState` for the errors."""
    missing = [name for name in _REQUIRED if name not in status.capacity]
    conditions = conditions_of(status.conditions, missing_capacities=missing, now=now, runtime_errors=runtime_errors)
    return replace(status, conditions=conditions)


def has_changed(old: NodeStatus, new: NodeStatus) -> bool:
    """Whether two statuses differ in more than heartbeats.

    Source: kubelet_node_status.go, ``nodeStatusHasChanged`` (kubernetes v1.34.4).
    """
    return _without_heartbeats(old) != _without_heartbeats(new)


class ReportSchedule:
    """When a status goes to the cluster: as soon as it has changed, and otherwise every five minutes.

    The first five minutes after a change are shorter or longer by up to half, so that many nodes that changed together
    do not report together.

    Args:
        seed: decides how much; the same seed gives the same times.

    Source: kubelet_node_status.go, ``isUpdateStatusPeriodExpired``, ``calculateDelay`` (kubernetes v1.34.4).
    """

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - spreads load, guards nothing
        self._reported_at: float | None = None
        self._delay_s = 0.0

    def is_due(self, now: float, *, is_changed: bool) -> bool:
        """Whether to report now."""
        if is_changed or self._reported_at is None:
            return True
        return now - self._reported_at >= NODE_STATUS_REPORT_PERIOD_S + self._delay_s

    def reported(self, now: float, *, is_changed: bool) -> None:
        """Take note that the status was reported."""
        is_spread = is_changed or self._reported_at is None
        self._delay_s = NODE_STATUS_REPORT_PERIOD_S * self._rng.uniform(-0.5, 0.5) if is_spread else 0.0
        self._reported_at = now


def _without_heartbeats(status: NodeStatus) -> tuple[object, ...]:
    conditions = sorted(
        (each.type, each.status, each.reason, each.message, each.last_transition_time) for each in status.conditions
    )
    return conditions, status.capacity, status.allocatable, status.kubelet_version


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away from a node that do not tolerate it; `effect` is one of the API's values."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node object; the store replaces it whole at each change.

    Attributes:
        is_unschedulable: it is cordoned.
        status: what its kubelet published last.
        manifest: the whole v1 Node as the API shows it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    status: NodeStatus = field(default_factory=NodeStatus)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
