"""One story in two worlds: what differs between their normal forms, after both had time to record the same.

A story ends as soon as its last expectation is met. So each world continues for a while: the simulator for a fixed node
time, a cluster until it has recorded the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..backends.backend import Backend
from ..story.model import Scenario
from ..story.verbs.node_action import Advance
from ..trace.trace import Entry
from .normal_form import SETS, Line, NormalForm, normal_form

_PERIODS: Final = 2
_PERIOD: Final = Advance.model_validate("10s")
"""How long a world with a node time of its own continues: for a status of the nodes, and what follows from it."""
_REAL_S: Final = 3.0
"""How long a cluster is waited for, in a story's seconds."""


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
    recorded = {lane: _that_count(first, second, lane) for lane in sorted({*first, *second})}
    different = {lane: both for lane, both in recorded.items() if _texts(both[0]) != _texts(both[1])}
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
    """The lines of a lane in both worlds that either recorded within the story."""
    one, other = first.get(lane, ()), second.get(lane, ())
    if lane.startswith(SETS):
        counted = {line.text for line in (*one, *other) if not line.is_late}
        return [line for line in one if line.text in counted], [line for line in other if line.text in counted]
    length = max(sum(not line.is_late for line in lines) for lines in (one, other))
    return one[:length], other[:length]


def explained(divergence: Divergence, scenario: Scenario) -> str:
    """The first divergence in one sentence."""
    where = scenario.steps[divergence.step - 1].title if divergence.step else "the beginning"
    return f"the traces differ first in '{divergence.lane}', at step '{where}'"


def _texts(lines: Sequence[Line]) -> list[str]:
    return [line.text for line in lines]


def _first_step(first: Sequence[Line], second: Sequence[Line]) -> int:
    """The step of the first lines that differ."""
    for one, other in zip(first, second, strict=False):
        if one.text != other.text:
            return min(one.step, other.step)
    rest = [*first[len(second) :], *second[len(first) :]]
    return rest[0].step if rest else 0


class Comparison:
    """First the simulator plays the story, then a cluster; each method is given to its `runner.play`.

    Args:
        scenario: The story.
        name: What the cluster is called.
    """

    def __init__(self, scenario: Scenario, name: str = "kind") -> None:
        self._scenario = scenario
        self._name = name
        self._simulated: NormalForm | None = None
        self.divergence: Divergence | None = None

    async def simulate_on(self, backend: Backend) -> None:
        """Let the simulator go on, and keep what it has recorded."""
        await self._continue(backend)
        self._simulated = normal_form(backend.trace[:], self._scenario)

    async def wait_for_the_same(self, backend: Backend) -> None:
        """Let a cluster go on until it has recorded the same as the simulator; `divergence` is what differs for good.

        Nothing is compared where the story failed on the simulator.
        """
        if self._simulated is None:
            return
        if _PERIOD.needed <= backend.capabilities:
            await self._continue(backend)
        patience = backend.patience(_REAL_S)
        while True:
            self.divergence = self.difference_from(backend.trace[:])
            if self.divergence is None or not await patience.wait():
                return

    async def _continue(self, backend: Backend) -> None:
        for _ in range(_PERIODS):
            await backend.perform(_PERIOD)

    def difference_from(self, real: Sequence[Entry]) -> Divergence | None:
        """What differs between the simulator's record and that of a cluster; None where nothing does."""
        return compare(self._simulated or {}, normal_form(real, self._scenario), ("sim", self._name))
