"""The page of a campaign: what was found, and plots of what was played; one HTML file that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ..report.page import rendered_from
from ..report.written import page_in
from .results import Finding, Results

_HERE: Final = Path(__file__).parent
_SIZE: Final = (640, 180)
_MOST_BARS: Final = 60
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
        first: What is written below its first bar.
        last: What is written below its last bar.
        highest: What its highest bar stands for.
    """

    title: str
    bars: tuple[Bar, ...]
    first: str
    last: str
    highest: str
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
    labels = [
        f"{datetime.fromtimestamp((first + index * each) * 60, UTC):%Y-%m-%d %H:%M}" for index in range(len(counts))
    ]
    unit = "minute" if each == 1 else f"{each} minutes"
    return _plot(f"Stories in each {unit}", labels, counts)


def _by_length(results: Results) -> Plot:
    rows = {steps: (count, failed) for steps, count, failed in results.lengths()}
    lengths = range(min(rows), max(rows) + 1)
    return _plot(
        "Stories by their steps", [f"{one} steps" for one in lengths], [rows.get(one, (0, 0)) for one in lengths]
    )


def _by_duration(results: Results) -> Plot:
    """Each bar is for twice the time of the one before it."""
    classes = [max(-4, math.ceil(math.log2(max(duration, 1e-6)))) for duration in results.durations_s()]
    powers = range(min(classes), max(classes) + 1)
    labels = [f"up to {2.0**power:g} s" for power in powers]
    return _plot("Stories by the real time that they took", labels, [(classes.count(power), 0) for power in powers])


def _plot(title: str, labels: Sequence[str], counts: Sequence[tuple[int, int]]) -> Plot:
    highest = max(count for count, _ in counts)
    width, height = _SIZE[0] / len(counts), _SIZE[1] / highest
    bars = tuple(
        Bar(
            round(index * width, 2),
            round(width * 0.85, 2),
            round(count * height, 2),
            round(failed * height, 2),
            f"{label}: {count:,} stories" + (f", {failed:,} failed" if failed else ""),
        )
        for index, (label, (count, failed)) in enumerate(zip(labels, counts, strict=True))
    )
    return Plot(title, bars, labels[0], labels[-1], f"{highest:,}")
