"""Stories as tests: the jobs of a file, and how one is played to a verdict and to the lines that a failure prints."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from simkubelet.host import printable
from simkubelet.model.errors import InputError

from ..backends.world.folders import own_folder
from ..evaluation.verdict import Outcome, Verdict
from ..play.failure import failure_lines
from ..play.job import Job, Options, play_job, prepare
from ..story.crosscheck import is_supported, unknown, unsupported
from ..story.document import installed, load
from ..story.stories import ENDINGS, find
from ..trace.trace import Entry
from .blocking import running

__all__ = ["Job", "PlayedStory", "find_file", "jobs", "play", "plugin_commands", "replacements"]

_Command = str | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class PlayedStory:
    """A story that was played.

    Attributes:
        verdict: The answer.
        trace: All that happened.
        report: What there is to know about a story that failed; else the reason why it was skipped, or nothing.
    """

    verdict: Verdict
    trace: tuple[Entry, ...]
    report: str

    @property
    def has_passed(self) -> bool:
        """Whether every expectation came true."""
        return self.verdict.outcome is Outcome.VALID

    @property
    def is_skipped(self) -> bool:
        """Whether it is about other versions, or this machine cannot play it."""
        return self.verdict.outcome is Outcome.SKIPPED


def plugin_commands(texts: Iterable[str], folder: Path) -> Mapping[str, tuple[str, ...]]:
    """Read plugins given as ``NAME=COMMAND``.

    Args:
        texts: As a user writes them.
        folder: Where a program lies whose path is relative.

    Returns:
        Name -> argv.

    Raises:
        InputError: One has another form, or its program does not exist.
    """
    commands = {}
    for text in texts:
        name, separator, command = text.partition("=")
        argv = _split(f"'{text}'", command)
        if not (name and separator and argv):
            raise InputError(f"'{text}' is not of the form NAME=COMMAND, for example 'mine=./my-plugin --flag'")
        if "/" in argv[0]:
            argv[0] = str(folder / argv[0])
        _check_program(text, argv)
        commands[name.strip()] = tuple(argv)
    return commands


def jobs(path: Path, commands: Mapping[str, tuple[str, ...]], kubernetes: str | None) -> tuple[Job, ...]:
    """Read a story's file; one job for each version on which the story is played.

    Args:
        path: The file.
        commands: Plugin -> argv to run in its place; those of plugins that the story does not have say nothing.
        kubernetes: The version of every node instead of the story's own.

    Raises:
        InputError: The file is no story, or there is no such version or program.
    """
    if kubernetes is not None and not isinstance(kubernetes, str):
        raise InputError(f"kubernetes: {kubernetes!r} is no text; write it in quotes")
    if kubernetes is not None and not is_supported(kubernetes, installed().kubernetes):
        raise InputError(unsupported(kubernetes, installed().kubernetes))
    names = {plugin.name for plugin in load(path).scenario.plugins}
    own = {name: argv for name, argv in commands.items() if name in names}
    return prepare([path], Options(kubernetes=kubernetes, plugin_commands=own))


def find_file(name: str | os.PathLike[str], folder: Path) -> Path:
    """Return the file of a story: one below a folder, or a bundled story by its name.

    Raises:
        InputError: There is no such story.
    """
    try:
        text = os.fsdecode(os.fsencode(name))
    except (TypeError, ValueError):
        text = ""
    if not text or "\0" in text:
        raise InputError(f"expected the name or the file of a story; found {name!r}")
    path = folder / text
    if path.is_file() or path.suffix in ENDINGS:
        return path
    found = find([text])
    if len(found) > 1:
        raise InputError(f"'{name}' names {len(found)} stories; name one of them")
    return found[0]


def replacements(path: Path, plugin: _Command | Mapping[str, _Command] | None) -> Mapping[str, tuple[str, ...]]:
    """Return plugin of a story -> argv to run in its place.

    Args:
        path: The story's file.
        plugin: One command, as a list or as a shell would read it, for the only plugin; or name -> command.

    Raises:
        InputError: The file is no story; the story has no such plugin, or several where none is named.
    """
    if plugin is None:
        return {}
    names = [spec.name for spec in load(path).scenario.plugins]
    if not isinstance(plugin, Mapping):
        if len(names) != 1:
            raise InputError(f"{path}: the story has {len(names)} plugins; name one: plugin={{'NAME': COMMAND}}")
        plugin = {names[0]: plugin}
    for name in plugin:
        if name not in names:
            raise InputError(f"{path}: {unknown('plugin', str(name), names)}")
    commands = {}
    for name, command in plugin.items():
        what = f"plugin '{name}'"
        if not isinstance(command, str | Sequence):
            raise InputError(f"{what}: expected a command; found {command!r}")
        commands[name] = tuple(_split(what, command) if isinstance(command, str) else map(str, command))
        _check_program(what, commands[name])
    return commands


def play(job: Job) -> PlayedStory:
    """Play a story; returns when everything has been ended and removed."""
    with _own_log(), own_folder(None) as folder, running() as loop:
        here = replace(job, options=replace(job.options, directory=folder))
        played = loop.run(play_job(here, lambda title: None))
        verdict = _away_from(played.verdict, folder)
    lines = failure_lines(verdict) or ((verdict.reason, *verdict.remedies) if verdict.reason else ())
    return PlayedStory(verdict, played.events, printable("\n".join(lines)))


def _away_from(verdict: Verdict, folder: Path) -> Verdict:
    """A verdict whose logs are named as below a folder that is removed; their ends are in it."""
    ends = {
        Path(*log.relative_to(folder).parts[1:]): lines
        for log, lines in verdict.log_ends.items()
        if log.parent.name == "plugins"
    }
    return replace(verdict, logs=tuple(ends), log_ends=ends)


def _split(what: str, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from None


def _check_program(what: str, argv: Sequence[str]) -> None:
    if not argv or shutil.which(argv[0]) is None:
        program = f"no program '{argv[0]}'" if argv else "no program is named"
        raise InputError(f"{what}: {program}; give its path or put its folder on PATH")


@contextmanager
def _own_log() -> Iterator[None]:
    """Keep what kubelets log in their nodes' files, out of the report of the test."""
    logger = logging.getLogger("simkubelet")
    was, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.propagate = was
