"""The stories of a run: each is played as a task in a world of its own, several at a time in this process.

A world shares nothing with the others but the event loop: its node time, folders and processes are its own. The plugins
are what takes the cores, as processes of their own, so one loop drives about ten stories before it holds them up.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from simkubelet.host import raise_limit
from simkubelet.model.errors import InputError

from ..backends.backend import Backend
from ..evaluation.verdict import Outcome, Verdict
from ..story.crosscheck import is_supported, unknown, unsupported
from ..story.document import NO_SETTINGS, Document, DocumentError, installed, load
from ..story.parameters import check_settings
from ..story.part import ParameterValue, format_duration
from ..story.stories import name_of
from ..trace.trace import Entry
from .runner import Afterwards, AtFailure, Progress, no_look, nothing, play

_FOR_EACH_CORE: Final = 8
_MOST_AT_A_TIME: Final = 16


class BackendName(StrEnum):
    """Where a story can be played."""

    SIM = "sim"
    KIND = "kind"
    JOIN = "join"
    """On simulated nodes that join another cluster."""
    BOTH = "both"
    """On the simulator, then on a cluster; and the two traces are compared."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a run's stories are played.

    Attributes:
        kubernetes: The version of every node instead of the stories' own.
        plugin_commands: Plugin name -> argv to run instead of what a story says.
        settings: Name -> value of the stories' parameters, as text or in the parameter's type.
        directory: Where node folders are made; a fresh temporary folder where it is None.
        keep: Whether the node folders, or the cluster, stay for a look afterwards.
        cluster: Of the backend ``kind``: the cluster's name.
        node_image: Of the backend ``kind``: the image of the nodes, kind's default where it is None.
        kubeconfig: Of the backend ``join``: the cluster's. With ``both`` it chooses this backend.
        repeat: How often each story is played.
        timeout_s: Real time that a story has for its steps; None for as long as they take.
        at_failure: Given the world of each story that fails before it is left.
        stops_at_failure: Whether the run ends with the first story that neither passes nor is skipped.
        compare: Of the backend ``sim``: a written trace, or a folder of these, to compare with.
        recorded: Given the name of a story and each entry of its trace as it is recorded; None for nobody.
    """

    backend: BackendName = BackendName.SIM
    kubernetes: str | None = None
    plugin_commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, ParameterValue] = field(default_factory=dict)
    directory: Path | None = None
    keep: bool = False
    cluster: str = "simkubelet"
    node_image: str | None = None
    kubeconfig: Path | None = None
    repeat: int = 1
    timeout_s: float | None = None
    at_failure: AtFailure = no_look
    stops_at_failure: bool = False
    compare: Path | None = None
    recorded: Callable[[str, Entry], None] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One story of a run as its file says it, on one version where the run or the story names some."""

    story: Document
    options: Options
    kubernetes: str | None = None
    round: int = 1

    @property
    def name(self) -> str:
        """The story's name, with its version where it names several, and its round, such as 2/3, of several."""
        name, of_several = self.story.scenario.name, self.kubernetes is not None and self.options.kubernetes is None
        name = f"{name} on {self.kubernetes}" if of_several else name
        return f"{name} {self._round}" if self._round else name

    @property
    def _round(self) -> str:
        return f"{self.round}/{self.options.repeat}" if self.options.repeat > 1 else ""

    @property
    def document(self) -> Document:
        """The story on the job's version."""
        if self.kubernetes is None:
            return self.story
        return replace(self.story, scenario=self.story.scenario.on_kubernetes(self.kubernetes))

    def labelled(self, verdict: Verdict) -> Verdict:
        """A verdict with what its job says about it: name, file, versions, round, the command that repeats it."""
        versions = dict.fromkeys(node.kubernetes for node in self.document.scenario.nodes)
        return replace(
            verdict,
            scenario=self.name,
            path=self.story.path,
            kubernetes=", ".join(versions),
            round=self._round,
            repeat=shlex.join(self._command()),
        )

    def _command(self) -> Iterator[str]:
        """The words of the command that plays just this story again."""
        options, usual = self.options, Options()
        yield from ("simkubelet", "run", name_of(self.story.path))
        if self.kubernetes is not None and options.backend is BackendName.SIM:
            yield from ("--kubelet-version", self.kubernetes)
        if options.backend is not usual.backend:
            yield from ("--backend", options.backend)
        if options.cluster != usual.cluster:
            yield from ("--cluster", options.cluster)
        if options.node_image is not None:
            yield from ("--image", options.node_image)
        if options.kubeconfig is not None:
            yield from ("--kubeconfig", str(options.kubeconfig))
        if options.compare is not None:
            yield from ("--compare", str(options.compare))
        if options.timeout_s is not None:
            yield from ("--timeout", format_duration(options.timeout_s))
        for name, argv in options.plugin_commands.items():
            yield from ("--plugin", f"{name}={shlex.join(argv)}")
        for name, value in options.settings.items():
            yield from ("--set", f"{name}={value}")


