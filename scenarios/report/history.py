"""What a trace means for each lane: what happens at a moment, and what lasts from one moment to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from simkubelet.model.events import (
    DevicesAllocated,
    DevicesListed,
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    NodeStatusUpdated,
    PluginDisconnected,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
)

from ..trace.events import (
    FaultHealed,
    FaultInjected,
    NodeRebooted,
    PluginExited,
    PluginPaused,
    PluginResumed,
    PluginStarted,
    RegistrationAnswered,
    RuntimePaused,
    RuntimeResumed,
    StepStarted,
)
from ..trace.snapshot import hardware_of
from ..trace.trace import Entry, Event
from . import messages
from .messages import STORY, Lane


class Row(StrEnum):
    """Where in its lane something lasting is; a later one is drawn over an earlier one."""

    STATE = "state"
    USE = "use"
    FAULT = "fault"


_ROWS: Final = tuple(Row)


@dataclass(frozen=True, slots=True)
class Moment:
    """An entry with the lanes between which it happens, its words and its fields."""

    entry: Entry
    source: Lane
    target: Lane
    text: str
    details: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Lasting:
    """What lasts in a lane from one moment to another, both by their index; `end` is None where it lasts on."""

    lane: Lane
    row: Row
    start: int
    end: int | None
    style: str
    text: str = ""


class History:
    """Goes through a trace and keeps what lasts.

    Args:
        entries: The whole trace: which plugin serves a resource, and which devices a GPU has, may be recorded late.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.moments: list[Moment] = []
        self._ended: list[Lasting] = []
        self._open: dict[tuple[Lane, Row], Lasting] = {}
        self._plugin_of = _plugins(entries)
        self._devices = _devices(entries)
        self._status: dict[str, NodeStatusUpdated] = {}
        self._held: defaultdict[str, set[Lane]] = defaultdict(set)

    def lasting(self) -> list[Lasting]:
        """All that lasts, in the order to draw it: by its row, then by when it begins."""
        return sorted([*self._ended, *self._open.values()], key=lambda one: (_ROWS.index(one.row), one.start))

    def take(self, entry: Entry) -> None:
        """Add the next entry."""
        event = entry.event
        source, target = messages.ends(event, self._plugin_of)
        if isinstance(event, FaultInjected | FaultHealed):
            target = next(iter(self._with_gpu(event.node, event.gpu)), target)
        text, details = messages.text(event), tuple(messages.details(event))
        if isinstance(event, NodeStatusUpdated):
            details = tuple(self._changes(event))
            changes = ", ".join(f"{name} {value}" for name, value in details)
            text = f"{text}: {changes or 'no change of the resources of plugins'}"
        self.moments.append(Moment(entry, source, target, text, details))
        self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case StepStarted(step=step, title=title):
                self._set(STORY, Row.STATE, "step", f"{step + 1} {title}")
            case KubeletStarted(node=node):
                self._set(messages.kubelet(node), Row.STATE, "up")
            case KubeletStopped(node=node) | KubeletCrashed(node=node) | NodeRebooted(node=node):
                self._end(messages.kubelet(node), Row.STATE)
                self._forget_devices(node)
            case RuntimePaused(node=node):
                self._set(messages.kubelet(node), Row.FAULT, "fault", "runtime paused")
            case RuntimeResumed(node=node):
                self._end(messages.kubelet(node), Row.FAULT)
            case PluginStarted(node=node, plugin=name) | PluginResumed(node=node, plugin=name):
                self._set(messages.plugin(node, name), Row.STATE, "up")
            case PluginPaused(node=node, plugin=name):
                self._set(messages.plugin(node, name), Row.STATE, "paused", "paused")
            case PluginExited(node=node, plugin=name):
                self._end(messages.plugin(node, name), Row.STATE)
            case DevicesListed():
                self._list(event)
            case PluginDisconnected(node=node, resource=resource):
                self._forget_devices(node, resource)
            case FaultInjected(node=node, gpu=gpu, xid=xid):
                for lane in self._with_gpu(node, gpu):
                    self._set(lane, Row.FAULT, "fault", "fault" if xid is None else f"XID {xid}")
            case FaultHealed(node=node, gpu=gpu):
                for lane in self._with_gpu(node, gpu):
                    self._end(lane, Row.FAULT)
            case _:
                self._follow_pod(event)

    def _follow_pod(self, event: Event) -> None:
        match event:
            case DevicesAllocated(node=node, pod=pod, resource=resource, devices=devices):
                for name in devices:
                    lane = messages.device(node, resource, name)
                    self._held[pod].add(lane)
                    self._set(lane, Row.USE, "held", pod)
            case PodScheduled(pod=pod) | EventRecorded(pod=pod):
                if (messages.pod(pod), Row.STATE) not in self._open:
                    self._set(messages.pod(pod), Row.STATE, "pending", "Pending")
            case PodStatusUpdated(pod=pod, phase=phase):
                self._set(messages.pod(pod), Row.STATE, phase.lower(), phase)
                if phase in ("Succeeded", "Failed"):
                    self._release(pod)
            case PodRemoved(pod=pod):
                self._end(messages.pod(pod), Row.STATE)
                self._release(pod)

    def _set(self, lane: Lane, row: Row, style: str, text: str = "") -> None:
        before = self._open.get((lane, row))
        if before is not None and (before.style, before.text) == (style, text):
            return
        self._end(lane, row)
        self._open[lane, row] = Lasting(lane, row, len(self.moments) - 1, None, style, text)

    def _end(self, lane: Lane, row: Row) -> None:
        one = self._open.pop((lane, row), None)
        if one is not None:
            self._ended.append(replace(one, end=len(self.moments) - 1))

    def _list(self, event: DevicesListed) -> None:
        listed = dict.fromkeys(event.healthy, "healthy") | dict.fromkeys(event.unhealthy, "unhealthy")
        for lane in self._devices.get((event.node, event.resource), ()):
            if lane.name not in listed:
                self._end(lane, Row.STATE)
        for name, health in listed.items():
            self._set(messages.device(event.node, event.resource, name), Row.STATE, health, health)

    def _forget_devices(self, node: str, resource: str | None = None) -> None:
        """A kubelet has no list of these devices any more."""
        for (of_node, of_resource), lanes in self._devices.items():
            if of_node == node and resource in (None, of_resource):
                for lane in lanes:
                    self._end(lane, Row.STATE)

    def _release(self, pod: str) -> None:
        for lane in self._held.pop(pod, ()):
            self._end(lane, Row.USE)

    def _with_gpu(self, node: str, gpu: str) -> list[Lane]:
        """The lanes of the devices of a GPU."""
        lanes = [lane for (of_node, _), lanes in self._devices.items() if of_node == node for lane in lanes]
        return [lane for lane in lanes if hardware_of(lane.name) == gpu]

    def _changes(self, event: NodeStatusUpdated) -> Iterable[tuple[str, str]]:
        """What changed of the resources of plugins since the node's status before."""
        before = self._status.get(event.node)
        self._status[event.node] = event
        for part in ("capacity", "allocatable"):
            old, new = (getattr(before, part) if before else {}), getattr(event, part)
            for resource in sorted({*old, *new}):
                if "/" in resource and old.get(resource) != new.get(resource):
                    yield f"{part} {resource}", f"{old.get(resource, 'absent')} → {new.get(resource, 'absent')}"


