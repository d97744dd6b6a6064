"""What the command does: opens the file, plays, shows how it goes, and writes what was found, however it ends."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import click

from simkubelet.host import is_unread, one_line
from simkubelet.model.errors import HostError, PluginError, UnreadError
from simkubelet.model.words import number_of

from ..play.interruption import Interrupted
from ..report.written import Kind, make_folder, make_place, page_in, written_for
from .campaign import Campaign
from .results import Results
from .workers import Workers, dask_workers, local_workers, nothing

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_EACH_S: Final = 10.0
_FOR_EACH_CORE: Final = 3
"""While the kernel takes the watches of an ended story away, its process does nothing."""
_MOST_PROCESSES: Final = 6
"""All their worlds together have 120 instances of inotify."""
_WORDS: Final[Mapping[str, str]] = {
    "passed": "passed",
    "failed": "failed",
    "ended": "ended by a step that could not be done",
    "unknown": "without a verdict as the machine failed",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the command, by its own names for them; `count` is None for one process for each core."""

    seed: int | None
    most: int | None
    time_s: float | None
    count: int | None
    scheduler: str | None
    results: Path
    findings: Path
    page: Path | None


def run_campaign(settings: Settings) -> int:
    """Run or continue a campaign and print what was found; return the exit status.

    Raises:
        InputError: What the user gave cannot be used.
        HostError: The machine failed.
        Interrupted: A signal ended the run; what was found by then is printed and written.
    """
    began = time.monotonic()
    with written_for("--findings", settings.findings):
        make_folder(settings.findings)
    if settings.page is not None:
        with written_for("--report", settings.page):
            page_in(settings.page)
    with Results(settings.results, settings.seed, secrets.randbits(31)) as results:
        before = results.count
        progress = _Progress(results, before, began)
        about = f"seed {results.seed}, {_stories(before)} played before; the results are in {settings.results}"
        click.echo(one_line(about))
        try:
            with _interruptible(), _workers(settings) as workers:
                until = None if settings.time_s is None else began + settings.time_s
                Campaign(results, workers, progress.show, settings.most, until).run()
        finally:
            _finish(results, settings, before, time.monotonic() - began)
        if results.findings():
            return PluginError.exit_status
        return HostError.exit_status if "unknown" in results.outcomes() else 0


def _workers(settings: Settings) -> AbstractContextManager[Workers]:
    if settings.scheduler is not None:
        return dask_workers(settings.scheduler)
    return local_workers(settings.count or min(_FOR_EACH_CORE * len(os.sched_getaffinity(0)), _MOST_PROCESSES))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let the first signal raise `Interrupted`; further ones change nothing while everything is ended."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, nothing)
        raise Interrupted(signal.Signals(number))

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Progress:
    """A line on standard error every ten seconds, and one for each new finding."""

    def __init__(self, results: Results, before: int, began: float) -> None:
        self._results = results
        self._before = before
        self._began = began
        self._next = began + _SHOW_EACH_S
        self._shown: set[str] = {one.signature for one in results.findings()}

    def show(self) -> None:
        """Show what is new.

        Raises:
            UnreadError: Nobody reads what the campaign prints.
        """
        if is_unread():
            raise UnreadError
        for finding in self._results.findings():
            if finding.signature not in self._shown:
                self._shown.add(finding.signature)
                click.echo(one_line(f"story {finding.number}: {finding.reason}"), err=True)
        if (now := time.monotonic()) >= self._next:
            self._next = now + _SHOW_EACH_S
            count = self._results.count
            rate = (count - self._before) / (now - self._began)
            found = number_of(len(self._shown), "finding")
            click.echo(f"{_stories(count)}, {rate:.1f} a second, {found}", err=True)


def _stories(count: int) -> str:
    return number_of(count, "story", "stories")


def _finish(results: Results, settings: Settings, before: int, wall_s: float) -> None:
    """Write the smallest stories and the page, and print what was found."""
    findings = results.findings()
    with written_for("--findings", settings.findings):
        for finding in findings:
            if finding.shrunk is not None:
                path = settings.findings / f"{finding.shrunk.name}.yaml"
                make_place(path, Kind("a finding of this campaign", f"name: {finding.shrunk.name}\n".encode()))
                path.write_text(finding.shrunk.text, encoding="utf-8")
    if settings.page is not None:
        from .page import write_page

        with written_for("--report", settings.page):
            write_page(settings.page, results)
    played = results.count - before
    click.echo(f"{_stories(results.count)}, {played:,} of them in this run: {played / max(wall_s, 1e-9):.1f} a second")
    for outcome, count in results.outcomes().items():
        click.echo(f"  {count:,} {_WORDS[outcome]}")
    for finding in findings:
        click.echo(one_line(f"{number_of(finding.count, 'time')}: {finding.reason}"))
        if finding.shrunk is None:
            click.echo(f"  first in story {finding.number}")
        else:
            path = settings.findings / f"{finding.shrunk.name}.yaml"
            again = "" if finding.shrunk.is_repeated else ", which did not fail again when played alone"
            steps = number_of(finding.shrunk.steps, "step")
            click.echo(one_line(f"  simkubelet run {path}: {steps}{again}"))
    sys.stdout.flush()
