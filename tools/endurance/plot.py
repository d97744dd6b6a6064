"""The plot of a run, as SVG: one curve for each figure, over the faults, in the reader's light or dark scheme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .measurement import Measurement

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 720, 90, 60, 34, 56
"""Pixels: of a curve's field, of what is left of it, above the first, and between two."""
_FIGURES: Final[Mapping[str, str]] = {
    "rss_mib": "resident memory, MiB",
    "objects": "Python objects",
    "files": "open files",
    "tasks": "tasks of the event loop",
}
_STYLE: Final = """\
svg { color-scheme: light dark; --ground: #ffffff; --ink: #1b2330; --soft: #556070; --line: #d7dde5; --curve: #2457c5;
  font: 12px system-ui, sans-serif }
@media (prefers-color-scheme: dark) {
  svg { --ground: #1a202a; --ink: #e6ebf2; --soft: #a3afbf; --line: #323c4a; --curve: #8db2ff }
}
.ground { fill: var(--ground) } .title { fill: var(--ink); font-weight: 600 } .scale { fill: var(--soft) }
.axis { stroke: var(--line) } .curve { fill: none; stroke: var(--curve); stroke-width: 1.5 }"""


def svg(measurements: Sequence[Measurement]) -> str:
    """Draw the measurements; each field begins at zero, so that a curve is as flat as it looks."""
    height = _TOP + len(_FIGURES) * (_HEIGHT + _GAP)
    last = measurements[-1]
    title = f"{last.faults:,} faults on one node in {last.hours:,.0f} hours of its time"
    fields = "\n".join(_field(measurements, name, number) for number, name in enumerate(_FIGURES))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}" role="img">
<title>{title}</title>
<style>
{_STYLE}
</style>
<rect class="ground" width="100%" height="100%"/>
{fields}
</svg>
"""


def _field(measurements: Sequence[Measurement], name: str, number: int) -> str:
    top = _TOP + number * (_HEIGHT + _GAP)
    bottom = top + _HEIGHT
    values = [getattr(one, name) for one in measurements]
    most, last = max(values), measurements[-1].faults
    points = " ".join(
        f"{_LEFT + one.faults / last * _WIDTH:.1f},{bottom - value / most * _HEIGHT:.1f}"
        for one, value in zip(measurements, values, strict=True)
    )
    return f"""\
<text class="title" x="{_LEFT}" y="{top - 10}">{_FIGURES[name]}</text>
<text class="scale" x="{_LEFT - 8}" y="{top + 4}" text-anchor="end">{most:,.0f}</text>
<text class="scale" x="{_LEFT - 8}" y="{bottom}" text-anchor="end">0</text>
<text class="scale" x="{_LEFT + _WIDTH}" y="{bottom + 16}" text-anchor="end">{last:,} faults</text>
<path class="axis" d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}" fill="none"/>
<polyline class="curve" points="{points}"/>"""
