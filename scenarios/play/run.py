"""``simkubelet run`` behind its options: stories in, verdicts and files out, an exit status."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from simkubelet.host import one_line
from simkubelet.model.errors import HostError, InputError, SimkubeletError
from simkubelet.model.words import number_of

from ..evaluation.verdict import Outcome, Verdict, exit_status
from ..report.written import JUNIT, TRACE, is_read_once, open_output, written_for
from ..story.specs import Runtime
from ..story.stories import first_sentence
from ..trace.trace import write_lines
from .console import Screen, console, workspace
from .interruption import run_interruptibly
from .job import BackendName, Job, Options, Played, at_a_time, play_job, prepare
from .junit import junit_xml
from .runner import no_look
from .watch import Play, play_all

if TYPE_CHECKING:
    from ..report.live_view import LiveView


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that a run writes besides what it prints; None means not to."""

    junit: Path | None = None
    trace: Path | None = None
    report: Path | None = None
    """The folder of a report."""

    def write_first(self, played: Sequence[Played], summaries: Mapping[str, str]) -> None:
        """Write before anything starts what `write` replaces; see there."""
        junit, trace = (None if path is None or is_read_once(path) else path for path in (self.junit, self.trace))
        replace(self, junit=junit, trace=trace).write(played, summaries, 0.0)

    def write(self, played: Sequence[Played], summaries: Mapping[str, str], wall_s: float) -> None:
        """Write each file, in place of what it had; folders that are missing are made.

        Args:
            played: The stories of the run, in order.
            summaries: Name of a story -> what it is about, in a sentence.
            wall_s: How long the run took until now.

        Raises:
            InputError: One cannot be written, or is there and of another kind.
            HostError: The disk is full.
        """
        if self.junit is not None:
            with written_for("--junit", self.junit), open_output(self.junit, JUNIT) as file:
                file.write(junit_xml([one.verdict for one in played]))
        if self.trace is not None:
            with (
                written_for("--trace", self.trace),
                io.TextIOWrapper(open_output(self.trace, TRACE), encoding="utf-8") as stream,
            ):
                for one in played:
                    write_lines(one.events, stream, one.verdict.scenario)
        if self.report is not None:
            from ..report.page import Reported, write_report

            reported = [
                Reported(one.verdict, summaries.get(one.verdict.scenario, ""), one.recordings()) for one in played
            ]
            with written_for("--report", self.report):
                write_report(self.report, reported, wall_s)


