"""An event as a timeline shows it: between which lanes it happens, its words, and whether it is good news."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

from simkubelet.model.events import (
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    DevicesListed,
    DriverConnected,
    DriverDisconnected,
    DriverReconnected,
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    NodeStatusUpdated,
    PluginDisconnected,
    PluginRegistered,
    PluginSocketFound,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
    RegistrationRefused,
)
from simkubelet.model.words import number_of

from ..evaluation.mismatch import shown
from ..trace.events import (
    CheckpointChanged,
    ClaimAllocated,
    ClockAdvanced,
    CommandRun,
    ContractBroken,
    CriRefused,
    DiskFilled,
    DiskFreed,
    ExpectationFailed,
    ExpectationMet,
    FaultHealed,
    FaultInjected,
    FileCreated,
    FileDated,
    FileMoved,
    FileRemoved,
    FileWritten,
    GpuPartitioned,
    NodeRebooted,
    NvmlFailed,
    NvmlHealed,
    PluginCalled,
    PluginExited,
    PluginMeasured,
    PluginPaused,
    PluginResumed,
    PluginSignalled,
    PluginStarted,
    RegistrationAnswered,
    RuntimePaused,
    RuntimeResumed,
    StepStarted,
)
from ..trace.trace import Event, fields_of


class LaneKind(IntEnum):
    """What a lane belongs to, in the order from top to bottom."""

    STORY = 0
    FAULTS = 1
    API_SERVER = 2
    KUBELET = 3
    PLUGIN = 4
    DEVICE = 5
    POD = 6


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """One thing that has a history: its kind, its node and resource where it has these, and its name.

    Attributes:
        others: How many more things share the lane.
    """

    kind: LaneKind
    node: str = ""
    resource: str = ""
    name: str = ""
    others: int = 0


STORY: Final = Lane(LaneKind.STORY)
FAULTS: Final = Lane(LaneKind.FAULTS)
API_SERVER: Final = Lane(LaneKind.API_SERVER)


def kubelet(node: str) -> Lane:
    """The lane of a node's kubelet."""
    return Lane(LaneKind.KUBELET, node)


def plugin(node: str, name: str) -> Lane:
    """The lane of a plugin on a node."""
    return Lane(LaneKind.PLUGIN, node, name=clipped(name))


def device(node: str, resource: str, name: str) -> Lane:
    """The lane of a device."""
    return Lane(LaneKind.DEVICE, node, resource, clipped(name))


def pod(name: str) -> Lane:
    """The lane of a pod."""
    return Lane(LaneKind.POD, name=clipped(name))


