"""What a trace records of a story, without what is left to chance: its normal form.

A trace is split into *lanes*, one for each thing that has a history: a pod, a plugin on a node, a kubelet, a node's
published resources, the story's own hand. Within a lane order counts; between lanes only what the story's
expectations enforce is not chance, and both worlds have met those. Normal form further means:

- times, uids, exit logs and native resources are left out: they are the world's, not the story's;
- Kubernetes Events of a pod are a set: how often and when the same is said again is chance; those about images and
  networks, which no simulated node has, do not count;
- what two containers of a pod do one after the other counts for each: a status reports all at once;
- the end of a container does not count where its pod's object is gone, as nobody can see it then, nor where a kubelet
  reports it only if its work in the background comes at the right moment: of a pod that was refused while it ran, and
  of a static pod, whose status a kubelet forgets every two seconds once the manifest is gone;
- a node's resources count where the story has met an expectation about them: what a kubelet publishes in between
  depends on its period;
- devices are named by who holds them and which faults they have, since a kubelet takes any that are free.

A story ends as soon as its last expectation is met, and one world may have come further by then. So each continues for
a while, and what it records afterwards counts as far as the other had recorded it within the story.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from simkubelet.model.events import (
    SIMULATOR,
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    DriverConnected,
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    NodeStatusUpdated,
    PluginRegistered,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
)

from ..story.expectations import NodeExpectation
from ..story.model import Scenario
from ..story.verbs.file_action import AddStaticPod
from ..trace.events import (
    CheckpointChanged,
    CriRefused,
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
    PluginPaused,
    PluginResumed,
    PluginSignalled,
    PluginStarted,
    RegistrationAnswered,
    RuntimePaused,
    RuntimeResumed,
    StepStarted,
)
from ..trace.snapshot import hardware_of
from ..trace.trace import Entry, Event, fields_of

_PodLife = PodScheduled | ContainerStarted | ContainerExited | PodStatusUpdated | PodRemoved
_Story = (
    FileCreated
    | FileWritten
    | FileDated
    | FileMoved
    | FileRemoved
    | GpuPartitioned
    | NvmlFailed
    | NvmlHealed
    | NodeRebooted
    | CheckpointChanged
    | RuntimePaused
    | RuntimeResumed
    | CriRefused
)
_LEFT_OUT: Final = {"said", "pod", "plugin", "node", "endpoint", "component", "attempt", "version"}
SETS: Final = ("events of pod ", "devices of pod ")
"""How the lanes begin that are sets."""
_OF_IMAGES_AND_NETWORKS: Final = re.compile(
    r"(Pulled|Pulling|FailedCreatePodSandBox): |BackOff: Back-off pulling image "
    r"|Failed: (Failed to pull image |Error: (ErrImage|ImagePull|ImageInspect|InvalidImageName))"
)
_POD: Final = "pod "
_CONTAINER: Final = re.compile(r"^container-\w+ container=(\S+)")
_REFUSED: Final = "Pod was rejected: "
_UID: Final = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_GO_POINTER: Final = re.compile(r"&\{.*\}")
"""A structure as Go prints it: it has addresses and clock readings of the kubelet's process."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a lane: what it says, the step of the story in which it happened, and whether that had ended."""

    text: str
    step: int
    is_late: bool = False


NormalForm = Mapping[str, tuple[Line, ...]]
"""Lane -> its lines."""


def normal_form(entries: Sequence[Entry], scenario: Scenario) -> NormalForm:
    """What two worlds can both record of a story and of the time after it, without what is left to chance."""
    return _Lanes(entries, scenario).read(entries)


