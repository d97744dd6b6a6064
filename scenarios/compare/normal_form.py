"""What a trace tells of a story with the chance taken out: its normal form.

A trace is split into *lanes*, one for each thing that has a history: a pod, a plugin on a node, a kubelet, a node's
published resources, the story's own hand. Within a lane order counts; between lanes only what the story's
expectations enforce is not chance, and both worlds have met those. Normal form further means:

- times, uids, last words and native resources are left out: they are the world's, not the story's;
- Kubernetes Events of a pod are a set: how often and when the same is said again is chance; those about images and
  networks, which no simulated node has, do not count;
- what two containers of a pod do one after the other counts for each: a status tells of all at once;
- the end of a container does not count where its pod's object is gone, as nobody can see it then, nor where the pod was
  refused while it ran, as a kubelet tells it only when it relists its containers at the right moment;
- a node's resources count where the story has met an expectation about them: what a kubelet publishes in between
  depends on its period;
- devices are named by who holds them and which faults they have, since a kubelet takes any that are free.

A story ends as soon as its last expectation is met, and one world may have come further by then. So each goes on for a
while, and what it tells afterwards counts as far as the other had told it within the story.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from simkubelet.model.events import (
    SIMULATOR,
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    NodeStatusUpdated,
    PluginRegistered,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
)

from ..story.expectations.expectation import NodeExpectation
from ..story.model import Scenario
from ..trace.device_names import DeviceNames
from ..trace.events import (
    CheckpointChanged,
    CriRefused,
    ExpectationMet,
    FaultHealed,
    FaultInjected,
    FileCreated,
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
from ..trace.trace import Event

_POD_LIFE: Final = {
    event.kind for event in (PodScheduled, ContainerStarted, ContainerExited, PodStatusUpdated, PodRemoved)
}
_PLUGIN_LIFE: Final = {
    event.kind for event in (PluginStarted, PluginExited, PluginPaused, PluginResumed, PluginSignalled)
}
_STORY: Final = {
    event.kind
    for event in (
        FileCreated,
        FileWritten,
        FileMoved,
        FileRemoved,
        GpuPartitioned,
        NvmlFailed,
        NvmlHealed,
        NodeRebooted,
        CheckpointChanged,
        RuntimePaused,
        RuntimeResumed,
        CriRefused,
    )
}
_LEFT_OUT: Final = {"said", "pod", "plugin", "node", "endpoint", "component", "attempt"}
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a lane: what it says, the step of the story in which it happened, and whether that had ended."""

    text: str
    step: int
    is_late: bool = False


NormalForm = Mapping[str, tuple[Entry, ...]]
"""Lane -> its entries."""


def normal_form(events: Sequence[Event], scenario: Scenario) -> NormalForm:
    """What two worlds can both tell of a story and of the while after it, with chance taken out."""
    end = _end_of_story(events)
    names = DeviceNames(events)
    lanes: defaultdict[str, list[Entry]] = defaultdict(list)
    sets: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
    published: dict[str, str] = {}
    unseen = _unseen_ends(events)
    step = -1

    def entry(text: str) -> Entry:
        return Entry(text, step, event.seq > end)

    for event in events:
        fields = event.fields
        names.heed(event)
        match event.kind:
            case StepStarted.kind:
                step = fields["step"]
            case NodeStatusUpdated.kind:
                published[fields["node"]] = _extended(fields)
            case ExpectationMet.kind:
                expect = scenario.steps[step].expect
                if isinstance(expect, NodeExpectation) and (expect.capacity or expect.allocatable):
                    lanes[f"node {expect.node}"].append(entry(published.get(expect.node, "no resources")))
            case EventRecorded.kind if fields["component"] == SIMULATOR:
                continue
            case EventRecorded.kind if not _OF_IMAGES_AND_NETWORKS.match(f"{fields['reason']}: {fields['message']}"):
                text = _UID.sub("<uid>", f"{fields['type']} {fields['reason']}: {fields['message']}")
                sets[f"events of pod {fields['pod']}"].setdefault(text, entry(text))
            case DevicesAllocated.kind:
                lane = f"devices of pod {fields['pod']}"
                holder = fields["node"], fields["pod"], fields["container"]
                text = f"{fields['container']} {fields['resource']} {_named(fields['devices'], names, *holder)}"
                sets[lane].setdefault(text, entry(text))
            case FaultInjected.kind | FaultHealed.kind:
                gpu = names.name(fields["node"], fields["gpu"])
                lanes["story"].append(entry(f"{event.kind} {gpu}"))
            case KubeletCrashed.kind:
                # What is in brackets is the simulator's own explanation.
                text = f"{KubeletCrashed.kind} {fields['reason'].partition(' [')[0]}"
                lanes[f"kubelet of {fields['node']}"].append(entry(text))
            case kind if event.seq not in unseen and (told_in := _lane(kind, fields)) is not None:
                lanes[told_in].append(entry(f"{kind} {_fields(fields)}".strip()))
    for lane, of_pod in lanes.items():
        if lane.startswith(_POD):
            lanes[lane] = _by_container(of_pod)
    for lane, entries in sets.items():
        lanes[lane] = [entries[text] for text in sorted(entries)]
    return {lane: tuple(entries) for lane, entries in sorted(lanes.items())}