class Tone(StrEnum):
    """Whether an event is good news; most are neither."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"


TEXTS: Final[Mapping[type[Event], str]] = {
    KubeletStarted: "the kubelet serves its registration socket",
    KubeletStopped: "the kubelet has ended",
    KubeletCrashed: "the kubelet crashed: {reason}",
    PluginSocketFound: "the kubelet found the socket {endpoint}",
    PluginRegistered: "Register {resource} at {endpoint}: accepted",
    RegistrationRefused: "Register {resource} at {endpoint}: refused: {message}",
    PluginDisconnected: "ListAndWatch of {resource} ended",
    DriverConnected: "the kubelet is connected to the driver {driver} at {endpoint}",
    DriverReconnected: "the kubelet is connected again to the driver {driver} at {endpoint}, not registered anew",
    DriverDisconnected: "the kubelet is not connected to the driver {driver} at {endpoint} any more",
    DevicesListed: "ListAndWatch {resource}: {healthy} healthy, {unhealthy} unhealthy",
    DevicesAllocated: "{devices} of {resource} for container {container} of {pod}",
    ContainerStarted: "container {container} runs",
    ContainerExited: "container {container} ended with exit code {exit_code}: {reason}",
    NodeStatusUpdated: "node status",
    PodScheduled: "{pod} was bound to {node}",
    PodStatusUpdated: "{pod} is {phase}",
    PodRemoved: "{pod} was removed",
    EventRecorded: "{type} Event of {pod}: {reason}: {message}",
    StepStarted: "step {step}: {title}",
    ExpectationMet: "step {step}: the expectation is met",
    ExpectationFailed: "step {step}: the expectation is not met: {mismatches}",
    PluginStarted: "{plugin} was started, process {life}",
    PluginExited: "{plugin} ended with status {status}",
    PluginPaused: "{plugin} was paused",
    PluginResumed: "{plugin} was resumed",
    ClaimAllocated: "claim {claim} was allocated {devices}",
    PluginSignalled: "{plugin} was sent {signal}",
    PluginCalled: "{rpc} with {devices}",
    RegistrationAnswered: "Register {resource} at {endpoint}",
    ContractBroken: "{plugin} broke its contract: {detail}",
    PluginMeasured: "{plugin} has {open_files} and {threads}",
    CommandRun: "the program {command} has ended",
    NodeRebooted: "{node} rebooted",
    CheckpointChanged: "the checkpoint of {node} was changed: {to}",
    DiskFilled: "no disk space for the checkpoint of {node}",
    DiskFreed: "disk space for the checkpoint of {node} again",
    RuntimePaused: "the container runtime of {node} was paused",
    RuntimeResumed: "the container runtime of {node} was resumed",
    CriRefused: "the container runtime of {node} refuses {calls}",
    FaultInjected: "{gpu} fails",
    FaultHealed: "{gpu} is healed",
    GpuPartitioned: "GPU {index} was partitioned: {mig}",
    NvmlFailed: "{call} of NVML returns {error}",
    NvmlHealed: "NVML works again",
    FileCreated: "{path} was created",
    FileWritten: "{path} was written",
    FileDated: "{path} was given a date {age} s ago",
    FileMoved: "{path} was renamed to {to}",
    FileRemoved: "{path} was removed",
    ClockAdvanced: "node time advanced by {seconds} s",
}
"""The words of each kind of event; of devices there is how many they are."""
_LONGEST: Final = 600
"""Characters."""
_THINGS: Final = {"devices": "device", "open_files": "open file", "threads": "thread"}
"""Field -> what it counts or lists, in the singular."""
_COUNTED: Final = ("healthy", "unhealthy")


def text(event: Event) -> str:
    """An event in one line."""
    fields = fields_of(event)
    values = {name: _in_words(name, value) for name, value in fields.items()}
    if "mismatches" in fields:
        values["mismatches"] = "; ".join(fields["mismatches"])
    return clipped(": ".join((TEXTS[type(event)].format(**values), *filter(None, _more(event)))))


def _more(event: Event) -> tuple[str, ...]:
    """What some events say besides, each empty where they do not."""
    match event:
        case FaultInjected(xid=xid, lost=lost):
            faults = [f"XID {xid}"] if xid is not None else []
            faults += ["fell off the bus"] if lost else []
            return (" and ".join(faults) or "its vendor's monitor reports it as unhealthy",)
        case PodStatusUpdated(reason=reason, message=message):
            return reason, message
        case RegistrationAnswered(error=error):
            return (error or "accepted",)
        case PluginExited(said=said) | PluginDisconnected(said=said):
            return (said,)
    return ()


def tone(event: Event) -> Tone:
    """Whether an event is good news."""
    match event:
        case ExpectationFailed() | KubeletCrashed() | RegistrationRefused() | FaultInjected() | NvmlFailed():
            return Tone.BAD
        case (
            DiskFilled() | CriRefused(calls=(_, *_)) | EventRecorded(type="Warning") | PodStatusUpdated(phase="Failed")
        ):
            return Tone.BAD
        case PluginExited(status=code) | ContainerExited(exit_code=code) if code != 0:
            return Tone.BAD
        case RegistrationAnswered(error=error) if error:
            return Tone.BAD
        case DevicesListed(unhealthy=(_, *_)):
            return Tone.BAD
        case ExpectationMet() | FaultHealed() | NvmlHealed() | DiskFreed() | RuntimeResumed() | PluginResumed():
            return Tone.GOOD
    return Tone.PLAIN


def ends(event: Event, plugin_of: Callable[[str, str], str]) -> tuple[Lane, Lane]:
    """The lanes between which an event happens, from and to; both are the same where it concerns one.

    Args:
        event: Any event.
        plugin_of: Returns the name of the plugin that serves a resource on a node.
    """
    match event:
        case StepStarted() | ExpectationMet() | ExpectationFailed() | ClockAdvanced():
            return STORY, STORY
        case PluginRegistered() | RegistrationRefused() | PluginDisconnected() | DevicesListed():
            server = plugin(event.node, plugin_of(event.node, event.resource))
            return server, kubelet(event.node)
        case PluginCalled(node=node, plugin=name) | RegistrationAnswered(node=node, plugin=name):
            return kubelet(node), plugin(node, name)
        case (
            PluginStarted()
            | PluginExited()
            | PluginPaused()
            | PluginResumed()
            | PluginSignalled()
            | PluginMeasured()
            | ContractBroken()
        ):
            return plugin(event.node, event.plugin), plugin(event.node, event.plugin)
        case DevicesAllocated() | ContainerStarted() | ContainerExited():
            return kubelet(event.node), pod(event.pod)
        case NodeStatusUpdated(node=node):
            return kubelet(node), API_SERVER
        case PodScheduled(node=node):
            return API_SERVER, kubelet(node)
        case ClaimAllocated():
            return STORY, API_SERVER
        case EventRecorded() | PodRemoved() | PodStatusUpdated():
            return API_SERVER, pod(event.pod)
        case KubeletStarted() | KubeletStopped() | KubeletCrashed() | PluginSocketFound():
            return kubelet(event.node), kubelet(event.node)
        case DriverConnected() | DriverReconnected() | DriverDisconnected():
            return kubelet(event.node), kubelet(event.node)
        case NodeRebooted() | CheckpointChanged() | DiskFilled() | DiskFreed():
            return FAULTS, kubelet(event.node)
        case RuntimePaused() | RuntimeResumed() | CriRefused():
            return FAULTS, kubelet(event.node)
    return FAULTS, FAULTS


def _in_words(name: str, value: Any) -> object:
    if name in _THINGS:
        return number_of(value if isinstance(value, int) else len(value), _THINGS[name])
    return len(value) if name in _COUNTED else shown(value)


def clipped(text: str) -> str:
    """A text that fits into a report: a plugin may write and a kubelet may report megabytes."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def details(event: Event) -> Iterator[tuple[str, str]]:
    """The fields of an event that have a value, nested ones by their path; long lists are shortened.

    A step is left out: the words number it as people count, from one.
    """
    for name, value in fields_of(event).items():
        if name != "step":
            yield from _flat(name, value)


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}", inner)
    elif value is not None and value is not False and value not in ("", (), []):
        yield path, clipped(shown(value))