class _Lanes:
    """The lanes of a trace, filled from its first entry to its last."""

    def __init__(self, entries: Sequence[Entry], scenario: Scenario) -> None:
        self._scenario = scenario
        self._end = _end_of_story(entries)
        self._unseen = _unseen_ends(entries, _static_pods(scenario))
        self._names = _DeviceNames(entries)
        self._lanes: defaultdict[str, list[Line]] = defaultdict(list)
        self._sets: defaultdict[str, dict[str, Line]] = defaultdict(dict)
        self._published: dict[str, str] = {}
        self._step = 0

    def read(self, entries: Iterable[Entry]) -> NormalForm:
        for entry in entries:
            self._names.follow(entry.event)
            self._take(entry)
        lanes = {name: _by_container(lines) if name.startswith(_POD) else lines for name, lines in self._lanes.items()}
        lanes |= {name: [lines[text] for text in sorted(lines)] for name, lines in self._sets.items()}
        return {name: tuple(lines) for name, lines in sorted(lanes.items())}

    def _take(self, entry: Entry) -> None:
        def add(lane: str, text: str) -> None:
            self._lanes[lane].append(Line(text, self._step, entry.seq > self._end))

        def add_once(lane: str, text: str) -> None:
            self._sets[lane].setdefault(text, Line(text, self._step, entry.seq > self._end))

        match entry.event:
            case StepStarted(step=step):
                self._step = step
            case NodeStatusUpdated(node=node) as status:
                self._published[node] = _extended(status)
            case ExpectationMet():
                expect = self._scenario.steps[self._step - 1].expect
                if isinstance(expect, NodeExpectation) and (expect.capacity or expect.allocatable):
                    add(f"node {expect.node}", self._published.get(expect.node, "no resources"))
            case EventRecorded(component=component) as event:
                text = f"{event.reason}: {event.message}"
                if component != SIMULATOR and not _OF_IMAGES_AND_NETWORKS.match(text):
                    add_once(f"events of pod {event.pod}", _without_chance(f"{event.type} {text}"))
            case DevicesAllocated() as given:
                text = f"{given.container} {given.resource} {self._named(given)}"
                add_once(f"devices of pod {given.pod}", text)
            case FaultInjected(node=node, gpu=gpu) | FaultHealed(node=node, gpu=gpu):
                add("story", f"{entry.kind} {self._names.name(node, gpu)}")
            case KubeletCrashed(node=node, reason=reason):
                # What is in brackets is the simulator's own explanation.
                add(f"kubelet of {node}", f"{entry.kind} {reason.partition(' [')[0]}")
            case event if entry.seq not in self._unseen and (lane := _lane(event)) is not None:
                add(lane, _without_chance(f"{entry.kind} {_fields(event)}".strip()))

    def _named(self, given: DevicesAllocated) -> str:
        holder = given.pod, given.container
        return "[" + ", ".join(sorted(self._names.name(given.node, one, *holder) for one in given.devices)) + "]"


def _without_chance(text: str) -> str:
    """A text without what is another one in each world."""
    return _GO_POINTER.sub("&{…}", _UID.sub("<uid>", text))


def _by_container(lines: Iterable[Line]) -> list[Line]:
    """The lines of a pod, where what its containers did between two events of its own stands container by container."""
    ordered: list[Line] = []
    for _, group in groupby(lines, key=lambda line: _CONTAINER.search(line.text) is None):
        ordered += sorted(group, key=lambda line: (_CONTAINER.findall(line.text) or [""])[0])
    return ordered


def _end_of_story(entries: Sequence[Entry]) -> int:
    """The number of the entry with which the last step ended."""
    ends = (entry.seq for entry in entries if isinstance(entry.event, ExpectationMet | StepStarted))
    return max(ends, default=-1)


def _static_pods(scenario: Scenario) -> set[str]:
    """The names of their mirrors."""
    added = [step.action for step in scenario.steps if isinstance(step.action, AddStaticPod)]
    return {f"{one.manifest.pod}-{one.node or scenario.nodes[0].name}" for one in added}


def _unseen_ends(entries: Sequence[Entry], static_pods: Collection[str]) -> set[int]:
    """The numbers of the ends of containers that do not count.

    They come after the end of their pod's object or just before that of a static pod, or beside a refusal of the pod.

    Source: kubelet/kubelet_pods.go, ``HandlePodCleanups``; status/status_manager.go, ``syncBatch`` (kubernetes
    v1.34.4): the status of a forgotten pod counts its versions from one again, so it looks as if it had been sent.
    """
    lives: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if isinstance(entry.event, _PodLife):
            lives[entry.event.pod].append(entry)
    unseen: set[int] = set()
    for pod, life in lives.items():
        groups = [list(group) for _, group in groupby(life, key=_is_end)]
        for place, group in enumerate(groups):
            before = groups[place - 1][-1].event if place else None
            after = groups[place + 1][0].event if place + 1 < len(groups) else None
            is_refused = _is_refusal(before) or _is_refusal(after)
            is_removed = isinstance(before, PodRemoved) or (pod in static_pods and isinstance(after, PodRemoved))
            if _is_end(group[0]) and (is_refused or is_removed):
                unseen.update(entry.seq for entry in group)
    return unseen