def _by_container(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of a pod, where what its containers did between two events of its own is told one after the other."""
    ordered: list[Entry] = []
    for _, group in groupby(entries, key=lambda entry: _CONTAINER.search(entry.text) is None):
        ordered += sorted(group, key=lambda entry: (_CONTAINER.findall(entry.text) or [""])[0])
    return ordered


def _end_of_story(events: Sequence[Event]) -> int:
    """The number of the event with which the last step ended."""
    return max((event.seq for event in events if event.kind in (ExpectationMet.kind, StepStarted.kind)), default=-1)


def _unseen_ends(events: Sequence[Event]) -> set[int]:
    """The numbers of containers' ends that come after the end of their pod's object, or beside a refusal of the pod."""
    lives: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind in _POD_LIFE:
            lives[event.fields["pod"]].append(event)
    unseen: set[int] = set()
    for life in lives.values():
        groups = [list(group) for _, group in groupby(life, key=lambda event: event.kind == ContainerExited.kind)]
        for place, group in enumerate(groups):
            before = groups[place - 1][-1] if place else None
            after = groups[place + 1][0] if place + 1 < len(groups) else None
            is_gone = before is not None and before.kind == PodRemoved.kind
            if group[0].kind == ContainerExited.kind and (is_gone or _is_refusal(before) or _is_refusal(after)):
                unseen.update(event.seq for event in group)
    return unseen


def _is_refusal(event: Event | None) -> bool:
    return event is not None and str(event.fields.get("message", "")).startswith(_REFUSED)


def _lane(kind: str, fields: Mapping[str, Any]) -> str | None:
    if kind in _POD_LIFE:
        return f"{_POD}{fields['pod']}"
    if kind in _PLUGIN_LIFE:
        return f"plugin {fields['plugin']} on {fields['node']}"
    if kind == PluginCalled.kind:
        return f"calls of {fields['plugin']} on {fields['node']}"
    if kind == RegistrationAnswered.kind:
        return f"answers to {fields['plugin']} on {fields['node']}"
    if kind == PluginRegistered.kind:
        return f"registrations of {fields['resource']} on {fields['node']}"
    if kind == KubeletStarted.kind:
        return f"kubelet of {fields['node']}"
    return "story" if kind in _STORY else None


def _fields(fields: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in fields.items() if key not in _LEFT_OUT and value not in ("", (), [])}
    return " ".join(f"{key}={_shown(value)}" for key, value in kept.items())


def _shown(value: object) -> str:
    """A value; of the devices that a call names how many there are, as it is told before or after their allocation."""
    return str(len(value) if isinstance(value, list | tuple) else value)


def _named(devices: Iterable[str], names: DeviceNames, node: str, pod: str, container: str) -> str:
    return "[" + ", ".join(sorted(names.name(node, device, pod, container) for device in devices)) + "]"


def _extended(fields: Mapping[str, Any]) -> str:
    shown = [
        f"{part} {resource}={amount}"
        for part in ("capacity", "allocatable")
        for resource, amount in sorted(fields[part].items())
        if "/" in resource
    ]
    return ", ".join(shown) or "no resources"
