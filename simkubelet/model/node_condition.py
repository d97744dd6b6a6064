"""The conditions of a node: three kinds of pressure, and whether it is ready.

A simulated machine is never under pressure and its runtime never fails, so a node is ready as soon as it knows what
it has.

Source: kubelet/nodestatus/setters.go, ``MemoryPressureCondition`` and its neighbours, ``ReadyCondition`` (kubernetes
v1.34.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

__all__ = ["ConditionStatus", "ConditionType", "NodeCondition", "conditions_of"]


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
