"""``simkubelet conform`` behind its options: a plugin in, a verdict for each check out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from simkubelet.model.errors import HostError, PluginError, SimkubeletError

from ..evaluation.verdict import Failure, Outcome, Verdict
from ..play.job import Job, Options, Played, at_a_time, play_job
from ..play.runner import Progress
from ..play.watch import play_all
from ..story.check_spec import Severity
from ..story.model import Scenario
from ..story.verbs.node_action import RunCommand
from ..trace.trace import Entry
from .checks import Check, with_needed
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
    """The answer of one check: its verdict as a story, and all that happened.

    Attributes:
        cause: Of a skipped check: the id of the one that it needs and that has not passed.
    """

    check: Check
    status: Status
    verdict: Verdict
    events: tuple[Entry, ...] = ()
    cause: str = ""


OnResult = Callable[[Result], None]
"""Called with each result as it comes."""


async def conform(
    subject: Subject, checks: Sequence[Check], count: int | None, directory: Path | None, on_result: OnResult
) -> None:
    """Play checks with a plugin, several at a time; those with programs of this machine one by one, at the end.

    A check is played when those that it needs have passed, and skipped when one of them has not.

    Args:
        subject: The plugin, discovered.
        checks: To play, with those that they need.
        count: How many at a time; as many as are good for this machine where it is None.
        directory: Where nodes' folders are made.
        on_result: Gets each result as it comes.
    """
    options = Options(directory=directory)
    watch = _Watch(subject, on_result, {check.id: check for check in checks})
    plays: list[Play] = []
    for check in checks:
        if reason := subject.reason_to_skip(check.spec.needs):
            watch.answer(Result(check, Status.SKIPPED, Verdict(check.id, Outcome.SKIPPED, 0.0, reason)))
        else:
            plays.append(Play(Job(subject.in_check(check), options), (check,)))
    await _play_each(shared(plays), count or at_a_time(), watch)
    # What they share was not all well: each has an answer of its own.
    await _play_each([play for play in plays if play.checks[0] in watch.unanswered], count or at_a_time(), watch)


@dataclass(frozen=True, slots=True, eq=False)
class Play:
    """A story, and the checks that pass where it comes true; of a single one it is the whole answer."""

    job: Job
    checks: tuple[Check, ...]

    def outcomes(self, verdict: Verdict) -> Sequence[Outcome | None]:
        """What the verdict is for each check; None for those that it says nothing about.

        One that stops in what checks share is the verdict of each. Of looks in the end, the one that stopped it is of
        its check, and those before came true.
        """
        count = len(self.checks)
        if count == 1 or verdict.outcome in (Outcome.VALID, Outcome.SKIPPED):
            return [verdict.outcome] * count
        if verdict.outcome is not Outcome.INVALID or verdict.failure is None:
            return [None] * count
        looked = verdict.failure.number - 1 - (verdict.failure.total - count)
        if looked < 0:
            return [verdict.outcome] * count
        return [*[Outcome.VALID] * looked, verdict.outcome, *[None] * (count - looked - 1)]


def shared(plays: Iterable[Play]) -> list[Play]:
    """Plays of one check each as those of several, where they differ only in what they look at in the end.

    A start of the plugin on a node of its own is what a check costs, and half of them do nothing else. Checks that
    others wait for come first, each in a play of its own, and then those that look for some time.
    """
    plays = list(plays)
    needed = {one for play in plays for check in play.checks for one in check.spec.needs.passed}
    first = sorted(
        (play for play in plays if play.checks[0].id in needed or _looks_for_s(play)),
        key=lambda play: (play.checks[0].id not in needed, -_looks_for_s(play)),
    )
    groups: dict[tuple[object, ...], list[Play]] = {}
    for play in plays:
        if play not in first:
            groups.setdefault((_beginning(play.job.story.scenario), play.checks[0].spec.needs.passed), []).append(play)
    return [*first, *(group[0] if len(group) == 1 else _joined(group) for group in groups.values())]


def _looks_for_s(play: Play) -> float:
    """How long a story looks in the end, beyond what it waits for."""
    last = play.job.story.scenario.steps[-1].expect
    return 0.0 if last is None else last.holds


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
    together = [play for play in plays if not _needs_the_machine(play.job)]
    await _play_in_turn(together, count, watch)
    await _play_in_turn([play for play in plays if play not in together], 1, watch)


async def _play_in_turn(plays: Sequence[Play], count: int, watch: _Watch) -> None:
    """Play some at a time; each waits for the checks that it needs, and takes nobody's place meanwhile."""
    watch.begin(plays)
    places = asyncio.Semaphore(count)

    async def play(job: Job, progress: Progress) -> Played:
        if reason := await watch.reason_to_skip(job):
            return Played(Verdict(job.name, Outcome.SKIPPED, 0.0, reason))
        async with places:
            return await play_job(job, progress)

    await play_all([play.job for play in plays], len(plays), watch, play)


