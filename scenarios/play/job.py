"""The stories of a run: each is played as a task in a world of its own, several at a time in this process.

A world shares nothing with the others but the event loop: its node time, folders and processes are its own. The plugins
are what takes the cores, as processes of their own, so one loop drives about ten stories before it holds them up.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from simkubelet.host import raise_limit
from simkubelet.model.errors import InputError

from ..backends.backend import Backend
from ..evaluation.verdict import Verdict, single_errors
from ..story.crosscheck import is_supported, unknown, unsupported
from ..story.document import Document, DocumentError, installed, load
from ..trace.trace import Entry
from .runner import Afterwards, Progress, nothing, play

_FOR_EACH_CORE: Final = 3
_MOST_AT_A_TIME: Final = 8

RunProgress = Callable[[str, str], None]
"""Called with a story's name and the title of its step."""


class BackendName(StrEnum):
    """Where a story can be played."""

    SIM = "sim"
    KIND = "kind"
    BOTH = "both"
    """On the simulator, then on a cluster; and the two traces are compared."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run's stories are played.

    Attributes:
        kubernetes: The version of every node instead of the stories' own.
        plugin_commands: Plugin name -> argv to run instead of what a story says.
        directory: Where node folders are made; a fresh temporary folder where it is None.
        keep: Whether the node folders, or the cluster, stay for a look afterwards.
        cluster: Of the backend ``kind``: the cluster's name.
        node_image: Of the backend ``kind``: the image of the nodes, kind's default where it is None.
    """

    backend: BackendName = BackendName.SIM
    kubernetes: str | None = None
    plugin_commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    directory: Path | None = None
    keep: bool = False
    cluster: str = "simkubelet"
    node_image: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One story of a run as its file says it, on one version where the run or the story names some."""

    story: Document
    options: Options
    kubernetes: str | None = None

    @property
    def name(self) -> str:
        """The story's name, with its version where it names several."""
        name, of_several = self.story.scenario.name, self.kubernetes is not None and self.options.kubernetes is None
        return f"{name} on {self.kubernetes}" if of_several else name

    @property
    def document(self) -> Document:
        """The story on the job's version."""
        if self.kubernetes is None:
            return self.story
        return replace(self.story, scenario=self.story.scenario.on_kubernetes(self.kubernetes))


@dataclass(frozen=True, slots=True)
class Played:
    """A story that was played: the answer and the whole record."""

    verdict: Verdict
    events: tuple[Entry, ...]


def at_a_time() -> int:
    """Return how many stories are played at a time by default; a story computes a third of its time."""
    return min(_FOR_EACH_CORE * len(os.sched_getaffinity(0)), _MOST_AT_A_TIME)


async def play_all(jobs: Sequence[Job], count: int, progress: RunProgress) -> tuple[Played, ...]:
    """Play stories; the results are in the order of the jobs, whichever ends first.

    Args:
        jobs: The stories.
        count: How many are played at a time.
        progress: Called for each step as it begins.

    Raises:
        InputError: What the user gave cannot be used; the other stories are ended first.
    """
    free = asyncio.Semaphore(count)

    async def played(job: Job) -> Played:
        async with free:
            return await play_job(job, progress_for(job, progress))

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(played(job)) for job in jobs]
    except BaseExceptionGroup as errors:
        # Not `except*`: Python 3.11.2 puts what is raised in it into a group again.
        raise next(single_errors(errors.subgroup(InputError) or errors)) from None
    return tuple(task.result() for task in tasks)


def progress_for(job: Job, progress: RunProgress) -> Progress:
    """The progress of one story of a run."""
    return lambda title: progress(job.name, title)


async def play_job(job: Job, progress: Progress, afterwards: Afterwards = nothing) -> Played:
    """Play one story in this process, which takes all open files that it may have; see `runner.play`.

    Raises:
        InputError: What the user gave cannot be used.
    """
    raise_limit()
    return await play_in(_backend(job.document, job.options), job, progress, afterwards)


async def play_in(backend: Backend, job: Job, progress: Progress, afterwards: Afterwards = nothing) -> Played:
    """Play one story in a world that is not yet entered.

    Raises:
        InputError: What the user gave cannot be used.
    """
    verdict = await play(job.document, backend, progress, afterwards)
    return Played(replace(verdict, scenario=job.name, kept=backend.kept), tuple(backend.trace))


def _backend(document: Document, options: Options) -> Backend:
    from ..backends.sim.backend import SimBackend

    return SimBackend(
        document.scenario,
        directory=options.directory,
        keep=options.keep,
        plugin_commands=options.plugin_commands,
    )


def prepare(stories: Sequence[Path], options: Options) -> tuple[Job, ...]:
    """Check all that can be known before anything starts.

    Raises:
        DocumentError: Some files are no stories; the error has the problems of all of them.
        InputError: An option names a version, a plugin or a program that does not exist.
    """
    documents = load_all(stories)
    check(documents, options)
    return tuple(Job(document, options, version) for document in documents for version in _versions(document, options))


def check(documents: Collection[Document], options: Options) -> None:
    """Check the options of a run, as far as that can be done before anything starts.

    Raises:
        InputError: One names a version, a plugin or a program that does not exist.
    """
    if options.kubernetes is not None and not is_supported(options.kubernetes, installed().kubernetes):
        raise InputError(f"--kubelet-version: {unsupported(options.kubernetes, installed().kubernetes)}")
    _check_plugin_names(documents, options.plugin_commands)
    for document in documents:
        _check_programs(document, options.plugin_commands)


def _versions(document: Document, options: Options) -> Sequence[str | None]:
    if options.kubernetes is not None:
        return [options.kubernetes]
    return document.scenario.versions or [None]


def load_all(stories: Sequence[Path]) -> tuple[Document, ...]:
    """Read several files.

    Raises:
        DocumentError: With the problems of all files.
    """
    documents: list[Document] = []
    lines: list[str] = []
    for story in stories:
        try:
            documents.append(load(story))
        except DocumentError as error:
            lines.extend(error.lines)
    if lines:
        raise DocumentError(lines)
    return tuple(documents)


def _check_plugin_names(documents: Collection[Document], plugin_commands: Mapping[str, tuple[str, ...]]) -> None:
    names = {plugin.name for document in documents for plugin in document.scenario.plugins}
    for name in plugin_commands:
        if name not in names:
            raise InputError(f"--plugin: {unknown('plugin', name, names)}; a story of this run must have it")


def _check_programs(document: Document, plugin_commands: Mapping[str, tuple[str, ...]]) -> None:
    for index, plugin in enumerate(document.scenario.plugins):
        replacement = plugin_commands.get(plugin.name)
        program = plugin.foreign_program(replacement)
        if program and shutil.which(program[0]) is None:
            given = (replacement or plugin.command or program)[0]
            where = "--plugin" if replacement else document.location("plugins", index, "command")
            raise InputError(f"{where}: plugin '{plugin.name}': {_why_not(given, Path(program[0]))}")


def _why_not(given: str, place: Path) -> str:
    """Why a program cannot be run."""
    if "/" not in given:
        return f"no program '{given}'; give its path or put its folder on PATH"
    if place.is_dir():
        return f"'{given}' is a folder; name a program in it"
    if place.is_file():
        return f"'{given}' is not executable; allow it with: chmod +x {place}"
    return f"no program '{given}'; there is no file {place.absolute()}"