@dataclass(frozen=True, slots=True)
class Played:
    """A story that was played: the answer and the whole record.

    Attributes:
        backend: Where it was played.
        other: The same story on the other backend, where it was played on both.
    """

    verdict: Verdict
    events: tuple[Entry, ...] = ()
    backend: BackendName = BackendName.SIM
    other: Played | None = None

    def recordings(self) -> dict[str, tuple[Entry, ...]]:
        """Name of the backend -> the whole record there; the simulator first."""
        both = (self,) if self.other is None else (self, self.other)
        return {
            one.backend.value: one.events for one in sorted(both, key=lambda one: one.backend is not BackendName.SIM)
        }


class StoryEnded(asyncio.CancelledError):
    """The run was ended while a story was played; `played` is what there is of it."""

    def __init__(self, played: Played) -> None:
        super().__init__()
        self.played = played


def at_a_time() -> int:
    """Return how many stories are played at a time by default; a story computes a third of its time."""
    return min(_FOR_EACH_CORE * len(os.sched_getaffinity(0)), _MOST_AT_A_TIME)


async def play_job(job: Job, progress: Progress, afterwards: Afterwards = nothing) -> Played:
    """Play one story in this process, which takes all open files that it may have; see `runner.play`."""
    raise_limit()
    return await play_in(_backend(job.document, job.options), job, progress, afterwards)


async def play_in(
    backend: Backend,
    job: Job,
    progress: Progress,
    afterwards: Afterwards = nothing,
    name: BackendName = BackendName.SIM,
) -> Played:
    """Play one story in a world that is not yet entered; `name` is that of its backend.

    Raises:
        StoryEnded: The run is ended.
    """
    began, step = time.monotonic(), "its start"
    if job.options.recorded is not None:
        backend.trace.follow(partial(job.options.recorded, job.name))

    def stepped(title: str) -> None:
        nonlocal step
        step = f"step '{title}'"
        progress(title)

    try:
        verdict = await play(job.document, backend, stepped, afterwards, job.options.timeout_s, job.options.at_failure)
    except asyncio.CancelledError as error:
        reason = f"the run was ended in {step}"
        verdict = Verdict(job.name, Outcome.ENDED, time.monotonic() - began, reason, kept=backend.kept)
        raise StoryEnded(Played(job.labelled(verdict), tuple(backend.trace), name)) from error
    return Played(job.labelled(replace(verdict, kept=backend.kept)), tuple(backend.trace), name)


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
        InputError: An option names a version, a plugin, a program or a folder that cannot be used.
    """
    documents = load_all(stories, options.settings)
    check_settings(options.settings, {name for one in documents for name in one.scenario.parameters})
    check(documents, options)
    return tuple(
        Job(document, options, version, number)
        for number in range(1, options.repeat + 1)
        for document in documents
        for version in _versions(document, options)
    )


def check(documents: Collection[Document], options: Options) -> None:
    """Check the options of a run, as far as that can be done before anything starts.

    Raises:
        InputError: One names a version, a plugin, a program or a folder that cannot be used.
    """
    if options.kubernetes is not None and not is_supported(options.kubernetes, installed().kubernetes):
        raise InputError(f"--kubelet-version: {unsupported(options.kubernetes, installed().kubernetes)}")
    _check_plugin_names(documents, options.plugin_commands)
    for document in documents:
        _check_programs(document, options.plugin_commands)
    if options.backend is not BackendName.KIND:
        from ..backends.world.node import check_base

        check_base(options.directory, {node.name for document in documents for node in document.scenario.nodes})


def _versions(document: Document, options: Options) -> Sequence[str | None]:
    if options.kubernetes is not None:
        return [options.kubernetes]
    # A cluster has one version, so a story is played on it once.
    several = document.scenario.versions if options.backend is BackendName.SIM else None
    return several or [None]


def load_all(stories: Sequence[Path], settings: Mapping[str, ParameterValue] = NO_SETTINGS) -> tuple[Document, ...]:
    """Read several files, with settings in place of the defaults of their parameters.

    Raises:
        DocumentError: With the problems of all files.
        InputError: A setting is of another type than its parameter.
    """
    documents: list[Document] = []
    lines: list[str] = []
    for story in stories:
        try:
            documents.append(load(story, settings=settings))
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
