"""The page of a campaign: what was found, and plots of what was played; one HTML file that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from simkubelet.model.words import number_of

from ..report.page import rendered_from
from ..report.written import page_in
from .results import Finding, Results

_HERE: Final = Path(__file__).parent
_SIZE: Final = (640, 180)
_MOST_BARS: Final = 60
_LETTER: Final = 11
"""The width that a letter of a label below an axis takes, with the space between two labels."""
_SIGNS: Final[Mapping[str, tuple[str, str, str]]] = {
    "passed": ("valid", "✓", "PASSED"),
    "failed": ("invalid", "✗", "FAILED"),
    "ended": ("skipped", "-", "ENDED EARLY"),
    "unknown": ("unknown", "?", "UNKNOWN"),
}
"""Outcome -> the class of the page's style, the sign and the word for it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot, and the part of it that failed, in the plot's units.

    Attributes:
        text: What it says when one points at it.
    """

    x: float
    width: float
    height: float
    failed: float
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot as the template draws it.

    Attributes:
        across: What the axis below the bars is of.
        labels: Text below the bars -> the middle of it, from the left.
        ticks: Number of stories -> its height.
    """

    title: str
    bars: tuple[Bar, ...]
    across: str
    labels: tuple[tuple[str, float], ...]
    ticks: tuple[tuple[str, float], ...]
    width: int = _SIZE[0]
    height: int = _SIZE[1]


def write_page(directory: Path, results: Results) -> Path:
    """Write the page into a folder, which is made where it is missing, and return the file's path.

    Raises:
        OSError: It cannot be written.
    """
    path = page_in(directory)
    path.write_text(html(results, datetime.now(UTC)), encoding="utf-8")
    return path


def html(results: Results, written: datetime) -> str:
    """Return the page of a campaign.

    Args:
        results: Its file.
        written: When.
    """
    outcomes = results.outcomes()
    return rendered_from(
        _HERE,
        "page.html.j2",
        seed=results.seed,
        count=results.count,
        written=f"{written:%Y-%m-%d %H:%M} UTC",
        outcomes=[(*_SIGNS[name], outcomes[name]) for name in _SIGNS if name in outcomes],
        findings=[_finding(one) for one in results.findings()],
        plots=[_by_minute(results), _by_length(results), _by_duration(results)] if outcomes else [],
    )


def _finding(finding: Finding) -> dict[str, object]:
    return {"count": finding.count, "number": finding.number, "reason": finding.reason, "shrunk": finding.shrunk}


def _by_minute(results: Results) -> Plot:
    rows = results.by_minute()
    first, last = rows[0][0], rows[-1][0]
    each = math.ceil((last - first + 1) / _MOST_BARS)
    counts = [(0, 0)] * ((last - first) // each + 1)
    for minute, count, failed in rows:
        index = (minute - first) // each
        counts[index] = (counts[index][0] + count, counts[index][1] + failed)
    times = [datetime.fromtimestamp((first + index * each) * 60, UTC) for index in range(len(counts))]
    is_one_day = times[0].date() == times[-1].date()
    labels = [f"{one:%H:%M}" if is_one_day else f"{one:%m-%d %H:%M}" for one in times]
    unit = "minute" if each == 1 else f"{each} minutes"
    day = f"time on {times[0]:%Y-%m-%d}, UTC" if is_one_day else "time, UTC"
    return _plot(f"Stories in each {unit}", day, labels, labels, counts)


def _by_length(results: Results) -> Plot:
    rows = {steps: (count, failed) for steps, count, failed in results.lengths()}
    lengths = range(min(rows), max(rows) + 1)
    return _plot(
        "Stories by their steps",
        "steps",
        [str(one) for one in lengths],
        [number_of(one, "step") for one in lengths],
        [rows.get(one, (0, 0)) for one in lengths],
    )


def _by_duration(results: Results) -> Plot:
    """Each bar is for twice the time of the one before it."""
    classes = [max(-4, math.ceil(math.log2(max(duration, 1e-6)))) for duration in results.durations_s()]
    powers = range(min(classes), max(classes) + 1)
    labels = [f"{2.0**power:g}" for power in powers]
    counts = [(classes.count(power), 0) for power in powers]
    texts = [f"up to {label} s" for label in labels]
    return _plot("Stories by the real time that they took", "seconds at most", labels, texts, counts)


def _plot(
    title: str, across: str, labels: Sequence[str], texts: Sequence[str], counts: Sequence[tuple[int, int]]
) -> Plot:
    """A plot with a bar for each label, whose text says the same in words."""
    step = _round_step(max(count for count, _ in counts))
    steps = max(1, math.ceil(max(count for count, _ in counts) / step))
    width, height = _SIZE[0] / len(counts), _SIZE[1] / (steps * step)
    bars = tuple(
        Bar(
            round(index * width, 2),
            round(width * 0.85, 2),
            round(count * height, 2),
            round(failed * height, 2),
            f"{text}: {number_of(count, 'story', 'stories')}" + (f", {failed:,} failed" if failed else ""),
        )
        for index, (text, (count, failed)) in enumerate(zip(texts, counts, strict=True))
    )
    each = math.ceil(len(labels) * max(map(len, labels)) * _LETTER / _SIZE[0])
    below = tuple((labels[at], round((at + 0.425) * width, 2)) for at in range(0, len(labels), each))
    ticks = tuple((f"{number * step:,}", round(number * step * height, 2)) for number in range(steps + 1))
    return Plot(title, bars, across, below, ticks)


def _round_step(highest: int) -> int:
    """The distance of the ticks of an axis: 1, 2 or 5 times a power of ten, so that there are at most five."""
    step = 1
    while highest > 5 * step:
        # 1, 2, 5, 10, 20, 50 …
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return step
