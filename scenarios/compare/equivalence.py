"""Whether two traces of one story tell the same: what differs between their normal forms, and what differs first."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from ..story.model import Scenario
from .normal_form import SETS, Line, NormalForm


@dataclass(frozen=True, slots=True)
class Divergence:
    """The earliest lane that differs: its name, the step, and all lanes that differ as lines of a diff."""

    lane: str
    step: int
    lines: tuple[str, ...]


def compare(first: NormalForm, second: NormalForm, names: tuple[str, str]) -> Divergence | None:
    """What differs between two normal forms; None where nothing does.

    Args:
        first: Of one world.
        second: Of the other.
        names: The worlds' names, for the diff.
    """
    told = {lane: _that_count(first, second, lane) for lane in sorted({*first, *second})}
    different = {lane: both for lane, both in told.items() if _texts(both[0]) != _texts(both[1])}
    if not different:
        return None
    lines: list[str] = []
    for lane, (one, other) in different.items():
        lines.append(lane)
        diff = difflib.unified_diff(_texts(one), _texts(other), *names, n=2, lineterm="")
        lines += [f"  {line}" for line in diff if not line.startswith("@@")]
    earliest = min(different, key=lambda lane: _first_step(*different[lane]))
    return Divergence(earliest, _first_step(*different[earliest]), tuple(lines))


def _that_count(first: NormalForm, second: NormalForm, lane: str) -> tuple[Sequence[Line], Sequence[Line]]:
    """The lines of a lane in both worlds that either told within the story."""
    one, other = first.get(lane, ()), second.get(lane, ())
    if lane.startswith(SETS):
        told = {line.text for line in (*one, *other) if not line.is_late}
        return [line for line in one if line.text in told], [line for line in other if line.text in told]
    length = max(sum(not line.is_late for line in lines) for lines in (one, other))
    return one[:length], other[:length]


def explained(divergence: Divergence, scenario: Scenario) -> str:
    """The first divergence in one sentence."""
    where = scenario.steps[divergence.step].title if divergence.step >= 0 else "the beginning"
    return f"the traces differ first in '{divergence.lane}', at step '{where}'"


def _texts(lines: Sequence[Line]) -> list[str]:
    return [line.text for line in lines]


def _first_step(first: Sequence[Line], second: Sequence[Line]) -> int:
    """The step of the first lines that differ."""
    for one, other in zip(first, second, strict=False):
        if one.text != other.text:
            return min(one.step, other.step)
    rest = [*first[len(second) :], *second[len(first) :]]
    return rest[0].step if rest else -1
