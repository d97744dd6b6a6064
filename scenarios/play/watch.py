"""The stories of a run, several at a time, and who is notified of what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from ..evaluation.verdict import single_errors
from .job import Job, Played, StoryEnded, play_job
from .runner import Progress


class Watch(Protocol):
    """Notified of what becomes of the stories of a run, as it happens."""

    def began(self, job: Job) -> None:
        """A story begins: its world is made."""

    def stepped(self, job: Job, title: str) -> None:
        """A step of it begins."""

    def ended(self, job: Job, played: Played) -> None:
        """It has come to its end, or was ended."""


class FirstFailure(Exception):  # noqa: N818  # what was asked for has happened
    """A story failed, and the run was to end with the first that does."""


Play = Callable[[Job, Progress], Awaitable[Played]]
"""Plays one story."""


async def play_all(jobs: Sequence[Job], count: int, watch: Watch, play: Play = play_job) -> None:
    """Play stories.

    Args:
        jobs: The stories.
        count: How many are played at a time.
        watch: Notified of each story; those that it hears nothing of were not played.
        play: Plays one of them.
    """
    waiting = iter(jobs)

    async def play_what_waits() -> None:
        for job in waiting:
            await watched(job, watch, partial(play, job))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(play_what_waits())
    except BaseExceptionGroup as errors:
        # Not `except*`: Python 3.11.2 puts what is raised in it into a group again.
        if (others := errors.split(FirstFailure)[1]) is not None:
            raise next(single_errors(others)) from None


async def watched(job: Job, watch: Watch, play: Callable[[Progress], Awaitable[Played]]) -> None:
    """Play one story of a run, and notify who watches it.

    Raises:
        FirstFailure: It failed, and the run is to end with it.
    """
    watch.began(job)
    try:
        played = await play(lambda title: watch.stepped(job, title))
    except StoryEnded as ended:
        watch.ended(job, replace(ended.played, verdict=replace(ended.played.verdict, scenario=job.name)))
        raise
    watch.ended(job, played)
    if job.options.stops_at_failure and played.verdict.outcome.is_failure:
        raise FirstFailure
