"""The record of a run: typed events in one order, with queries over them and a way to wait for the next.

Events come from the loop's own thread. Time is the backend's node time in seconds since the story began, so that a
story about five minutes reads as five minutes however fast it was played; how fast that was, real time records.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, Final, Literal, Protocol, TypeVar, get_args, overload

from simkubelet.apis.documents import load_json
from simkubelet.host import Door
from simkubelet.model.events import (
    DevicesAllocated,
    DevicesListed,
    KubeletCrashed,
    KubeletStopped,
    NodeEvent,
    NodeStatusUpdated,
    PluginDisconnected,
    PluginRegistered,
)

from .events import StoryEvent

Event = NodeEvent | StoryEvent
"""Anything that a trace records."""
E = TypeVar("E", bound=Event)

_FOLLOWER: Final = Door("display of an event")
_PLACE: Final = ("story", "seq", "time_s", "real_s", "kind")
"""What a written line has before the fields of its event."""
_CLASSES: Final[Mapping[str, type[Event]]] = {event.kind: event for event in get_args(Event)}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its place in the order of a trace, counted from 0, its node time and its real time."""

    seq: int
    time_s: float
    event: Event
    real_s: float = 0.0

    @property
    def kind(self) -> str:
        """What happened, as a line of a written trace names it."""
        return self.event.kind

    def concerns(self, name: str) -> bool:
        """Whether the event is about the pod, the node or the plugin of this name."""
        return any(getattr(self.event, key, None) == name for key in ("pod", "node", "plugin"))


class Record(Protocol):
    """Takes events in the order in which they happen."""

    def append(self, event: Event) -> None:
        """This happened now."""


Follower = Callable[[Entry], None]
"""Called with each entry as it is recorded."""


class Broadcast:
    """Forwards entries to its followers without storing them.

    Args:
        now: The time in seconds, which is node time and real time; the first entry's counts from here.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._count = 0
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Give this one all entries from now on."""
        self._followers.append(follower)

    def append(self, event: Event) -> None:
        """Record an event now; see `Record`."""
        at_s = round(self._now() - self._began, 6)
        entry = Entry(self._count, at_s, event, at_s)
        self._count += 1
        for follower in self._followers:
            with _FOLLOWER(event.kind):
                follower(entry)


