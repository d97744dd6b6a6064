"""What a trace means for each lane: what happens at a moment, and what lasts from one moment to another."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
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
    PluginRegistered,
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
from .messages import STORY, Lane, LaneKind, Tone


class Row(StrEnum):
    """Where in its lane something lasting is; a later one is drawn over an earlier one."""

    STATE = "state"
    USE = "use"
    FAULT = "fault"


_ROWS: Final = tuple(Row)
_MOST_CHANGES: Final = 100
"""Resources of a node's status that a message names."""
_MOST_RESOURCES: Final = 100_000
"""Resources in the latest statuses of all nodes together: clients write these, and the end of a node is no event."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is shown of an entry: its place in its trace, the lanes between which it happens, its words and its fields.

    The event itself is not kept: clients and plugins write texts of megabytes into it.
    """

    seq: int
    time_s: float
    real_s: float
    kind: str
    tone: Tone
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
        entries: The whole trace where it is known: which plugin serves a resource, and which devices a GPU has, may be
            recorded late. None for one that is still recorded, which knows them from the entries that it has taken.
        most: How many of the latest moments are kept, with what lasts until one of them; None for all. What a trace
            without an end takes is bounded by this, and by how many lanes there are at a time.

    Attributes:
        moments: Those that are kept, in order.
        left_out: How many there were before them.
    """

    def __init__(self, entries: Iterable[Entry] | None, most: int | None = None) -> None:
        self.moments: deque[Moment] = deque(maxlen=most)
        self.left_out = 0
        self._ended: list[Lasting] = []
        self._open: dict[tuple[Lane, Row], Lasting] = {}
        self._is_known = entries is not None
        self._plugins = _Plugins()
        self._devices: defaultdict[tuple[str, str], dict[Lane, None]] = defaultdict(dict)
        self._status: dict[str, NodeStatusUpdated] = {}
        self._resources = 0
        self._held: defaultdict[str, set[Lane]] = defaultdict(set)
        # Pod of which nothing but Events has been seen -> the latest one: a client writes them about any name, and
        # the removal of a pod that never was is not recorded.
        self._heard_of: dict[Lane, int] = {}
        for entry in entries or ():
            self._plugins.learn(entry.event)
            self._devices[_resource(entry.event)] |= _devices(entry.event)

    def lasting(self) -> list[Lasting]:
        """All that lasts, in the order to draw it: by its row, then by when it begins."""
        kept = (self._since(one) for one in (*self._ended, *self._open.values()) if self._is_kept(one))
        return sorted(kept, key=lambda one: (_ROWS.index(one.row), one.start))

    def _is_kept(self, one: Lasting) -> bool:
        return one.end is None or one.end > self.left_out

    def _since(self, one: Lasting) -> Lasting:
        """The same, by indices among the moments that are kept."""
        start, end = max(0, one.start - self.left_out), None if one.end is None else one.end - self.left_out
        return replace(one, start=start, end=end)

    def take(self, entry: Entry) -> None:
        """Add the next entry."""
        event = entry.event
        if not self._is_known:
            self._learn(event)
        source, target = messages.ends(event, self._plugins.name)
        if isinstance(event, FaultInjected | FaultHealed):
            target = next(iter(self._with_gpu(event.node, event.gpu)), target)
        text, details = messages.text(event), tuple(messages.details(event))
        if isinstance(event, NodeStatusUpdated):
            details = tuple(islice(self._changes(event), _MOST_CHANGES))
            changes = ", ".join(f"{name} {value}" for name, value in details)
            text = messages.clipped(f"{text}: {changes or 'no change of the resources of plugins'}")
        place = entry.seq, entry.time_s, entry.real_s, entry.kind, messages.tone(event)
        self._keep(Moment(*place, source, target, text, details))
        self._follow(event)

    def _keep(self, moment: Moment) -> None:
        most = self.moments.maxlen
        self.left_out += len(self.moments) == most
        self.moments.append(moment)
        if most is not None and self.left_out % most == 1:
            self._ended = [one for one in self._ended if self._is_kept(one)]
            for lane in [lane for lane, latest in self._heard_of.items() if latest < self.left_out]:
                del self._heard_of[lane], self._open[lane, Row.STATE]

    def _learn(self, event: Event) -> None:
        self._plugins.learn(event)
        if isinstance(event, DevicesListed):
            # Those of earlier lists are forgotten: a plugin may give its devices other ids at each start.
            self._devices[_resource(event)] = _devices(event)

    def _follow(self, event: Event) -> None:
        match event:
            case StepStarted(step=step, title=title):
                self._set(STORY, Row.STATE, "step", f"{step} {title}")
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
            case EventRecorded(pod=pod):
                lane = messages.pod(pod)
                if lane in self._heard_of or (lane, Row.STATE) not in self._open:
                    self._set(lane, Row.STATE, "pending", "Pending")
                    self._heard_of[lane] = self._latest
            case PodScheduled(pod=pod):
                self._heard_of.pop(messages.pod(pod), None)
                if (messages.pod(pod), Row.STATE) not in self._open:
                    self._set(messages.pod(pod), Row.STATE, "pending", "Pending")
            case PodStatusUpdated(pod=pod, phase=phase):
                self._heard_of.pop(messages.pod(pod), None)
                self._set(messages.pod(pod), Row.STATE, phase.lower(), phase)
                if phase in ("Succeeded", "Failed"):
                    self._release(pod)
            case PodRemoved(pod=pod):
                self._heard_of.pop(messages.pod(pod), None)
                self._end(messages.pod(pod), Row.STATE)
                self._release(pod)

    @property
    def _latest(self) -> int:
        """Index of the latest moment, counted from the first of the trace."""
        return self.left_out + len(self.moments) - 1

    def _set(self, lane: Lane, row: Row, style: str, text: str = "") -> None:
        before = self._open.get((lane, row))
        if before is not None and (before.style, before.text) == (style, messages.clipped(text)):
            return
        self._end(lane, row)
        self._open[lane, row] = Lasting(lane, row, self._latest, None, style, messages.clipped(text))

    def _end(self, lane: Lane, row: Row) -> None:
        one = self._open.pop((lane, row), None)
        if one is not None:
            self._ended.append(replace(one, end=self._latest))

    def _list(self, event: DevicesListed) -> None:
        listed = dict.fromkeys(event.healthy, "healthy") | dict.fromkeys(event.unhealthy, "unhealthy")
        for lane in self._listed(event.node, event.resource):
            if lane.name not in listed:
                self._end(lane, Row.STATE)
        for name, health in listed.items():
            self._set(messages.device(event.node, event.resource, name), Row.STATE, health, health)

    def _forget_devices(self, node: str, resource: str | None = None) -> None:
        """A kubelet has no list of these devices any more."""
        for lane in self._listed(node, resource):
            self._end(lane, Row.STATE)

    def _listed(self, node: str, resource: str | None) -> list[Lane]:
        """The devices that the latest lists of a node have, of one resource or of all."""
        devices = (lane for lane, row in self._open if lane.kind is LaneKind.DEVICE and row is Row.STATE)
        return [lane for lane in devices if lane.node == node and resource in (None, lane.resource)]

    def _release(self, pod: str) -> None:
        for lane in self._held.pop(pod, ()):
            self._end(lane, Row.USE)

    def _with_gpu(self, node: str, gpu: str) -> list[Lane]:
        """The lanes of the devices of a GPU."""
        lanes = [lane for (of_node, _), lanes in self._devices.items() if of_node == node for lane in lanes]
        return [lane for lane in lanes if hardware_of(lane.name) == gpu]

    def _changes(self, event: NodeStatusUpdated) -> Iterable[tuple[str, str]]:
        """What changed of the resources of plugins since the node's status before."""
        before = self._remembered(event)
        for part in ("capacity", "allocatable"):
            old, new = (getattr(before, part) if before else {}), getattr(event, part)
            for resource in sorted({*old, *new}):
                if "/" in resource and old.get(resource) != new.get(resource):
                    yield f"{part} {resource}", f"{old.get(resource, 'absent')} → {new.get(resource, 'absent')}"

    def _remembered(self, event: NodeStatusUpdated) -> NodeStatusUpdated | None:
        """The node's status before; this one is kept for the next one, and the oldest ones of all nodes go for it."""
        before = self._status.pop(event.node, None)
        self._status[event.node] = event
        self._resources += _size(event) - (_size(before) if before else 0)
        while self._resources > _MOST_RESOURCES:
            self._resources -= _size(self._status.pop(next(iter(self._status))))
        return before


