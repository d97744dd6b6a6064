"""Plays stories of a campaign, several at a time in one event loop, and looks for what they leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import ValidationError

from simkubelet.host import raise_limit

from ..backends.world.folders import MARK, own_folder
from ..evaluation.verdict import Outcome, Verdict
from ..play.runner import play
from ..story.document import Document, Positioned
from ..story.model import Scenario
from .generator import plan_of
from .plan import Plan, story_of
from .world import CampaignWorld

_AT_A_TIME: Final = 5
"""Worlds of one worker; a world takes four instances of inotify, of which the kernel gives each user 128."""
_LIMIT_S: Final = 90.0
_VARIABLE: Final = re.compile(r"'[^']*'|\b(?:red|blue|green)(?:-\d+)?\b|\b(?:p|s|last-)\d+\b|node-\d|0x[0-9a-f]+|\d+")
_NUMBERS_IN_PLACE: Final = "#"
_LEFT_BEHIND: Final = "left behind: "

_Owned: TypeAlias = frozenset[tuple[str, str]]
"""What a process has opened or started: kind -> which of them."""


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a story.

    Attributes:
        number: The story's in its campaign.
        outcome: ``passed``, ``failed``, ``ended`` (a step could not be done) or ``unknown`` (the machine failed).
        reason: One line, empty where it passed.
        steps: How many steps it has.
        duration_s: Real time.
        played_at: When it ended, in seconds since 1970.
    """

    number: int
    outcome: str
    reason: str
    steps: int
    duration_s: float
    played_at: float

    @property
    def signature(self) -> str:
        """The reason without names and numbers: failures that have it in common are one finding."""
        return _VARIABLE.sub(_NUMBERS_IN_PLACE, self.reason) if self.outcome == "failed" else ""


def play_batch(seed: int, numbers: Sequence[int], directory: Path | None, is_own_process: bool) -> list[Played]:
    """Play some stories of a campaign in this thread.

    Args:
        seed: The campaign's.
        numbers: The stories' numbers.
        directory: Where their folders are made; it has to exist and to have a short path. The place for temporary
            files of the machine that plays where it is None.
        is_own_process: Whether nothing else runs in this process, so that what it has opened and started is of the
            stories.
    """
    raise_limit()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    plans = {number: plan_of(seed, number) for number in numbers}
    played, leak = asyncio.run(_play_all(plans, directory, _AT_A_TIME, is_own_process))
    if not leak:
        return played
    # Which of them it was is seen when each is played alone.
    alone = [play_alone(plan, number, directory, is_own_process) for number, plan in plans.items()]
    leaking = {one.number: one for one in alone if one.reason.startswith(_LEFT_BEHIND)}
    if not leaking:
        # None does so alone: the first of them stands for all, so that it is known at all.
        leaking = {played[0].number: replace(played[0], outcome="failed", reason=leak)}
    return [leaking.get(one.number, one) for one in played]


def play_alone(plan: Plan, number: int, directory: Path | None, is_own_process: bool) -> Played:
    """Play one story with nothing beside it."""
    (played,), leak = asyncio.run(_play_all({number: plan}, directory, 1, is_own_process))
    return replace(played, outcome="failed", reason=leak) if leak and played.outcome == "passed" else played


async def _play_all(
    plans: dict[int, Plan], directory: Path | None, at_a_time: int, is_own_process: bool
) -> tuple[list[Played], str]:
    """Play stories; also return what all together have left behind, empty where they have not."""
    slots = asyncio.Semaphore(at_a_time)
    before = _owned() if is_own_process else frozenset()

    async def one(number: int, plan: Plan) -> Played:
        async with slots:
            return await _play(plan, number, directory)

    played = await asyncio.gather(*(one(number, plan) for number, plan in plans.items()))
    return played, await _left_behind(before, is_own_process)


async def _play(plan: Plan, number: int, directory: Path | None) -> Played:
    name = f"story-{number}"
    began = time.monotonic()
    with own_folder(directory) as folder:
        story = story_of(plan, name, f"Story {number} of a campaign.")
        steps = len(story["steps"])
        try:
            # Its text would take half of the time that it takes to play it.
            document = Document(Path(f"{name}.yaml"), Scenario.model_validate(story), Positioned())
            world = CampaignWorld(document.scenario, folder)
            verdict = await play(document, world, timeout_s=_LIMIT_S)
            outcome, reason = _outcome(verdict)
            if outcome == "passed" and os.listdir(folder) != [MARK]:  # noqa: PTH208  # as below
                outcome, reason = "failed", f"{_LEFT_BEHIND}the folder of its nodes"
        except ValidationError as error:
            # A plan that was made smaller may be no story any more.
            outcome, reason = "ended", str(error).partition("\n")[0]
        except Exception as error:  # whatever escapes is a mistake of ours, which a campaign is to find
            outcome, reason = "failed", _escaped(error)
    return Played(number, outcome, reason, steps, time.monotonic() - began, time.time())


def _outcome(verdict: Verdict) -> tuple[str, str]:
    if verdict.outcome is Outcome.VALID:
        return "passed", ""
    if verdict.outcome is Outcome.INVALID:
        mismatches = verdict.failure.mismatches if verdict.failure else ()
        step = verdict.failure.step if verdict.failure else ""
        first = f"{step}: expected {mismatches[0].expected}; actual {mismatches[0].actual}" if mismatches else ""
        return "failed", first or verdict.reason
    if verdict.outcome is Outcome.UNKNOWN and "takes longer than" in verdict.reason:
        step = verdict.failure.step if verdict.failure else ""
        return "failed", f"{step}: does not end"
    # What fails before the first step is no matter of the story.
    is_step = verdict.outcome is Outcome.ERROR and verdict.failure is not None and verdict.failure.number > 0
    return ("ended" if is_step else "unknown"), verdict.reason


def _escaped(error: BaseException) -> str:
    """An error that is none of ours, with the place at which it was raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {Path(frames[-1].filename).name}, {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}: {error}{place}"


async def _left_behind(before: _Owned, is_own_process: bool) -> str:
    """What is left of stories that have ended."""
    # Transports close their sockets in the turn after their end.
    for _ in range(3):
        await asyncio.sleep(0)
    tasks = sorted(_name(task) for task in asyncio.all_tasks() if task is not asyncio.current_task())
    if tasks:
        return f"{_LEFT_BEHIND}a task of {tasks[0]}"
    new = sorted(_owned() - before) if is_own_process else []
    return f"{_LEFT_BEHIND}{new[0][0]}" if new else ""


def _name(task: asyncio.Task[object]) -> str:
    return getattr(task.get_coro(), "__qualname__", task.get_name())


def _owned() -> _Owned:
    """The open files of this process, and the processes that it has started."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # a path for each costs more than what is read
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115  # as above
            if not target.endswith("/fd") and "eventpoll" not in target:
                found.add((f"an open {_kind(target)}", f"{name} {target}"))
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208  # as above
        # A kernel without these files says nothing of children.
        with contextlib.suppress(OSError):
            children = Path(f"/proc/self/task/{thread}/children").read_text(encoding="ascii")
            found |= {("a process", child) for child in children.split()}
    return frozenset(found)


def _kind(target: str) -> str:
    """What an open file is: ``socket``, ``inotify``, or its path's last part."""
    return target.partition(":")[0].removeprefix("anon_inode") if ":" in target else Path(target).name