def _is_end(entry: Entry) -> bool:
    return isinstance(entry.event, ContainerExited)


def _is_refusal(event: Event | None) -> bool:
    return isinstance(event, PodStatusUpdated) and event.message.startswith(_REFUSED)


def _lane(event: Event) -> str | None:
    match event:
        case PodScheduled(pod=pod) | ContainerStarted(pod=pod) | ContainerExited(pod=pod):
            return f"{_POD}{pod}"
        case PodStatusUpdated(pod=pod) | PodRemoved(pod=pod):
            return f"{_POD}{pod}"
        case PluginStarted() | PluginExited() | PluginPaused() | PluginResumed() | PluginSignalled():
            return f"plugin {event.plugin} on {event.node}"
        case PluginCalled(plugin=plugin, node=node):
            return f"calls of {plugin} on {node}"
        case RegistrationAnswered(plugin=plugin, node=node):
            return f"answers to {plugin} on {node}"
        case PluginRegistered(resource=resource, node=node):
            return f"registrations of {resource} on {node}"
        case DriverConnected(driver=driver, node=node):
            return f"connections of {driver} on {node}"
        case KubeletStarted(node=node):
            return f"kubelet of {node}"
    return "story" if isinstance(event, _Story) else None


def _fields(event: Event) -> str:
    kept = {key: value for key, value in fields_of(event).items() if key not in _LEFT_OUT and value not in ("", (), [])}
    return " ".join(f"{key}={_shown(value)}" for key, value in kept.items())


def _shown(value: object) -> str:
    """A value; of a list of devices its length, as a call is recorded before or after their allocation."""
    return str(len(value) if isinstance(value, tuple) else value)


def _extended(status: NodeStatusUpdated) -> str:
    shown = [
        f"{part} {resource}={amount}"
        for part, resources in (("capacity", status.capacity), ("allocatable", status.allocatable))
        for resource, amount in sorted(resources.items())
        if "/" in resource
    ]
    return ", ".join(shown) or "no resources"


class _DeviceNames:
    """Devices named by what a kubelet goes by when it chooses: who holds them, and which faults they have.

    The names are those at one moment of a trace; `follow` moves it on.

    Args:
        entries: The whole trace: the containers of one pod get their devices together, recorded in any order.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._containers: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for entry in entries:
            match entry.event:
                case DevicesAllocated(node=node, pod=pod, container=container, devices=devices):
                    for device in _with_hardware(devices):
                        self._containers[node, device, pod].add(container)
        self._holders: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._faults: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._ended: set[str] = set()

    def follow(self, event: Event) -> None:
        """Take the next event of the trace into account."""
        match event:
            case DevicesAllocated(node=node, pod=pod, devices=devices) if pod not in self._ended:
                # A pod that is in `_ended` was rejected, and the API server reported that before its node reported
                # what the pod had been given.
                for device in _with_hardware(devices):
                    self._holders[node, device].add(pod)
            case PodRemoved(pod=pod):
                self._release(pod)
                self._ended.discard(pod)
            case PodStatusUpdated(pod=pod, phase="Succeeded" | "Failed"):
                self._release(pod)
                self._ended.add(pod)
            case FaultInjected(node=node, gpu=gpu):
                self._faults[node, gpu] += _faults(event)
            case FaultHealed(node=node, gpu=gpu):
                self._faults.pop((node, gpu), None)

    def name(self, node: str, device: str, pod: str = "", container: str = "") -> str:
        """What a device is to a container of a pod: ``<other/main, xid 79>``, or ``<free>``.

        The container itself is left out, whether or not it has the device by now.
        """
        pods = {*self._holders[node, device], pod}
        holders = {f"{one}/{each}" for one in pods for each in self._containers[node, device, one]}
        faults = self._faults[node, hardware_of(device)]
        return "<" + ", ".join([*sorted(holders - {f"{pod}/{container}"}), *faults] or ["free"]) + ">"

    def _release(self, pod: str) -> None:
        for pods in self._holders.values():
            pods.discard(pod)


def _with_hardware(devices: Iterable[str]) -> set[str]:
    return {name for device in devices for name in (device, hardware_of(device))}


def _faults(injected: FaultInjected) -> list[str]:
    xid = [] if injected.xid is None else [f"xid {injected.xid}"]
    lost = ["lost"] if injected.lost else []
    return [*xid, *lost] or ["unhealthy"]