class Results:
    """What has become of each story of a run, at any moment; collected as a `Watch`, and shown on a screen.

    Args:
        jobs: The stories of the run.
        screen: Shows what happens.
    """

    def __init__(self, jobs: Sequence[Job], screen: Screen) -> None:
        self._jobs = jobs
        self._screen = screen
        self._played: dict[Job, Played] = {}
        self.has_begun = False

    @property
    def played(self) -> tuple[Played, ...]:
        """What there is of each story, in the order of the jobs."""
        return tuple(self._played.get(job) or Played(unplayed(job)) for job in self._jobs)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The same, the answers alone."""
        return tuple(one.verdict for one in self.played)

    def began(self, job: Job) -> None:
        """See `Watch`."""
        self.has_begun = True
        self._screen.began(job.name)

    def stepped(self, job: Job, title: str) -> None:
        """See `Watch`."""
        self._screen.stepped(job.name, title)

    def ended(self, job: Job, played: Played) -> None:
        """See `Watch`."""
        self._played[job] = played
        self._screen.ended(played.verdict)


def unplayed(job: Job) -> Verdict:
    """The verdict of a story that has not begun."""
    return job.labelled(Verdict(job.name, Outcome.UNPLAYED, 0.0, "the run ended before the story began"))


def run(
    stories: Sequence[Path],
    options: Options,
    count: int | None,
    outputs: Outputs,
    *,
    is_quiet: bool = False,
    is_watched: bool = False,
    forbids_skips: bool = False,
    hint: str = "",
) -> int:
    """Play stories and report on them.

    Args:
        stories: Their files.
        options: How each is played.
        count: How many at a time; as many as are good for this machine where it is None.
        outputs: What is written besides.
        is_quiet: Whether only failures and the totals are printed.
        is_watched: Whether the timeline of each story is shown as it is played.
        forbids_skips: Whether a skipped story makes the run fail.
        hint: The last line of the report.

    Returns:
        The exit status of the run.

    Raises:
        InputError: What the user gave cannot be used; nothing is left behind.
        Interrupted: The user ended the run; what was done has been reported, nothing is left behind.
        HostError: The machine failed, and with it the cluster that stories are played on.
    """
    is_live = options.at_failure is no_look
    view = _view(is_drawn=is_live) if is_watched else None
    jobs = prepare(stories, options if view is None else replace(options, recorded=view.take))
    play: Play = play_job
    if options.compare is not None:
        # Only a comparison needs the normal form of traces.
        from .recording import Compared

        compared = Compared(jobs, options.compare)
        play, hint = compared.play, "\n".join(filter(None, (one_line(compared.summary), hint)))
    summaries = {job.name: first_sentence(job.story.scenario.description) for job in jobs}
    began = time.monotonic()
    # Before anything starts: the files are there whatever ends the run, and a wrong path is found.
    outputs.write_first([Played(unplayed(job)) for job in jobs], summaries)
    if options.backend in {BackendName.SIM, BackendName.JOIN} and (line := _shared(jobs)):
        print(f"warning: {one_line(line)}", file=sys.stderr, flush=True)
    with Screen(summaries, len(jobs), is_quiet=is_quiet, is_live=is_live, workspace=workspace(), view=view) as screen:
        results = Results(jobs, screen)
        failure: SimkubeletError | None = None
        try:
            run_interruptibly(_play(jobs, options, count, results, play))
        except SimkubeletError as error:
            if not results.has_begun:
                raise
            failure = error
    # The files first: what is printed may take as long as somebody reads.
    try:
        outputs.write(results.played, summaries, time.monotonic() - began)
    except SimkubeletError as error:
        failure = failure or error
    skipped = [one for one in results.verdicts if one.outcome is Outcome.SKIPPED] if forbids_skips else []
    if skipped:
        hint = "\n".join(filter(None, (_forbidden(skipped), hint)))
    screen.summarize(results.verdicts, time.monotonic() - began, hint)
    if failure is not None:
        raise failure
    return exit_status(results.verdicts) or (exit_status([Verdict("", Outcome.INVALID, 0.0)]) if skipped else 0)


def _forbidden(skipped: Sequence[Verdict]) -> str:
    """The skipped stories of a run that may skip none, each with the reason."""
    width = max(len(one.scenario) for one in skipped)
    lines = (one_line(f"  {one.scenario:<{width}}  {one.reason}") for one in skipped)
    return "\n".join((f"--no-skips forbids the {number_of(len(skipped), 'skipped story', 'skipped stories')}:", *lines))


def _shared(jobs: Sequence[Job]) -> str:
    """What does not separate the containers of stories; nothing where all does, or where no container runs."""
    if not any(node.runtime is Runtime.PROCESS for job in jobs for node in job.story.scenario.nodes):
        return ""
    # Most runs have none.
    from simkubelet.runtime import check_containers

    try:
        return check_containers()
    except HostError:
        # These stories are skipped, with the reason.
        return ""


def _view(*, is_drawn: bool) -> LiveView:
    # Most runs show none.
    from ..report.live_view import LiveView

    return LiveView(console(), is_drawn=is_drawn)


async def _play(jobs: Sequence[Job], options: Options, count: int | None, results: Results, play: Play) -> None:
    if options.backend is BackendName.SIM:
        return await play_all(jobs, count or at_a_time(), results, play)
    from .on_cluster import play_on_cluster

    if count is not None and count > 1:
        raise InputError("-n: a cluster takes one story at a time; leave -n out, or use --backend sim")
    return await play_on_cluster(jobs, options, results)
