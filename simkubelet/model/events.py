"""What happens on a simulated node, as typed events: the vocabulary of every trace.

The node's parts report through an `Observer`; its caller orders and stores the reports. The same events
can be recorded from a real cluster, so nothing here names a part of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

__all__ = [
    "SIMULATOR",
    "ContainerExited",
    "ContainerStarted",
    "DevicesAllocated",
    "DevicesListed",
    "DriverConnected",
    "DriverDisconnected",
    "DriverReconnected",
    "EventRecorded",
    "KubeletCrashed",
    "KubeletStarted",
    "KubeletStopped",
    "NodeEvent",
    "NodeStatusUpdated",
    "Observer",
    "PluginDisconnected",
    "PluginRegistered",
    "PluginSocketFound",
    "PodRemoved",
    "PodScheduled",
    "PodStatusUpdated",
    "RegistrationRefused",
    "driver_endpoint",
]

SIMULATOR: Final = "simkubelet"
"""The component of Events that say what the simulator does otherwise; no real cluster has them."""


@dataclass(frozen=True, slots=True)
class KubeletStarted:
    """A kubelet instance serves its registration socket; `version` is its own, such as ``v1.34.4``."""

    kind: ClassVar[str] = "kubelet-started"
    node: str
    version: str


@dataclass(frozen=True, slots=True)
class KubeletStopped:
    """A kubelet instance has ended; pods and plugins go on."""

    kind: ClassVar[str] = "kubelet-stopped"
    node: str


@dataclass(frozen=True, slots=True)
class KubeletCrashed:
    """A kubelet process ended by itself; `reason` is the first line of its panic, or why it did not start."""

    kind: ClassVar[str] = "kubelet-crashed"
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class PluginSocketFound:
    """The kubelet has found a socket in ``plugins_registry``, `endpoint`, and asks it at its next comparison."""

    kind: ClassVar[str] = "plugin-socket-found"
    node: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class PluginRegistered:
    """The kubelet accepted a Register call; `endpoint` is the socket's name in the plugin folder."""

    kind: ClassVar[str] = "plugin-registered"
    node: str
    resource: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """The kubelet answered a Register call with an error, `message` word for word."""

    kind: ClassVar[str] = "registration-refused"
    node: str
    resource: str
    endpoint: str
    message: str


@dataclass(frozen=True, slots=True)
class PluginDisconnected:
    """A ListAndWatch stream ended and the kubelet stopped the resource's endpoint.

    Attributes:
        said: With what it ended, as the kubelet logs it: ``EOF``, or the text of gRPC's error.
    """

    kind: ClassVar[str] = "plugin-disconnected"
    node: str
    resource: str
    said: str = ""


def driver_endpoint(path: str) -> str:
    """A DRA driver's socket as events name it: drivers have a folder each, in which the socket has the same name."""
    return "/".join(PurePosixPath(path).parts[-2:])


@dataclass(frozen=True, slots=True)
class DriverConnected:
    """The kubelet is connected to a plugin of a DRA driver that has registered, so that claims can be prepared."""

    kind: ClassVar[str] = "driver-connected"
    node: str
    driver: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class DriverReconnected:
    """The kubelet is connected again to a plugin of a DRA driver, by an earlier registration.

    A driver that was started again may listen before the kubelet has seen its new registration.
    """

    kind: ClassVar[str] = "driver-reconnected"
    node: str
    driver: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class DriverDisconnected:
    """The kubelet is not connected to a plugin of a DRA driver any more."""

    kind: ClassVar[str] = "driver-disconnected"
    node: str
    driver: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class DevicesListed:
    """A ListAndWatch response arrived: device ids by health, each sorted."""

    kind: ClassVar[str] = "devices-listed"
    node: str
    resource: str
    healthy: tuple[str, ...]
    unhealthy: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DevicesAllocated:
    """A container was given devices (sorted ids), and the plugin answered Allocate.

    Attributes:
        response: What it answered for the container: ``envs``, ``mounts``, ``devices``, ``annotations`` and
            ``cdi_devices``, those that have something in them, as plain data.
    """

    kind: ClassVar[str] = "devices-allocated"
    node: str
    pod: str
    container: str
    resource: str
    devices: tuple[str, ...]
    response: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContainerStarted:
    """A container runs; `attempt` counts its runs from 0."""

    kind: ClassVar[str] = "container-started"
    node: str
    pod: str
    container: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ContainerExited:
    """A container that ran has ended, and a kubelet that looks after its pod knows; `reason` is its state's."""

    kind: ClassVar[str] = "container-exited"
    node: str
    pod: str
    container: str
    attempt: int
    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True)
class NodeStatusUpdated:
    """The node's published status changed: resource name -> quantity."""

    kind: ClassVar[str] = "node-status"
    node: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]

    def __post_init__(self) -> None:
        # The caller may change its own mappings later.
        object.__setattr__(self, "capacity", dict(self.capacity))
        object.__setattr__(self, "allocatable", dict(self.allocatable))


@dataclass(frozen=True, slots=True)
class PodScheduled:
    """The scheduler bound a pod to a node."""

    kind: ClassVar[str] = "pod-scheduled"
    pod: str
    node: str


@dataclass(frozen=True, slots=True)
class PodStatusUpdated:
    """A pod's phase, reason or message changed."""

    kind: ClassVar[str] = "pod-status"
    pod: str
    phase: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodRemoved:
    """A pod object is gone: its containers have ended and the deletion is final."""

    kind: ClassVar[str] = "pod-removed"
    pod: str


@dataclass(frozen=True, slots=True)
class EventRecorded:
    """A Kubernetes Event about a pod; `type` is Normal or Warning."""

    kind: ClassVar[str] = "event"
    pod: str
    type: str
    reason: str
    message: str
    component: str


NodeEvent = (
    KubeletStarted
    | KubeletStopped
    | KubeletCrashed
    | PluginSocketFound
    | PluginRegistered
    | RegistrationRefused
    | PluginDisconnected
    | DriverConnected
    | DriverReconnected
    | DriverDisconnected
    | DevicesListed
    | DevicesAllocated
    | ContainerStarted
    | ContainerExited
    | NodeStatusUpdated
    | PodScheduled
    | PodStatusUpdated
    | PodRemoved
    | EventRecorded
)

Observer = Callable[[NodeEvent], None]
