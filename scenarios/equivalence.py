"""Whether two traces of one story tell the same: their normal forms, and what differs first.

A trace is split into *lanes*, one for each thing that has a history: a pod, a plugin on a node, a kubelet, a node's
published resources, the story's own hand. Within a lane order counts; between lanes only what the story's
expectations enforce is not chance, and both worlds have met those. Normal form further means:

- times, numbers of lives' last words and native resources are left out: they are the world's, not the story's;
- Kubernetes Events of a pod are a set: how often and when the same is said again is chance;
- a node's resources count where the story has met an expectation about them: what a kubelet publishes in between
  depends on its period;
- devices are named by their history (who got them and which faults they had), since a kubelet takes any that are free.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simkubelet.events import (
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

from .events import (
    CheckpointChanged,
    ExpectationMet,
    FaultHealed,
    FaultInjected,
    FileCreated,
    FileRemoved,
    NodeRebooted,
    PluginCalled,
    PluginExited,
    PluginPaused,
    PluginResumed,
    PluginStarted,
    RegistrationAnswered,
    StepStarted,
)
from .expectation import NodeExpectation
from .model import Scenario
from .trace import Event

_POD_LIFE: Final = {
    event.kind for event in (PodScheduled, ContainerStarted, ContainerExited, PodStatusUpdated, PodRemoved)
}
_PLUGIN_LIFE: Final = {event.kind for event in (PluginStarted, PluginExited, PluginPaused, PluginResumed)}
_STORY: Final = {
    event.kind for event in (FaultInjected, FaultHealed, FileCreated, FileRemoved, NodeRebooted, CheckpointChanged)
}
_LEFT_OUT: Final = {"said", "pod", "plugin", "node", "endpoint", "component", "attempt"}
_SETS: Final = ("events of pod ", "devices of pod ")
"""How the lanes begin that are sets."""
_EVENTS_OF_IMAGES: Final = {"Pulled", "Pulling", "SandboxChanged", "Failed", "FailedCreatePodSandBox"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a lane: what it says, and the step of the story in which it happened."""

    text: str
    step: int


NormalForm = Mapping[str, tuple[Entry, ...]]
"""Lane -> its entries."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The earliest lane that differs: its name, the step, and all lanes that differ as lines of a diff."""

    lane: str
    step: int
    lines: tuple[str, ...]


def normal_form(events: Sequence[Event], scenario: Scenario) -> NormalForm:
    """What two worlds can both tell of a story, with chance taken out."""
    told = _up_to_the_last_step(events)
    names = _device_names(told)
    lanes: defaultdict[str, list[Entry]] = defaultdict(list)
    sets: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
    published: dict[str, str] = {}
    step = -1
    for event in told:
        fields = event.fields
        match event.kind:
            case StepStarted.kind:
                step = fields["step"]
            case NodeStatusUpdated.kind:
                published[fields["node"]] = _extended(fields)
            case ExpectationMet.kind:
                expect = scenario.steps[step].expect
                if isinstance(expect, NodeExpectation) and (expect.capacity or expect.allocatable):
                    lanes[f"node {expect.node}"].append(Entry(published.get(expect.node, "no resources"), step))
            case EventRecorded.kind if fields["reason"] not in _EVENTS_OF_IMAGES:
                text = f"{fields['type']} {fields['reason']}: {fields['message']}"
                sets[f"events of pod {fields['pod']}"].setdefault(text, Entry(text, step))
            case DevicesAllocated.kind:
                lane = f"devices of pod {fields['pod']}"
                text = f"{fields['container']} {fields['resource']} {_named(fields['devices'], names)}"
                sets[lane].setdefault(text, Entry(text, step))
            case KubeletCrashed.kind:
                # What is in brackets is the simulator's own explanation.
                text = f"{KubeletCrashed.kind} {fields['reason'].partition(' [')[0]}"
                lanes[f"kubelet of {fields['node']}"].append(Entry(text, step))
            case kind if (told_in := _lane(kind, fields)) is not None:
                lanes[told_in].append(Entry(f"{kind} {_fields(fields, names)}".strip(), step))
    for lane, entries in sets.items():
        lanes[lane] = [entries[text] for text in sorted(entries)]
    return {lane: tuple(entries) for lane, entries in sorted(lanes.items())}


