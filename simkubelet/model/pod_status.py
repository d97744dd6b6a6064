"""What a node reports of a pod: its phase, its conditions and the states of its containers.

Times are seconds of the node's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from .resources import ResourceName

__all__ = [
    "Condition",
    "ConditionType",
    "ContainerState",
    "ContainerStatus",
    "PodPhase",
    "PodStatus",
    "Rejection",
    "ResourceHealth",
    "ResourceStatus",
    "Running",
    "Terminated",
    "Waiting",
]


class PodPhase(StrEnum):
    """Where a pod is in its lifecycle."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        return self in (PodPhase.SUCCEEDED, PodPhase.FAILED)


class ConditionType(StrEnum):
    """The conditions of a pod: those that a kubelet owns, and the one with which others announce its end."""

    READY_TO_START_CONTAINERS = "PodReadyToStartContainers"
    INITIALIZED = "Initialized"
    READY = "Ready"
    CONTAINERS_READY = "ContainersReady"
    SCHEDULED = "PodScheduled"
    DISRUPTION_TARGET = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class ResourceHealth:
    """One device: ``Healthy``, or ``Unhealthy`` for every other word of its plugin."""

    resource_id: str
    health: str


@dataclass(frozen=True, slots=True)
class ResourceStatus:
    """The devices that a container holds of one resource, by id."""

    name: ResourceName
    resources: Sequence[ResourceHealth]


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `is_true` stands for the status ``True`` or ``False``."""

    type: ConditionType
    is_true: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The container does not run yet, or not again."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """The container runs."""

    started_at: float


@dataclass(frozen=True, slots=True)
class Terminated:
    """The container has ended; `exit_code` is 128 + n for one that the signal n ended.

    One whose end was not observed has no times: both are 0.
    """

    exit_code: int
    reason: str
    started_at: float
    finished_at: float
    message: str = ""


ContainerState: TypeAlias = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """One entry of ``containerStatuses`` or ``initContainerStatuses``.

    Attributes:
        last_state: how the run before this one ended.
        is_ready: it runs, or it is an init container that has done its work.
        restart_count: how often it was started after the first time.
        is_started: it runs; no container here has a startup probe.
        resources: the health of the devices that it holds, by resource; filled where the gate ResourceHealthStatus is
            on.
    """

    name: str
    state: ContainerState
    last_state: Terminated | None = None
    is_ready: bool = False
    restart_count: int = 0
    is_started: bool = False
    resources: tuple[ResourceStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class PodStatus:
    """What the node reports of a pod: init containers in the manifest's order, the others by name.

    Source: kubelet/types/types.go, ``SortedContainerStatuses``, ``SortStatusesOfInitContainers`` (kubernetes v1.34.4).
    """

    phase: PodPhase = PodPhase.PENDING
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = ()
    containers: tuple[ContainerStatus, ...] = ()

    def condition(self, type_: ConditionType) -> Condition | None:
        """The condition of a type; None while the node has not reported it."""
        return next((condition for condition in self.conditions if condition.type is type_), None)

    def container(self, name: str) -> ContainerStatus | None:
        """The status of the container of this name, init or not."""
        return next((status for status in self.init_containers + self.containers if status.name == name), None)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod was refused; it ends as Failed with this reason, and the message behind "Pod was rejected: "."""

    reason: str
    message: str
