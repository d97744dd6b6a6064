"""One story to play with the options of a run: plain data, so that it can travel to another process."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from simkubelet.errors import InputError
from simkubelet.open_files import raise_limit

from .backend import Backend
from .crosscheck import is_supported, unknown, unsupported
from .document import Document, DocumentError, installed, load
from .runner import Afterwards, Progress, nothing, play
from .trace import Event
from .verdict import Verdict


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
    """One story of a run, on one version where the run or the story names some."""

    story: Path
    options: Options
    kubernetes: str | None = None

    @property
    def name(self) -> str:
        """The story's name, with its version where it names several."""
        of_several = self.kubernetes is not None and self.options.kubernetes is None
        return f"{self.story.stem} on {self.kubernetes}" if of_several else self.story.stem

    def document(self) -> Document:
        """Read the story, on the job's version.

        Raises:
            DocumentError: The file is no story.
        """
        document = load(self.story)
        if self.kubernetes is None:
            return document
        return Document(document.path, document.scenario.on_kubernetes(self.kubernetes), document.source)


@dataclass(frozen=True, slots=True)
class Played:
    """A story that was played: the answer and the whole record."""

    verdict: Verdict
    events: tuple[Event, ...]


async def play_job(job: Job, progress: Progress, afterwards: Afterwards = nothing) -> Played:
    """Play one story in this process, which takes all open files that it may have; see `runner.play`.

    Raises:
        InputError: What the user gave cannot be used.
    """
    raise_limit()
    document = job.document()
    return await play_in(_backend(document, job.options), document, job, progress, afterwards)


async def play_in(
    backend: Backend, document: Document, job: Job, progress: Progress, afterwards: Afterwards = nothing
) -> Played:
    """Play one story in a world that is not yet entered.

    Raises:
        InputError: What the user gave cannot be used.
    """
    verdict = await play(document, backend, progress, afterwards)
    return Played(replace(verdict, scenario=job.name, kept=backend.kept), tuple(backend.trace))


def _backend(document: Document, options: Options) -> Backend:
    from .backends.sim import SimBackend

    return SimBackend(
        document.scenario,
        directory=options.directory,
        keep=options.keep,
        plugin_commands=options.plugin_commands,
    )


def prepare(stories: Sequence[Path], options: Options) -> tuple[Job, ...]:
    """Check all that can be known before anything starts.

    Raises:
        DocumentError: Some files are no stories; the problems of all of them are told together.
        InputError: An option names a version, a plugin or a program that does not exist.
    """
    documents = load_all(stories)
    if options.kubernetes is not None and not is_supported(options.kubernetes, installed().kubernetes):
        raise InputError(f"--kubelet-version: {unsupported(options.kubernetes, installed().kubernetes)}")
    _check_plugin_names(documents, options.plugin_commands)
    for document in documents:
        _check_programs(document, options.plugin_commands)
    return tuple(
        Job(document.path, options, version) for document in documents for version in _versions(document, options)
    )


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
        command = replacement or plugin.command
        if command and shutil.which(command[0]) is None:
            where = "--plugin" if replacement else document.location("plugins", index, "command")
            raise InputError(
                f"{where}: plugin '{plugin.name}': no program '{command[0]}'; give its path or put its folder on PATH"
            )
