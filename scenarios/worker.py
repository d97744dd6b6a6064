"""The process of one story of a parallel run; see `wire` for what it reads and writes."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import BinaryIO

from simkubelet.errors import InputError

from .interruption import Interrupted, run_interruptibly
from .job import Job, play_job
from .wire import Finished, Refused, StepTold, answer_line, read_job


def main() -> None:
    """Play the story that standard input names; what others print goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        run_interruptibly(_serve(answers))
    except (Interrupted, asyncio.CancelledError):
        sys.exit(130)


async def _serve(answers: BinaryIO) -> None:
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    line = await orders.readline()
    if not line:
        return
    story = asyncio.current_task()
    end = asyncio.create_task(_cancel_at_end(orders, story))
    try:
        await _answer(read_job(line), answers)
    finally:
        end.cancel()


async def _cancel_at_end(orders: asyncio.StreamReader, story: asyncio.Task[None] | None) -> None:
    await orders.read()
    if story is not None:
        story.cancel()


async def _answer(job: Job, answers: BinaryIO) -> None:
    try:
        played = await play_job(job, lambda title: _tell(answers, answer_line(StepTold(title))))
    except InputError as error:
        _tell(answers, answer_line(Refused(str(error))))
    else:
        _tell(answers, answer_line(Finished(played)))


def _tell(answers: BinaryIO, line: bytes) -> None:
    try:
        answers.write(line)
    except BrokenPipeError:
        return


if __name__ == "__main__":
    main()
