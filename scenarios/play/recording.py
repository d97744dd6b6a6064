"""Written traces, read again: to be shown, or to stand for a cluster that nobody has at hand.

A run compares its stories with a recording as with a cluster: each goes on until it has recorded the same.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simkubelet.apis.documents import LARGEST_RECORD, read_file
from simkubelet.model.errors import InputError
from simkubelet.model.events import KubeletStarted
from simkubelet.model.version import version
from simkubelet.model.words import number_of

from ..evaluation.verdict import Outcome
from ..story.crosscheck import unknown
from ..story.model import Scenario
from ..trace.trace import Entry, read_lines
from .comparison import Comparison, explained
from .job import BackendName, Job, Played, play_job
from .runner import Progress

Recordings = Mapping[str, Sequence[Entry]]
"""Story -> its entries."""
_MOST_SHOWN: Final = 80
"""Characters of a line that is none of a trace."""


def read_trace(path: Path, names: Collection[str] = ()) -> dict[str, list[Entry]]:
    """Read a file that ``run --trace`` wrote: story -> its entries, in the order of the file.

    Args:
        path: The file.
        names: The stories to keep; all of them where it is empty.

    Raises:
        InputError: The file cannot be read, a line is none of a trace, or there is no story of a name.
    """
    stories: dict[str, list[Entry]] = {}
    try:
        with io.TextIOWrapper(io.BytesIO(read_file(path, LARGEST_RECORD)), encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                story, entry = _read(f"{path}:{number}", line)
                stories.setdefault(story, []).append(entry)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not stories:
        raise InputError(f"{path}: no trace: the file is empty; `simkubelet run --trace FILE` writes one")
    for name in names:
        if name not in stories:
            raise InputError(f"{path}: {unknown('story', name, stories)}")
    return {story: entries for story, entries in stories.items() if not names or story in names}


def _read(where: str, line: str) -> tuple[str, Entry]:
    try:
        return next(read_lines([line]))
    except ValueError:
        start = line.strip()[:_MOST_SHOWN]
        message = f"{where}: no line of a trace: {start or 'an empty line'}; `simkubelet run --trace FILE` writes them"
        raise InputError(message) from None


def read_recordings(path: Path) -> Recordings:
    """Read a file that ``run --trace`` wrote, or all such files (``*.jsonl``) of a folder and of those in it.

    Raises:
        InputError: One of them cannot be read, or there is none.
    """
    if not path.is_dir():
        return read_trace(path)
    recordings: dict[str, list[Entry]] = {}
    for file in sorted(path.rglob("*.jsonl")):
        recordings |= read_trace(file)
    if not recordings:
        raise InputError(f"{path}: no traces: there is no file *.jsonl; `simkubelet run --trace FILE` writes one")
    return recordings


def _fits(recording: Sequence[Entry], scenario: Scenario) -> bool:
    """Whether the kubelets of a recording are of the Kubernetes releases that a story is played on."""
    recorded = {entry.event.version for entry in recording if isinstance(entry.event, KubeletStarted)}
    played = {version(node.kubernetes).kubelet_version for node in scenario.nodes}
    return recorded == played


class Compared:
    """Plays the stories of a run on the simulator, each compared with its recording where there is one.

    Args:
        jobs: The stories.
        path: Where the recordings are.

    Raises:
        InputError: The recordings cannot be read, or none is of a job's story and of its Kubernetes release.
    """

    def __init__(self, jobs: Sequence[Job], path: Path) -> None:
        recordings = read_recordings(path)
        named = ((job, recordings.get(job.story.scenario.name)) for job in jobs)
        self._recordings = {job: entries for job, entries in named if entries and _fits(entries, job.document.scenario)}
        if not self._recordings:
            raise InputError(
                f"--compare: {path} has no story of this run on its Kubernetes release; record one with: "
                "simkubelet run STORY --backend both --trace FILE"
            )
        self.summary = f"compared {len(self._recordings)} of {number_of(len(jobs), 'story', 'stories')} with {path}"

    async def play(self, job: Job, progress: Progress) -> Played:
        """Play a story; where it passes but differs from its recording, it is invalid.

        Raises:
            StoryEnded: The run is ended.
        """
        if (recording := self._recordings.get(job)) is None:
            return await play_job(job, progress)
        scenario = job.document.scenario
        comparison = Comparison(scenario)
        played = await play_job(job, progress, comparison.simulate_on)
        if played.verdict.outcome is not Outcome.VALID:
            return played
        if (difference := comparison.difference_from(recording)) is not None:
            reason = f"compared with the recording, {explained(difference, scenario)}"
            verdict = replace(played.verdict, outcome=Outcome.INVALID, reason=reason, difference=difference.lines)
            played = replace(played, verdict=verdict)
        return replace(played, other=Played(played.verdict, tuple(recording), BackendName.KIND))
