"""What can befall a GPU, at once or as a plan; ``ActionKind`` says what each does.

No process keeps the time of a plan: whoever looks at the machine carries out what has fallen due, the library in any
process that may write the segment as well as this package, and a wait for events looks when the next plan is due. So
plans survive whoever made them. What falls due while nobody looks comes late, with the time at which it was due; of one
plan at most the last 1024 times.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from ..errors import InputError
from ..state import layout
from ..state.layout import ActionKind
from ..state.segment import Segment
from .schedule import NOW, When, now_us


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
    """Does it, or plans it.

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
