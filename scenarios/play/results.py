"""What has become of each story of a run, at any moment: the source of its files and of its exit status."""

from __future__ import annotations

from collections.abc import Sequence

from ..evaluation.verdict import Outcome, Verdict
from .console import Screen
from .job import Job, Played


class Results:
    """Collects what `play_all` notifies it of, and shows it; a `job.Watch`.

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