def compare(first: NormalForm, second: NormalForm, names: tuple[str, str], cut: int) -> Divergence | None:
    """What differs between two normal forms; None where nothing does.

    Args:
        first: Of one world.
        second: Of the other.
        names: The worlds' names, for the diff.
        cut: The step of the story's last action. What one world tells more than the other at a lane's end, from there
            on, may only not have happened yet: a story ends as soon as its last expectation is met.
    """
    different = [lane for lane in sorted({*first, *second}) if not _agree(first, second, lane, cut)]
    if not different:
        return None
    lines: list[str] = []
    for lane in different:
        lines.append(lane)
        diff = difflib.unified_diff(_texts(first, lane), _texts(second, lane), *names, n=2, lineterm="")
        lines += [f"  {line}" for line in diff if not line.startswith("@@")]
    earliest = min(different, key=lambda lane: _first_step(first.get(lane, ()), second.get(lane, ())))
    return Divergence(earliest, _first_step(first.get(earliest, ()), second.get(earliest, ())), tuple(lines))


def last_action(scenario: Scenario) -> int:
    """The index of the last step that does something, -1 where none does."""
    acting = [index for index, one in enumerate(scenario.steps) if one.action is not None and scenario.has_step(one)]
    return acting[-1] if acting else -1


def _agree(first: NormalForm, second: NormalForm, lane: str, cut: int) -> bool:
    one, other = first.get(lane, ()), second.get(lane, ())
    if lane.startswith(_SETS):
        missing = [
            [entry for entry in mine if entry.text not in _texts(theirs, lane)]
            for mine, theirs in ((one, second), (other, first))
        ]
        return not all(missing) and all(entry.step >= cut for entry in (*missing[0], *missing[1]))
    length = min(len(one), len(other))
    surplus = (*one[length:], *other[length:])
    return _texts(first, lane)[:length] == _texts(second, lane)[:length] and all(late.step >= cut for late in surplus)


def explained(divergence: Divergence, scenario: Scenario) -> str:
    """The first divergence in one sentence."""
    where = scenario.steps[divergence.step].title if divergence.step >= 0 else "the beginning"
    return f"the traces differ first in '{divergence.lane}', at step '{where}'"


def _up_to_the_last_step(events: Sequence[Event]) -> Sequence[Event]:
    """Without the end of the world, which is no part of the story."""
    met = [index for index, event in enumerate(events) if event.kind in (ExpectationMet.kind, StepStarted.kind)]
    return events[: met[-1] + 1] if met else events


def _lane(kind: str, fields: Mapping[str, Any]) -> str | None:
    if kind in _POD_LIFE:
        return f"pod {fields['pod']}"
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


def _fields(fields: Mapping[str, Any], names: Mapping[str, str]) -> str:
    kept = {key: value for key, value in fields.items() if key not in _LEFT_OUT and value not in ("", (), [])}
    return " ".join(f"{key}={_shown(value, names)}" for key, value in kept.items())


def _shown(value: object, names: Mapping[str, str]) -> str:
    if isinstance(value, list | tuple):
        return _named(value, names)
    return names.get(value, value) if isinstance(value, str) else str(value)


def _named(ids: Iterable[str], names: Mapping[str, str]) -> str:
    return "[" + ", ".join(sorted(names.get(one, one) for one in ids)) + "]"


def _extended(fields: Mapping[str, Any]) -> str:
    shown = [
        f"{part} {resource}={amount}"
        for part in ("capacity", "allocatable")
        for resource, amount in sorted(fields[part].items())
        if "/" in resource
    ]
    return ", ".join(shown) or "no resources"


def _device_names(events: Iterable[Event]) -> dict[str, str]:
    """Device id -> a name made of what happened to it; devices with the same history have the same name."""
    history: defaultdict[str, list[str]] = defaultdict(list)
    for event in events:
        fields = event.fields
        if event.kind == DevicesAllocated.kind:
            for device in fields["devices"]:
                history[device].append(f"{fields['pod']}/{fields['container']}")
        elif event.kind in (FaultInjected.kind, FaultHealed.kind):
            history[fields["gpu"]].append(f"xid {fields['xid']}" if "xid" in fields else "healed")
        elif event.kind == PluginCalled.kind:
            for device in fields["devices"]:
                history.setdefault(device, [])
    return {device: "<" + ", ".join(_distinct(told) or ["unused"]) + ">" for device, told in history.items()}


def _distinct(told: Collection[str]) -> list[str]:
    return list(dict.fromkeys(told))


def _texts(form: NormalForm, lane: str) -> list[str]:
    return [entry.text for entry in form.get(lane, ())]


def _first_step(first: Sequence[Entry], second: Sequence[Entry]) -> int:
    """The step of the first entries that differ."""
    for one, other in zip(first, second, strict=False):
        if one.text != other.text:
            return min(one.step, other.step)
    rest = [*first[len(second) :], *second[len(first) :]]
    return rest[0].step if rest else -1
