"""The part of a trace that a failure shows: steps, what concerns its subject, and of a node's status what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from simkubelet.model.events import NodeStatusUpdated

from ..trace.events import StepStarted
from ..trace.trace import Entry

LENGTH: Final = 16
_Quantities = Mapping[str, int]


def timeline(entries: Iterable[Entry], subject: str = "", length: int = LENGTH) -> tuple[Entry, ...]:
    """Return the latest steps and entries that concern a subject, filled up with the latest others, in order.

    Args:
        entries: The record from its beginning.
        subject: The name of a pod, a node or a plugin.
        length: How many entries at most.
    """
    shown = list(_changes(entries))
    related = [entry for entry in shown if isinstance(entry.event, StepStarted) or entry.concerns(subject)][-length:]
    others = [entry for entry in shown if entry not in related]
    filling = others[max(0, len(others) - (length - len(related))) :]
    return tuple(sorted((*related, *filling), key=lambda entry: entry.seq))


def _changes(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The same entries, of a node's status only what differs from the status before, without CPU, memory and pods."""
    before: dict[str, NodeStatusUpdated] = {}
    for entry in entries:
        event = entry.event
        if not isinstance(event, NodeStatusUpdated):
            yield entry
            continue
        former = before.get(event.node, NodeStatusUpdated(event.node, {}, {}))
        before[event.node] = event
        capacity = _changed(former.capacity, event.capacity)
        allocatable = _changed(former.allocatable, event.allocatable)
        if capacity or allocatable:
            yield replace(entry, event=replace(event, capacity=capacity, allocatable=allocatable))


def _changed(former: _Quantities, latter: _Quantities) -> _Quantities:
    """The extended resources whose quantity differs; all that are left, where one is gone."""
    extended = {name: quantity for name, quantity in latter.items() if "/" in name}
    if any("/" in name and name not in latter for name in former):
        return extended
    return {name: quantity for name, quantity in extended.items() if former.get(name) != quantity}