class Trace:
    """An append-only list of `Entry`s; positions in it count from the first entry, also after `forget`.

    Args:
        now: Node time in seconds, from any zero point; real time where it is left out.
        real: Real time in seconds, from any zero point.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, real: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._real = real
        self._began = now()
        self._really_began = real()
        self._entries: list[Entry] = []
        self._forgotten = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Give this one all entries from now on."""
        self._followers.append(follower)

    def append(self, event: Event) -> None:
        """Record an event now and wake who waits; an `Observer` for the parts of a node."""
        time_s, real_s = round(self._now() - self._began, 6), round(self._real() - self._really_began, 6)
        entry = Entry(len(self), time_s, event, real_s)
        self._entries.append(entry)
        for follower in self._followers:
            follower(entry)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def forget(self) -> None:
        """Forget all entries until now, for a run that has no end; what asks about them finds none from here."""
        self._forgotten = len(self)
        self._entries.clear()

    async def longer_than(self, length: int) -> None:
        """Wait until more than `length` events are recorded; returns at once where they are. Never times out."""
        while len(self) <= length:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def __len__(self) -> int:
        return self._forgotten + len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries))

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        if isinstance(index, slice):
            kept = (place - self._forgotten for place in range(len(self))[index])
            return tuple(self._entries[place] for place in kept if place >= 0)
        place = range(len(self))[index] - self._forgotten
        if place < 0:
            raise IndexError(f"entry {place + self._forgotten} was forgotten")
        return self._entries[place]

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of a class, oldest first."""
        return (entry.event for entry in self._entries if isinstance(entry.event, kind))

    def first_devices(self, pod: str) -> dict[str, dict[str, tuple[str, ...]]]:
        """What a pod was given first in this story: container -> resource -> device ids."""
        given: dict[str, dict[str, tuple[str, ...]]] = {}
        for event in self.of(DevicesAllocated):
            if event.pod == pod:
                given.setdefault(event.container, {}).setdefault(event.resource, event.devices)
        return given

    def capacity_history(self, node: str, resource: str) -> tuple[int, ...]:
        """The capacities that a node published, oldest first, without repetitions and without times of absence."""
        published = (event.capacity for event in self.of(NodeStatusUpdated) if event.node == node)
        return merged(capacity[resource] for capacity in published if resource in capacity)

    def lists(self, node: str, resource: str) -> int:
        """How many lists of a resource's devices have come to a node's kubelet."""
        return sum((event.node, event.resource) == (node, resource) for event in self.of(DevicesListed))

    def connected(self, node: str, resource: str) -> int | Literal["absent"]:
        """How many healthy devices a plugin has listed to the kubelet that runs now; absent without a plugin."""
        count: int | Literal["absent"] = "absent"
        connected = 0
        for entry in self._entries:
            match entry.event:
                case KubeletStopped(node=where) | KubeletCrashed(node=where) if where == node:
                    connected, count = 0, "absent"
                case PluginRegistered() | DevicesListed() | PluginDisconnected() as event if (
                    event.node,
                    event.resource,
                ) != (node, resource):
                    pass
                case PluginRegistered():
                    connected += 1
                case PluginDisconnected():
                    # Of two instances the older one may go after the newer one has listed its devices.
                    connected = max(0, connected - 1)
                    count = count if connected else "absent"
                case DevicesListed(healthy=healthy):
                    count = len(set(healthy))
        return count

    def has_first_devices(self, node: str, resource: str) -> bool:
        """Whether the latest list of a resource has the ids of the first one."""
        listed = [one for one in self.of(DevicesListed) if (one.node, one.resource) == (node, resource)]
        ids = [{*one.healthy, *one.unhealthy} for one in listed]
        return bool(ids) and ids[0] == ids[-1]


def merged(values: Iterable[int]) -> tuple[int, ...]:
    """Values in order with equal neighbours counted once."""
    result: list[int] = []
    for value in values:
        if not result or result[-1] != value:
            result.append(value)
    return tuple(result)


def fields_of(event: Event) -> dict[str, Any]:
    """An event's own fields by name, as a line of a written trace has them."""
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def write_lines(entries: Iterable[Entry], stream: IO[str], story: str) -> None:
    """Write entries as JSON lines: ``story``, ``seq``, ``time_s``, ``real_s``, ``kind`` and the event's own fields."""
    for entry in entries:
        place = {"story": story, "seq": entry.seq, "time_s": entry.time_s, "real_s": entry.real_s}
        line = {**place, "kind": entry.kind, **fields_of(entry.event)}
        # A name of a file need not be UTF-8; the escape is one of JSON's, too.
        stream.write(json.dumps(line, ensure_ascii=False).encode(errors="backslashreplace").decode() + "\n")


def read_lines(lines: Iterable[str]) -> Iterator[tuple[str, Entry]]:
    """Read what `write_lines` wrote: the story's name and the entry, line by line.

    Raises:
        ValueError: A line is none of a trace.
    """
    for line in lines:
        try:
            fields = load_json(line)
            story, seq, time_s, real_s, kind = (fields.pop(key) for key in _PLACE)
            entry = Entry(int(seq), float(time_s), _checked(kind)(fields), float(real_s))
            if not (math.isfinite(entry.time_s) and math.isfinite(entry.real_s)):
                raise ValueError("a time without an end")
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no line of a trace: {line}") from error
        yield str(story), entry


@cache
def _checked(kind: str) -> Callable[[Mapping[str, Any]], Event]:
    """What makes an event of a kind from its fields; it raises ValueError where one is missing or of a wrong type."""
    # A world that only records does not need it.
    from pydantic import TypeAdapter

    event: TypeAdapter[Event] = TypeAdapter(_CLASSES[kind])
    return event.validate_python