def _plugins(entries: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """Node and resource -> the plugin that serves it, where the trace shows that."""
    answered: dict[tuple[str, str], str] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)
    resources: set[tuple[str, str]] = set()
    for entry in entries:
        match entry.event:
            case RegistrationAnswered(node=node, plugin=name, resource=resource):
                answered[node, resource] = name
            case PluginStarted(node=node, plugin=name):
                names[node].add(name)
            case DevicesListed(node=node, resource=resource):
                resources.add((node, resource))
    alone = {(node, resource): next(iter(names[node])) for node, resource in resources if len(names[node]) == 1}
    return alone | answered


def _devices(entries: Iterable[Entry]) -> Mapping[tuple[str, str], tuple[Lane, ...]]:
    """Node and resource -> the lanes of all devices that are ever listed or allocated."""
    found: defaultdict[tuple[str, str], dict[Lane, None]] = defaultdict(dict)
    for entry in entries:
        match entry.event:
            case DevicesListed() as event:
                names = (*event.healthy, *event.unhealthy)
            case DevicesAllocated() as event:
                names = event.devices
            case _:
                continue
        lanes = (messages.device(event.node, event.resource, name) for name in names)
        found[event.node, event.resource] |= dict.fromkeys(lanes)
    return {key: tuple(lanes) for key, lanes in found.items()}
