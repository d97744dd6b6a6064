"""A trace as a timeline: lanes from top to bottom, moments in order, and what lasts between two of them.

What lasts begins and ends at a moment, given by its index, so a page can place the moments by any clock and draw the
rest in between. Nothing here is drawn: the page gets `Timeline.data`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from simkubelet.host import visible

from ..trace.trace import Entry
from .history import History, Lasting, Moment
from .messages import Lane, LaneKind

DeviceName = Callable[[str, str], str]
"""Node and id of a device -> what people call it."""
MOST_MOMENTS: Final = 1000
"""Of a longer trace the latest are shown: it ends where the story failed."""
MOST_ALIKE: Final = 8
"""Devices of a resource that have a lane each; of more, those with the same history share one."""
MOST_LANES: Final = 48
"""Lanes of one kind; the others share the last."""
_LABEL: Final = 18
"""Characters of a lane's label."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What a page shows of one recording of a story.

    Attributes:
        name: The backend that recorded it.
        lanes: From top to bottom.
        left_out: How many moments at the beginning are not shown.
    """

    name: str
    lanes: tuple[Lane, ...]
    moments: tuple[Moment, ...]
    lasting: tuple[Lasting, ...]
    left_out: int = 0

    def data(self, different: Collection[Lane] = ()) -> dict[str, Any]:
        """The timeline as JSON with short arrays, whose order the page's script knows, and without control characters.

        Args:
            different: Lanes that another backend recorded differently.
        """
        several = len({lane.node for lane in self.lanes if lane.node}) > 1
        return self._data([[*labels(lane, several), lane in different, False] for lane in self.lanes])

    def grouped(self, device_name: DeviceName) -> dict[str, Any]:
        """The same with the lanes of each node together, and devices by the names that people have for them.

        Args:
            device_name: Node and id of a device -> its name.
        """
        named = [
            (lane, device_name(lane.node, lane.name) if lane.kind is LaneKind.DEVICE else "") for lane in self.lanes
        ]
        named.sort(key=lambda one: _by_node(*one))
        several = len({lane.node for lane in self.lanes if lane.node}) > 1
        shown, before = [], None
        for lane, name in named:
            label, title = labels(lane, several_nodes=False)
            if name and name != lane.name:
                label, title = f"{name}{_more(lane)}", f"{name}, {title}"
            group = _part(lane), lane.node
            prefix = f"{lane.node} " if several and lane.node else ""
            shown.append([f"{prefix}{label}", title, False, before is not None and group != before and several])
            before = group
        return replace(self, lanes=tuple(lane for lane, _ in named))._data(shown)

    def _data(self, shown: Sequence[Sequence[object]]) -> dict[str, Any]:
        """As `data`; of each lane there is how it is shown."""
        places = {lane: place for place, lane in enumerate(self.lanes)}
        data = {
            "name": self.name,
            "leftOut": self.left_out,
            "lanes": [[lane.kind.name.lower(), *how] for lane, how in zip(self.lanes, shown, strict=True)],
            "moments": [
                [
                    *(one.seq, one.time_s, one.real_s, places[one.source], places[one.target]),
                    *(one.tone, one.kind, one.text, one.details),
                ]
                for one in self.moments
            ],
            "lasting": [[places[one.lane], one.row, one.start, one.end, one.style, one.text] for one in self.lasting],
        }
        return {name: _visible(value) for name, value in data.items()}


def _visible(value: Any) -> Any:
    """The same value, with visible text."""
    if isinstance(value, list | tuple):
        return [_visible(item) for item in value]
    return visible(value) if isinstance(value, str) else value


def _by_node(lane: Lane, name: str) -> tuple[object, ...]:
    """Where a lane is among those that are grouped: story, faults and API server, each node's, the pods."""
    return _part(lane), *_natural(lane.node), lane.kind, lane.resource, *_natural(name or lane.name)


def _part(lane: Lane) -> int:
    return 0 if lane.kind < LaneKind.KUBELET else 1 if lane.node else 2


def _natural(name: str) -> tuple[int, str]:
    """An order in which node-2 comes before node-10."""
    return len(name), name


def _more(lane: Lane) -> str:
    return f" and {lane.others} more" if lane.others else ""


