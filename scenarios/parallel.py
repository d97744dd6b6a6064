"""Plays the stories of a run: one after the other in this process, or several at a time, each in its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence

from simkubelet import _bundle
from simkubelet.errors import InputError

from .job import Job, Played, play_job
from .verdict import Outcome, Verdict
from .wire import Finished, Refused, StepTold, job_line, read_answer

LINE_LIMIT_BYTES = 256 * 1024 * 1024
GRACE_S = 20.0
"""How long a story's process may take to end what it has started before it is killed."""

RunProgress = Callable[[str, str], None]
"""Told a story's name and the title of its step."""


async def play_all(jobs: Sequence[Job], processes: int, progress: RunProgress) -> tuple[Played, ...]:
    """Play stories; the results are in the order of the jobs, whichever ends first.

    Args:
        jobs: The stories.
        processes: How many are played at a time; with 1 they are played in this process.
        progress: Told each step as it begins.

    Raises:
        InputError: What the user gave cannot be used; the other stories are ended first.
    """
    if processes == 1:
        return tuple([await play_job(job, _told_for(job, progress)) for job in jobs])
    free = asyncio.Semaphore(processes)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_play_in_process(job, free, _told_for(job, progress))) for job in jobs]
    except BaseExceptionGroup as errors:
        # Not `except*`: Python 3.11.2 puts what is raised in it into a group again.
        if (refusals := errors.subgroup(InputError)) is None:
            raise
        raise _first(refusals) from None
    return tuple(task.result() for task in tasks)


def _told_for(job: Job, progress: RunProgress) -> Callable[[str], None]:
    return lambda title: progress(job.name, title)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _play_in_process(job: Job, free: asyncio.Semaphore, told: Callable[[str], None]) -> Played:
    async with free, _process(job) as process:
        assert process.stdout is not None  # noqa: S101  # a pipe was asked for
        while line := await process.stdout.readline():
            match read_answer(line):
                case StepTold(title=title):
                    told(title)
                case Finished(played=played):
                    return played
                case Refused(message=message):
                    raise InputError(message)
        status = await process.wait()
    reason = f"the story's process ended with status {status} before it had an answer"
    return Played(Verdict(job.name, Outcome.UNKNOWN, 0.0, reason), ())


@contextlib.asynccontextmanager
async def _process(job: Job) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that plays a story; leaving ends it, and first all that it has started.

    It has a session of its own, so that Ctrl-C on a terminal reaches this process only, which then ends the others.
    """
    process = await asyncio.create_subprocess_exec(
        *_worker_argv(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT_BYTES,
        env={**os.environ, "PYTHONPATH": _bundle.python_path("scenarios")},
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101  # a pipe was asked for
    try:
        process.stdin.write(job_line(job))
        yield process
    finally:
        process.stdin.close()
        await _ended(process)


def _worker_argv() -> tuple[str, ...]:
    """The program of a story's process; ``-P`` because the working directory may have a package of the same name."""
    return sys.executable, "-P", "-m", f"{_bundle.module_name('scenarios')}.worker"


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), GRACE_S)
    except TimeoutError:
        process.kill()
        await process.wait()
