"""A story's file: its scenario, and where everything in it stands.

All that is wrong with a file is found in one go, and reported with one line each: ``FILE:LINE:COLUMN: path: message``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from simkubelet.model.errors import InputError

from .complaints import complaints
from .crosscheck import Known, crosscheck
from .model import Scenario
from .positioned import DataPath, Position, Positioned, Problem, read_yaml


class DocumentError(InputError):
    """A story's file cannot be used; `lines` has one line per problem, in the order of the file."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Document:
    """A story as it was read from `path`."""

    path: Path
    scenario: Scenario
    source: Positioned

    def location(self, *path: str | int) -> str:
        """``FILE:LINE`` of a key, or of the nearest thing above it that the file has."""
        return f"{self.path}:{self.source.of_key(path).line}"


def load(path: Path, known: Known | None = None) -> Document:
    """Read a story from a file and check all that can be known before it is played.

    Args:
        path: A YAML file.
        known: The names to check against; those of the installed parts where it is left out.

    Raises:
        DocumentError: The file cannot be read, is no YAML, or is no story.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DocumentError([f"{path}: cannot be read: {error.strerror}"]) from error
    source = read_yaml(text)
    if source.problems:
        _refuse(path, source.problems)
    try:
        scenario = Scenario.model_validate(source.data)
    except ValidationError as error:
        _refuse(path, complaints(error.errors(include_url=False), Scenario, source))
    findings = crosscheck(scenario, path.stem, known or installed())
    if problems := [Problem(source.of_value(where), where, message) for where, message in findings]:
        _refuse(path, problems)
    return Document(path, scenario, source)


def installed() -> Known:
    """The names that the installed parts have."""
    from fakegpu import profile_names
    from simkubelet.model.version import FEATURE_GATES, SUPPORTED

    return Known(kubernetes=tuple(SUPPORTED), profiles=profile_names(), feature_gates=FEATURE_GATES)


def _refuse(path: Path, problems: Iterable[Problem]) -> NoReturn:
    ordered = sorted(problems, key=lambda problem: problem.position)
    raise DocumentError(_line(path, problem) for problem in ordered)


def _line(path: Path, problem: Problem) -> str:
    position: Position = problem.position
    where = f"{shown_path(problem.path)}: " if problem.path else ""
    return f"{path}:{position.line}:{position.column}: {where}{problem.message}"


def shown_path(path: DataPath) -> str:
    """A path as people write it: ``steps[2].expect.capacity[nvidia.com/gpu]``."""
    text = ""
    for part in path:
        is_plain = isinstance(part, str) and part.isidentifier()
        text += f".{part}" if is_plain and text else f"{part}" if is_plain else f"[{part}]"
    return text
