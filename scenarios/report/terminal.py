"""A timeline in a terminal: lanes from top to bottom, a column for each of the latest moments, and the latest in words.

Each state has a character and a colour of its own, so the picture can be read without colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from simkubelet.host import one_line

from ..trace.events import StepStarted
from ..trace.trace import Entry
from .history import History, Moment
from .messages import Tone
from .timeline import Timeline, labels, of

_MOST_MOMENTS: Final = 300
"""Columns of the widest picture."""
_MOST_MESSAGES: Final = 8
"""Of the latest moments, in words."""
_LEAST_MESSAGES: Final = 2
_OTHER_LINES: Final = 4
"""The heading, the legend, and what a run has below."""
_MOST_OF_LABEL: Final = 26
_GAP: Final = "  "
_NOW: Final = 2
"""Columns after the latest moment."""
_STYLES: Final = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "bold red"}
_LOOKS: Final = {
    "step": ("─", "dim"),
    "up": ("━", "blue"),
    "running": ("━", "blue"),
    "healthy": ("━", "green"),
    "succeeded": ("━", "green"),
    "pending": ("┄", "yellow"),
    "paused": ("┄", "yellow"),
    "unknown": ("┄", "yellow"),
    "held": ("█", "bright_blue"),
    "fault": ("!", "bold red"),
    "unhealthy": ("✗", "red"),
    "failed": ("✗", "red"),
}
"""Style of what lasts -> how a column of it looks; of several in a column the last one here is seen."""
_ORDER: Final = tuple(_LOOKS)
_LEGEND: Final = (
    "━ up, healthy  █ held by a pod  ✗ unhealthy, failed  ! fault  ┄ pending, paused  ○ from  ● to  ◆ bad news"
)


class TerminalTimeline:
    """The latest of a trace that is still recorded, as high as its lanes and messages, but not higher than the window.

    Args:
        name: The heading.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._history = History(None, _MOST_MOMENTS)

    def take(self, entry: Entry) -> Moment:
        """Add an entry, and return what it means."""
        self._history.take(entry)
        return self._history.moments[-1]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = (options.height or console.height) - _OTHER_LINES
        rows = list(_rows(of(self.name, self._history), options.max_width))
        most = max(1, room - min(_MOST_MESSAGES, max(_LEAST_MESSAGES, room - len(rows))))
        if len(rows) > most:
            rows[most - 1 :] = [Text(f"and {len(rows) - most + 1} more", style="dim")]
        messages = self._messages(max(_LEAST_MESSAGES, min(_MOST_MESSAGES, room - len(rows))))
        for one in (Text(self.name, style="bold"), *rows, Text(_LEGEND, style="dim"), *messages):
            one.truncate(options.max_width, overflow="ellipsis")
            yield one

    def _messages(self, count: int) -> Iterator[Text]:
        latest = list(self._history.moments)[-count:]
        width = max(map(len, map(between, latest)), default=0)
        return (entry_line(one, width) for one in latest)


def entry_line(moment: Moment, width: int = 0, several_nodes: bool = False) -> Text:
    """A moment in one line: both times, the lanes that it is between, and what happened.

    Args:
        moment: What happened.
        width: Of the column of lanes.
        several_nodes: Whether lanes name their node.
    """
    times = f"{moment.time_s:>8.3f} s  {moment.real_s:>8.3f} s"
    style = "bold" if moment.kind == StepStarted.kind else _STYLES[moment.tone]
    place = one_line(between(moment, several_nodes))
    return Text.assemble(f"{times}  {place:<{width}}  ", (" ".join(moment.text.split()), style))


def between(moment: Moment, several_nodes: bool = False) -> str:
    """The lanes that a moment is between."""
    source, target = (labels(lane, several_nodes)[0] for lane in (moment.source, moment.target))
    return source if moment.source == moment.target else f"{source} → {target}"


def _rows(timeline: Timeline, width: int) -> Iterator[Text]:
    """A line for each lane: its label, and a column for each moment; what lasts now goes on a little further."""
    several = len({lane.node for lane in timeline.lanes if lane.node}) > 1
    names = [labels(lane, several)[0] for lane in timeline.lanes]
    label_width = min(_MOST_OF_LABEL, max(map(len, names), default=0))
    columns = max(1, min(width - label_width - len(_GAP), len(timeline.moments) + _NOW))
    first = max(0, len(timeline.moments) + _NOW - columns)
    rows = {lane: [(" ", "")] * columns for lane in timeline.lanes}
    for one in sorted(timeline.lasting, key=lambda one: _ORDER.index(one.style)):
        end = columns if one.end is None else one.end - first
        for column in range(max(0, one.start - first), end):
            rows[one.lane][column] = _LOOKS[one.style]
    for column, moment in enumerate(timeline.moments[first:]):
        style = _STYLES[moment.tone]
        rows[moment.source][column] = ("○", style)
        rows[moment.target][column] = ("◆" if moment.tone is Tone.BAD else "●", style)
    for lane, name in zip(timeline.lanes, names, strict=True):
        label = Text(name)
        label.truncate(label_width, overflow="ellipsis", pad=True)
        alike = groupby(rows[lane], key=lambda cell: cell[1])
        yield Text.assemble(label, _GAP, *(("".join(sign for sign, _ in cells), style) for style, cells in alike))
