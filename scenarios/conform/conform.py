"""``simkubelet conform`` behind its options: a plugin in, a verdict for each check out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from simkubelet.model.errors import HostError, PluginError, SimkubeletError

from ..evaluation.verdict import Outcome, Verdict
from ..play.job import Job, Options, Played, at_a_time
from ..play.watch import play_all
from ..story.check_spec import Severity
from ..story.model import Scenario
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
    plays: list[Play] = []
    for check in checks:
        if reason := subject.reason_to_skip(check.spec.needs):
            on_result(Result(check, Status.SKIPPED, Verdict(check.id, Outcome.SKIPPED, 0.0, reason)))
        else:
            plays.append(Play(Job(subject.in_check(check), options), (check,)))
    watch = _Watch(subject, on_result)
    await _play_each(shared(plays), count or at_a_time(), watch)
    # What they share was not all well: each has an answer of its own.
    await _play_each([play for play in plays if play.checks[0] in watch.unanswered], count or at_a_time(), watch)


@dataclass(frozen=True, slots=True, eq=False)
class Play:
    """A story, and the checks that pass where it comes true; of a single one it is the whole answer."""

    job: Job
    checks: tuple[Check, ...]


def shared(plays: Iterable[Play]) -> list[Play]:
    """Plays of one check each as those of several, where they differ only in what they look at in the end.

    A start of the plugin on a node of its own is what a check costs, and half of them do nothing else.
    """
    groups: dict[str, list[Play]] = {}
    for play in plays:
        groups.setdefault(_beginning(play.job.story.scenario), []).append(play)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups.values()]


def _beginning(scenario: Scenario) -> str:
    """All that a story does until it looks for the last time; looks change nothing."""
    last = scenario.steps[-1]
    steps = scenario.steps if last.expect is None else scenario.steps[:-1]
    played = {"kubernetes", "versions", "nodes", "plugins", "steps"}
    return scenario.model_copy(update={"steps": steps}).model_dump_json(include=played)


def _joined(group: Sequence[Play]) -> Play:
    story = group[0].job.story
    looks = [play.job.story.scenario.steps[-1] for play in group]
    scenario = story.scenario.model_copy(update={"steps": (*story.scenario.steps[:-1], *looks)})
    job = replace(group[0].job, story=replace(story, scenario=scenario))
    return Play(job, tuple(check for play in group for check in play.checks))


async def _play_each(plays: Sequence[Play], count: int, watch: _Watch) -> None:
    watch.plays.update({play.job: play for play in plays})
    together = [play.job for play in plays if not _needs_the_machine(play.job)]
    await play_all(together, count, watch)
    await play_all([play.job for play in plays if play.job not in together], 1, watch)


def _needs_the_machine(job: Job) -> bool:
    """Whether it runs a program outside its node, which other nodes would notice."""
    return any(isinstance(step.action, RunCommand) for step in job.story.scenario.steps)


@dataclass(frozen=True, slots=True)
class _Watch:
    """Makes results of stories that have ended; see `job.Watch`.

    Attributes:
        plays: Those that there are, by their jobs.
        unanswered: Checks of a play of several that did not come true.
    """

    subject: Subject
    on_result: OnResult
    plays: dict[Job, Play] = field(default_factory=dict)
    unanswered: list[Check] = field(default_factory=list)

    def began(self, job: Job) -> None:
        """Nothing is shown of it."""

    def stepped(self, job: Job, title: str) -> None:
        """Nothing is shown of it."""

    def ended(self, job: Job, played: Played) -> None:
        """Checks have their results, but for those that were interrupted."""
        checks, outcome = self.plays[job].checks, played.verdict.outcome
        if outcome is Outcome.ENDED:
            return
        if len(checks) > 1 and outcome is not Outcome.VALID:
            self.unanswered.extend(checks)
            return
        share_s = played.verdict.duration_s / len(checks)
        for check in checks:
            verdict = replace(
                played.verdict,
                scenario=check.document.scenario.name,
                path=check.path,
                duration_s=share_s,
                repeat=self.subject.command_for(check),
            )
            self.on_result(Result(check, _status(outcome, check), verdict, played.events))


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
