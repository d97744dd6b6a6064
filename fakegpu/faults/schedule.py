"""What can happen to a GPU, at once or as a plan, and when; ``ActionKind`` says what each action does.

No process keeps the time of a plan: every process that looks at the machine carries out what has fallen due, the
library in any process that may write the segment as well as this package, and a wait for events looks when the next
plan is due. So plans survive the process that made them. What falls due while nobody looks comes late, with the time at
which it was due; of one plan at most the last 1024 times.
"""

from __future__ import annotations

import ctypes
import re
import time
from dataclasses import dataclass
from typing import Final

from ..errors import InputError
from ..state import layout
from ..state.layout import ActionKind
from ..state.segment import Segment

_UNITS_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s|m|h)?")
_SHORTEST_PERIOD_US: Final = 1_000
_LONGEST_US: Final = 366 * 24 * 3_600_000_000


def parse_duration_us(text: str) -> int:
    """Microseconds of ``500ms``, ``30s``, ``2m``, ``1h``; a plain number means seconds.

    Raises:
        InputError: not a duration, or longer than a year.
    """
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise InputError(f"'{text}' is no duration: write 500ms, 30s, 2m or 1h")
    microseconds = float(found.group(1)) * _UNITS_US[found.group(2) or "s"]
    if microseconds > _LONGEST_US:
        raise InputError(f"'{text}' is longer than a year")
    return round(microseconds)


@dataclass(frozen=True, slots=True)
class When:
    """When something happens, counted from the call that asks for it.

    Attributes:
        after_us: microseconds until the first time.
        every_us: microseconds between two times; None: only once.
        times: how often; None: for ever.
    """

    after_us: int = 0
    every_us: int | None = None
    times: int | None = None

    @classmethod
    def of(cls, after: str | float = 0, every: str | float | None = None, times: int | None = None) -> When:
        """From durations: seconds, or texts as ``parse_duration_us`` reads.

        Raises:
            InputError: not a duration, shorter than a millisecond between two times, or less than one time.
        """
        every_us = None if every is None else parse_duration_us(str(every))
        if every_us is not None and every_us < _SHORTEST_PERIOD_US:
            raise InputError(f"every {every}: a millisecond is the shortest")
        if times is not None and times < 1:
            raise InputError(f"times {times}: at least 1")
        if times is not None and times > 1 and every_us is None:
            raise InputError(f"times {times}: say how often, every 5s")
        return cls(parse_duration_us(str(after)), every_us, times)

    @property
    def is_now(self) -> bool:
        """Whether it happens once and at once."""
        return self.after_us == 0 and self.every_us is None


NOW: Final = When()


def now_us() -> int:
    """Microseconds since 1970, by which the library knows what is due."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Plan:
    """Something that will happen.

    Attributes:
        number: to remove it by.
        kind: what.
        gpu: index of the GPU.
        argument: of the kind: an XID, a count, a mask of links.
        in_s: seconds until the next time.
        every_s: seconds between two times; None: once.
        left: times that it still comes; None: for ever.
    """

    number: int
    kind: ActionKind
    gpu: int
    argument: int
    in_s: float
    every_s: float | None
    left: int | None


def act(
    segment: Segment,
    gpu: int,
    kind: ActionKind,
    argument: int = 0,
    instance: tuple[int, int] = (layout.NO_INSTANCE, layout.NO_INSTANCE),
    when: When = NOW,
) -> int | None:
    """Do an action, or plan it.

    Args:
        segment: of the machine.
        gpu: index.
        kind: what.
        argument: of the kind.
        instance: ids of GPU instance and compute instance that events of it name.
        when: once and at once, if not given.

    Returns:
        The number of the plan; None when it is done.

    Raises:
        InputError: the machine has as many plans as it can have.
    """
    action = layout.Action(
        kind=kind, gpu=gpu, gpu_instance=instance[0], compute_instance=instance[1], argument=argument
    )
    if when.is_now:
        segment.keep_plans()
        segment.command("fakegpu_act", ctypes.byref(action))
        return None
    plan = layout.Plan(
        due_us=now_us() + when.after_us,
        period_us=when.every_us or 0,
        left=layout.FOR_EVER if when.every_us and when.times is None else when.times or 1,
        action=action,
    )
    number = segment.command("fakegpu_add_plan", ctypes.byref(plan))
    if number == 0:
        raise InputError(f"the machine has {layout.PLANS_MAX} plans, and no room for more: remove one first")
    return number


def read_plans(segment: Segment) -> tuple[Plan, ...]:
    """What will happen, the next first."""
    segment.keep_plans()
    now = now_us()
    found = [plan for plan in segment.faults().plans if plan.number]
    return tuple(
        Plan(
            number=plan.number,
            kind=ActionKind(plan.action.kind),
            gpu=plan.action.gpu,
            argument=plan.action.argument,
            in_s=max(0.0, (plan.due_us - now) / 1e6),
            every_s=plan.period_us / 1e6 or None,
            left=None if plan.left == layout.FOR_EVER else plan.left,
        )
        for plan in sorted(found, key=lambda plan: plan.due_us)
    )