def _size(status: NodeStatusUpdated) -> int:
    return len(status.capacity) + len(status.allocatable)


class _Plugins:
    """Which plugin serves a resource of a node, as far as the trace shows that."""

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str], str] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)
        self._resources: set[tuple[str, str]] = set()

    def learn(self, event: Event) -> None:
        match event:
            case RegistrationAnswered(plugin=name):
                self._answered[_resource(event)] = name
            case PluginStarted(node=node, plugin=name):
                self._names[node].add(name)
            case PluginRegistered() | DevicesListed():
                self._resources.add(_resource(event))

    def name(self, node: str, resource: str) -> str:
        """The plugin's name; that of the resource where it is not known."""
        if (name := self._answered.get((node, resource))) is not None:
            return name
        alone = self._names[node] if (node, resource) in self._resources else ()
        return next(iter(alone)) if len(alone) == 1 else resource


def _resource(event: Event) -> tuple[str, str]:
    """The node and the resource that an event names; empty where it names none."""
    return getattr(event, "node", ""), getattr(event, "resource", "")


def _devices(event: Event) -> dict[Lane, None]:
    """The lanes of the devices that an event lists or gives to a container."""
    match event:
        case DevicesListed() as event:
            names = (*event.healthy, *event.unhealthy)
        case DevicesAllocated() as event:
            names = event.devices
        case _:
            return {}
    return {messages.device(event.node, event.resource, name): None for name in names}