def _needs_the_machine(job: Job) -> bool:
    """Whether it runs a program outside its node, which other nodes would notice."""
    return any(isinstance(step.action, RunCommand) for step in job.story.scenario.steps)


_NOT_PASSED: Final = {Status.FAILED: "failed", Status.WARNING: "got a warning", Status.UNKNOWN: "is unknown"}


@dataclass(frozen=True, slots=True)
class _Watch:
    """Makes results of stories that have ended; see `job.Watch`.

    Attributes:
        checks: All of the run, by their ids.
        plays: Those that there are, by their jobs.
        results: Those that there are, by the ids of their checks.
        coming: Id -> set when the check has a result; of those that are under way.
        unanswered: Checks of a play of several that did not come true.
    """

    subject: Subject
    on_result: OnResult
    checks: Mapping[str, Check]
    plays: dict[Job, Play] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    coming: dict[str, asyncio.Event] = field(default_factory=dict)
    unanswered: list[Check] = field(default_factory=list)

    def begin(self, plays: Sequence[Play]) -> None:
        """These are under way from now on."""
        self.plays.update({play.job: play for play in plays})
        self.coming.update({check.id: asyncio.Event() for play in plays for check in play.checks})

    async def reason_to_skip(self, job: Job) -> str:
        """Why a job would measure nothing, empty where it does; waits for the checks that it needs."""
        check = self.plays[job].checks[0]
        for needed in with_needed(self.checks.values(), check.spec.needs.passed):
            if needed in self.coming:
                await self.coming[needed].wait()
        cause = self._cause(check)
        result = self.results.get(cause)
        return f"needs {cause}, which {_NOT_PASSED[result.status] if result else 'was not checked'}" if cause else ""

    def _cause(self, check: Check) -> str:
        """The check that this one needs and that has not passed, if any; that is not one which was skipped for it."""
        for needed in check.spec.needs.passed:
            result = self.results.get(needed)
            if result is None or result.status in _NOT_PASSED:
                return needed
            if result.status is Status.SKIPPED and (cause := result.cause or self._cause(result.check)):
                return cause
        return ""

    def began(self, job: Job) -> None:
        """Nothing is shown of it."""

    def stepped(self, job: Job, title: str) -> None:
        """Nothing is shown of it."""

    def ended(self, job: Job, played: Played) -> None:
        """Checks have their results, but for those that were interrupted."""
        verdict, play = played.verdict, self.plays[job]
        if verdict.outcome is Outcome.ENDED:
            return
        share_s = verdict.duration_s / len(play.checks)
        for check, outcome in zip(play.checks, play.outcomes(verdict), strict=True):
            if outcome is None:
                self.unanswered.append(check)
                continue
            own = replace(
                verdict if outcome is verdict.outcome else Verdict(check.id, outcome, share_s),
                scenario=check.id,
                path=check.path,
                duration_s=share_s,
                repeat=self.subject.command_for(check),
            )
            if own.failure is not None and len(play.checks) > 1:
                own = replace(own, failure=_in_its_story(own.failure, check))
            self.answer(Result(check, _status(outcome, check), own, played.events, self._cause(check)))

    def answer(self, result: Result) -> None:
        """This is the result of a check."""
        self.results[result.check.id] = result
        self.on_result(result)
        if coming := self.coming.get(result.check.id):
            coming.set()


def _in_its_story(failure: Failure, check: Check) -> Failure:
    """Where a play of several checks stopped, as the story of one of them has it."""
    total = len(check.document.scenario.steps)
    number = min(failure.number, total)
    path = failure.mismatches[0].path if failure.mismatches else ()
    place = ("steps", number - 1, *path) if number else ("plugins",)
    return replace(failure, location=check.document.location(*place), number=number, total=total)


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