def labels(lane: Lane, several_nodes: bool) -> tuple[str, str]:
    """A lane's label, short enough to stand beside it, and its full name."""
    on = f" on {lane.node}" if lane.node else ""
    where = on if several_nodes else ""
    more = _more(lane)
    match lane.kind:
        case LaneKind.STORY:
            return "story", "story"
        case LaneKind.FAULTS:
            return "faults", "faults, files and what else the story does to nodes"
        case LaneKind.API_SERVER:
            return "API server", "API server"
        case LaneKind.KUBELET:
            return f"kubelet{where}", f"kubelet{on}"
        case LaneKind.DEVICE:
            return f"{_short(lane.name)}{more}", f"device {lane.name} of {lane.resource}{on}{more}"
    kind = lane.kind.name.lower()
    return f"{kind} {_short(lane.name)}{where}{more}", f"{kind} {lane.name}{on}{more}"


def _short(name: str) -> str:
    half = _LABEL // 2
    return name if len(name) <= _LABEL else f"{name[: half - 1]}…{name[-half:]}"


def read(name: str, entries: Sequence[Entry]) -> Timeline:
    """Make the timeline of a recording.

    Args:
        name: Of the backend.
        entries: The whole trace, in order.
    """
    history = History(entries, MOST_MOMENTS)
    for entry in entries:
        history.take(entry)
    return of(name, history)


def of(name: str, history: History) -> Timeline:
    """Make the timeline of what a history keeps; see `read`."""
    lasting = history.lasting()
    whole = _Shown(tuple(history.moments), lasting)
    shown = whole.with_shared(_alike(whole.lanes(), lasting))
    shown = shown.with_shared(_crowded(shown.lanes()))
    return Timeline(name, tuple(shown.lanes()), tuple(shown.moments), tuple(shown.lasting), history.left_out)


@dataclass(frozen=True, slots=True)
class _Shared:
    """Lanes that are drawn as one.

    Attributes:
        lanes: The lanes, and as which each is drawn.
        silent: Those of which nothing that lasts is drawn.
    """

    lanes: Mapping[Lane, Lane]
    silent: frozenset[Lane]


@dataclass(frozen=True, slots=True)
class _Shown:
    moments: Sequence[Moment]
    lasting: Sequence[Lasting]

    def lanes(self) -> list[Lane]:
        ends = {lane for one in self.moments for lane in (one.source, one.target)}
        return sorted(ends | {one.lane for one in self.lasting})

    def with_shared(self, shared: _Shared) -> _Shown:
        def drawn(lane: Lane) -> Lane:
            return shared.lanes.get(lane, lane)

        return _Shown(
            [replace(one, source=drawn(one.source), target=drawn(one.target)) for one in self.moments],
            [replace(one, lane=drawn(one.lane)) for one in self.lasting if one.lane not in shared.silent],
        )


def _alike(lanes: Iterable[Lane], lasting: Iterable[Lasting]) -> _Shared:
    """Devices with the same history, where a resource has many."""
    histories: defaultdict[Lane, list[tuple[object, ...]]] = defaultdict(list)
    for one in lasting:
        histories[one.lane].append((one.row, one.start, one.end, one.style, one.text))
    shared: dict[Lane, Lane] = {}
    silent: set[Lane] = set()
    devices = (lane for lane in lanes if lane.kind is LaneKind.DEVICE)
    for _, of_resource in groupby(devices, key=lambda lane: (lane.node, lane.resource)):
        members = list(of_resource)
        groups: defaultdict[tuple[object, ...], list[Lane]] = defaultdict(list)
        for lane in members:
            groups[tuple(histories[lane])].append(lane)
        for first, *others in groups.values() if len(members) > MOST_ALIKE else ():
            if others:
                shared |= dict.fromkeys([first, *others], replace(first, others=len(others)))
                silent.update(others)
    return _Shared(shared, frozenset(silent))


def _crowded(lanes: Iterable[Lane]) -> _Shared:
    """The last of very many lanes of one kind."""
    shared: dict[Lane, Lane] = {}
    for _, of_kind in groupby(lanes, key=lambda lane: lane.kind):
        members = list(of_kind)
        if len(members) > MOST_LANES:
            rest = members[MOST_LANES - 1 :]
            shared |= dict.fromkeys(rest, replace(rest[0], others=len(rest) - 1))
    return _Shared(shared, frozenset(shared))
