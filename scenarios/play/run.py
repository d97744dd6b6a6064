"""``simkubelet run`` behind its options: stories in, a table of verdicts and files out, an exit status.

Below the table stand the expected and the actual values of each failure, and what happened around it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from simkubelet.model.errors import HostError, InputError

from ..evaluation.verdict import exit_status
from ..story.stories import first_sentence
from ..trace.trace import write_lines
from .console import print_run
from .interruption import run_interruptibly
from .job import BackendName, Job, Options, Played, RunProgress, at_a_time, play_all, prepare
from .junit import junit_xml

_OF_KIND: Final = ("kr8s", "httpx")
"""What only an installation with the extra `kind` has."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that a run writes besides its table; None means not to."""

    junit: Path | None = None
    trace: Path | None = None


def run(stories: Sequence[Path], options: Options, count: int | None, outputs: Outputs, hint: str = "") -> int:
    """Play stories and report on them.

    Args:
        stories: Their files.
        options: How each is played.
        count: How many at a time; as many as are good for this machine where it is None.
        outputs: What is written besides.
        hint: The last line of the report.

    Returns:
        The exit status of the run.

    Raises:
        InputError: What the user gave cannot be used; nothing is left behind.
        Interrupted: The user ended the run; nothing is left behind.
    """
    jobs = prepare(stories, options)
    summaries: dict[str, str] = {}
    for job in jobs:
        summaries[job.name] = summaries[job.story.scenario.name] = first_sentence(job.story.scenario.description)
    _check_writable("--junit", outputs.junit)
    _check_writable("--trace", outputs.trace)
    began = time.monotonic()
    with _live_progress() as progress:
        played = run_interruptibly(_play(jobs, options, count, progress))
    wall_s = time.monotonic() - began
    verdicts = [one.verdict for one in played]
    try:
        print_run(verdicts, summaries, wall_s)
        if hint:
            print(hint)
        sys.stdout.flush()
    except BrokenPipeError:
        # The verdict stands though nobody reads it; without this the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _write(outputs, played)
    return exit_status(verdicts)


@contextlib.contextmanager
def _live_progress() -> Iterator[RunProgress]:
    """Show each step on standard error as it begins, in one line; nothing where standard error is not a terminal."""
    terminal = Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield lambda story, title: None
        return
    with terminal.status("starting") as status:
        yield lambda story, title: status.update(f"[bold]{story}[/bold]  {title}")


async def _play(jobs: Sequence[Job], options: Options, count: int | None, progress: RunProgress) -> tuple[Played, ...]:
    if options.backend is BackendName.SIM:
        return await play_all(jobs, count or at_a_time(), progress)
    try:
        from .on_cluster import play_on_cluster
    except ModuleNotFoundError as error:
        if error.name not in _OF_KIND:
            raise
        raise HostError(
            f"--backend {options.backend}: the Python package {error.name} is missing; "
            "install it with: pip install 'simkubelet[kind]'"
        ) from None
    if count is not None and count > 1:
        raise InputError("-n: a cluster takes one story at a time; leave -n out, or use --backend sim")
    return await play_on_cluster(jobs, options, progress)


def _check_writable(option: str, path: Path | None) -> None:
    if path is None:
        return
    try:
        path.open("a").close()
    except OSError as error:
        raise InputError(f"{option}: '{path}' cannot be written: {error.strerror}") from error


def _write(outputs: Outputs, played: Sequence[Played]) -> None:
    if outputs.junit is not None:
        outputs.junit.write_bytes(junit_xml([one.verdict for one in played]))
    if outputs.trace is not None:
        with outputs.trace.open("w", encoding="utf-8") as stream:
            for one in played:
                write_lines(one.events, stream, one.verdict.scenario)
