"""``simkubelet conform`` behind its options: a plugin in, a verdict for each check out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from simkubelet.model.errors import HostError, PluginError, SimkubeletError

from ..evaluation.verdict import Outcome, Verdict
from ..play.job import Job, Options, Played, at_a_time
from ..play.watch import play_all
from ..story.check_spec import Severity
from ..story.verbs.node_action import RunCommand
from ..trace.trace import Entry
from .checks import Check
from .tested_plugin import Subject


class Status(StrEnum):
    """What can be said about a plugin by one check."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """The machine failed, or the check could not be played to its end."""
    SKIPPED = "skipped"
    """The check does not apply to the plugin."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of one check: its verdict as a story, and all that happened."""

    check: Check
    status: Status
    verdict: Verdict
    events: tuple[Entry, ...] = ()


OnResult = Callable[[Result], None]
"""Called with each result as it comes."""


async def conform(
    subject: Subject, checks: Sequence[Check], count: int | None, directory: Path | None, on_result: OnResult
) -> None:
    """Play checks with a plugin, several at a time; those with programs of this machine one by one, at the end.

    Args:
        subject: The plugin, discovered.
        checks: To play.
        count: How many at a time; as many as are good for this machine where it is None.
        directory: Where nodes' folders are made.
        on_result: Gets each result as it comes.
    """
    options = Options(directory=directory)
    jobs: dict[Job, Check] = {}
    for check in checks:
        if reason := subject.reason_to_skip(check.spec.needs):
            on_result(Result(check, Status.SKIPPED, Verdict(check.id, Outcome.SKIPPED, 0.0, reason)))
        else:
            jobs[Job(subject.in_check(check), options)] = check
    watch = _Watch(subject, jobs, on_result)
    together = [job for job in jobs if not _needs_the_machine(job)]
    await play_all(together, count or at_a_time(), watch)
    await play_all([job for job in jobs if job not in together], 1, watch)


def _needs_the_machine(job: Job) -> bool:
    """Whether it runs a program outside its node, which other nodes would notice."""
    return any(isinstance(step.action, RunCommand) for step in job.story.scenario.steps)


@dataclass(frozen=True, slots=True)
class _Watch:
    """Makes results of stories that have ended; see `job.Watch`."""

    subject: Subject
    jobs: Mapping[Job, Check]
    on_result: OnResult

    def began(self, job: Job) -> None:
        """Nothing is shown of it."""

    def stepped(self, job: Job, title: str) -> None:
        """Nothing is shown of it."""

    def ended(self, job: Job, played: Played) -> None:
        """A check has its result, but for one that was interrupted."""
        check = self.jobs[job]
        if played.verdict.outcome is not Outcome.ENDED:
            verdict = replace(played.verdict, repeat=self.subject.command_for(check))
            self.on_result(Result(check, _status(verdict.outcome, check), verdict, played.events))


def _status(outcome: Outcome, check: Check) -> Status:
    if outcome is Outcome.INVALID:
        return Status.WARNING if check.spec.severity is Severity.WARNING else Status.FAILED
    return {Outcome.VALID: Status.PASSED, Outcome.SKIPPED: Status.SKIPPED}.get(outcome, Status.UNKNOWN)


def exit_status(results: Sequence[Result]) -> int:
    """1 if any check failed, else 3 if any is unknown, else 0."""
    found = {result.status for result in results}
    error: type[SimkubeletError] | None = (
        PluginError if Status.FAILED in found else HostError if Status.UNKNOWN in found else None
    )
    return 0 if error is None else error.exit_status
