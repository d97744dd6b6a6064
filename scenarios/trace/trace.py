"""The record of a run: typed events in one order, with queries over them and a way to wait for the next.

Events come from the loop's own thread. Time is the backend's node time in seconds since the story began, so that a
story about five minutes reads as five minutes however fast it was played.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import IO, Any, Protocol, overload

from simkubelet.model.events import DevicesAllocated, DevicesListed, NodeEvent, NodeStatusUpdated

from .events import StoryEvent


@dataclass(frozen=True, slots=True)
class Event:
    """One entry: `fields` are the typed event's own, by their names."""

    seq: int
    time_s: float
    kind: str
    fields: Mapping[str, Any]

    def concerns(self, name: str) -> bool:
        """Whether a field that names something (a pod, a node, a plugin) has this name."""
        return any(self.fields.get(key) == name for key in ("pod", "node", "plugin"))


class Record(Protocol):
    """Takes events in the order in which they happen."""

    def append(self, event: NodeEvent | StoryEvent) -> None:
        """This happened now."""


class Trace:
    """An append-only list of `Event`s.

    Args:
        now: Node time in seconds, from any zero point; real time where it is left out.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._events: list[Event] = []
        self._waiters: set[asyncio.Future[None]] = set()

    def append(self, event: NodeEvent | StoryEvent) -> None:
        """Record an event now and wake who waits; an `Observer` for the parts of a node."""
        entry = Event(len(self._events), round(self._now() - self._began, 6), event.kind, _fields(event))
        self._events.append(entry)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def longer_than(self, length: int) -> None:
        """Wait until more than `length` events are recorded; returns at once where they are. Never times out."""
        while len(self._events) <= length:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        return tuple(self._events[index]) if isinstance(index, slice) else self._events[index]

    def first_devices(self, pod: str) -> dict[str, dict[str, tuple[str, ...]]]:
        """What a pod was given first in this story: container -> resource -> device ids."""
        given: dict[str, dict[str, tuple[str, ...]]] = {}
        for event in self._events:
            if event.kind == DevicesAllocated.kind and event.fields["pod"] == pod:
                container = given.setdefault(event.fields["container"], {})
                container.setdefault(event.fields["resource"], tuple(event.fields["devices"]))
        return given

    def capacity_history(self, node: str, resource: str) -> tuple[int, ...]:
        """The capacities that a node published, oldest first, without repetitions and without times of absence."""
        published = (
            event.fields["capacity"][resource]
            for event in self._events
            if event.kind == NodeStatusUpdated.kind
            and event.fields["node"] == node
            and resource in event.fields["capacity"]
        )
        return merged(published)

    def lists(self, node: str, resource: str) -> int:
        """How many lists of a resource's devices have come to a node's kubelet."""
        found = (event.fields for event in self._events if event.kind == DevicesListed.kind)
        return sum(fields["node"] == node and fields["resource"] == resource for fields in found)

    def around(self, subject: str, count: int = 12) -> tuple[Event, ...]:
        """The latest `count` events that concern a subject, filled up with the latest others, in order."""
        related = [event.seq for event in self._events if event.concerns(subject)][-count:]
        others = [event.seq for event in self._events if not event.concerns(subject)]
        filling = others[max(0, len(others) - (count - len(related))) :]
        return tuple(self._events[seq] for seq in sorted({*related, *filling}))


def _fields(event: NodeEvent | StoryEvent) -> dict[str, Any]:
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in values.items()}


def merged(values: Iterable[int]) -> tuple[int, ...]:
    """Values in order with equal neighbours counted once."""
    result: list[int] = []
    for value in values:
        if not result or result[-1] != value:
            result.append(value)
    return tuple(result)


def write_lines(events: Iterable[Event], stream: IO[str], story: str) -> None:
    """Write events as JSON lines: ``story``, ``seq``, ``time_s``, ``kind`` and the event's own fields."""
    for event in events:
        entry = {"story": story, "seq": event.seq, "time_s": event.time_s, "kind": event.kind, **event.fields}
        stream.write(json.dumps(entry, ensure_ascii=False) + "\n")


def read_lines(lines: Iterable[str]) -> Iterator[tuple[str, Event]]:
    """Read what `write_lines` wrote: the story's name and the event, line by line."""
    for line in lines:
        entry = json.loads(line)
        story, seq, time_s, kind = (entry.pop(key) for key in ("story", "seq", "time_s", "kind"))
        yield story, Event(seq, time_s, kind, entry)
