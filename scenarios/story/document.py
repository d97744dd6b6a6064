"""A story's file: its scenario, and the line and column of everything in it.

All that is wrong with a file is found in one go, and reported with one line each: ``FILE:LINE:COLUMN: path: message``.

PyYAML's composed nodes carry the positions; its safe constructor makes the scalars. A key that a mapping has twice is
an error here, as it is for Kubernetes' strict decoding, because one of the two would be lost silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import yaml
from pydantic import ValidationError

from simkubelet.apis.documents import MOST_VALUES, BoundsError, compose_yaml, read_file
from simkubelet.model.errors import InputError
from simkubelet.model.words import number_of

from .complaints import Complaint, complaints, manifest_complaints, object_complaints
from .crosscheck import Known, crosscheck
from .model import Scenario
from .parameters import fill
from .part import DataPath, ParameterValue, Part
from .verbs.file_action import AddStaticPod
from .verbs.pod_action import Apply, Create

P = TypeVar("P", bound=Part)

NO_SETTINGS: Final[Mapping[str, ParameterValue]] = {}
"""All parameters have their defaults."""


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


def load(path: Path, known: Known | None = None, settings: Mapping[str, ParameterValue] = NO_SETTINGS) -> Document:
    """Read a story from a file and check all that can be known before it is played.

    Args:
        path: A YAML file.
        known: The names to check against; those of the installed parts where it is left out.
        settings: Name -> value of parameters, in place of their defaults.

    Raises:
        DocumentError: The file cannot be read, is no YAML, or is no story.
        InputError: A setting is of another type than its parameter.
    """
    source = _with_parameters(_read(path), settings)
    scenario = _part(path, source, Scenario)
    findings = crosscheck(scenario, path.stem.removesuffix(".story"), known or installed())
    wrong = [*(Complaint(where, message) for where, message in findings), *_about_manifests(scenario)]
    if wrong:
        _refuse(path, (_located(complaint, source) for complaint in wrong))
    plugins = tuple(plugin.in_folder(path.parent) for plugin in scenario.plugins)
    return Document(path, scenario.model_copy(update={"plugins": plugins}), source)


def load_part(path: Path, model: type[P]) -> P:
    """Read a part of the story language from a file of its own.

    Raises:
        DocumentError: The file cannot be read, is no YAML, or is no such part.
    """
    return _part(path, _read(path), model)


def _read(path: Path) -> Positioned:
    try:
        return read_yaml(read_file(path))
    except OSError as error:
        raise DocumentError([f"{path}: cannot be read: {error.strerror}"]) from error


def _part(path: Path, source: Positioned, model: type[P]) -> P:
    if source.problems:
        _refuse(path, source.problems)
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        found = complaints(error.errors(include_url=False), model)
        _refuse(path, (_located(complaint, source) for complaint in found))


def _with_parameters(source: Positioned, settings: Mapping[str, ParameterValue]) -> Positioned:
    """The document with values in the place of its parameters, at the positions at which the file has these."""
    filled = fill(source.data, settings)
    if filled is None:
        return source
    origins = filled.origins.items()
    keys = {here: source.keys[origin] for here, origin in origins if origin in source.keys}
    values = {here: source.values[origin] for here, origin in origins if origin in source.values}
    problems = [
        _Problem((source.of_key if is_key else source.of_value)(path), path, message)
        for path, is_key, message in filled.findings
    ]
    return Positioned(filled.data, {**source.keys, **keys}, {**source.values, **values}, (*source.problems, *problems))


def installed() -> Known:
    """The names that the installed parts have."""
    from fakegpu import profile_names
    from simkubelet.model.version import FEATURE_GATES, SUPPORTED

    return Known(kubernetes=tuple(SUPPORTED), profiles=profile_names(), feature_gates=tuple(FEATURE_GATES))


def _about_manifests(scenario: Scenario) -> Iterator[Complaint]:
    for index, step in enumerate(scenario.steps):
        match step.action:
            case Create() as new:
                yield from object_complaints(new.manifest, ("steps", index, step.verb))
            case Apply() as pod:
                yield from manifest_complaints(pod.manifest, ("steps", index, step.verb))
            case AddStaticPod(manifest=pod):
                yield from manifest_complaints(pod.manifest, ("steps", index, step.verb, "manifest"))


def _located(complaint: Complaint, source: Positioned) -> _Problem:
    position = (source.of_key if complaint.is_about_key else source.of_value)(complaint.path)
    return _Problem(position, complaint.path, complaint.message)


def _refuse(path: Path, problems: Iterable[_Problem]) -> NoReturn:
    ordered = sorted(problems, key=lambda problem: problem.position)
    lines = [_line(path, problem) for problem in ordered[:_MOST_LINES]]
    if more := len(ordered) - len(lines):
        lines.append(f"{path}: {number_of(more, 'more problem')}")
    raise DocumentError(lines)


def _line(path: Path, problem: _Problem) -> str:
    position = problem.position
    where = f"{shown_path(problem.path)}: " if problem.path else ""
    return f"{path}:{position.line}:{position.column}: {where}{problem.message}"


def shown_path(path: DataPath) -> str:
    """A path as people write it: ``steps[2].expect.capacity[nvidia.com/gpu]``."""
    text = ""
    for part in path:
        is_plain = isinstance(part, str) and part.isidentifier()
        text += f".{part}" if is_plain and text else f"{part}" if is_plain else f"[{part}]"
    return text


class Position(NamedTuple):
    """A place in a file, counted from 1."""

    line: int
    column: int


class _Problem(NamedTuple):
    """What is wrong with a document, and where."""

    position: Position
    path: DataPath
    message: str


_START = Position(1, 1)
_MOST_LINES: Final = 100
_READ_TWICE: Final = 1 << 18
"""Bytes of a text that PyYAML's own parser, which takes ten times as long as libyaml, reads for its words."""


@dataclass(frozen=True, slots=True)
class Positioned:
    """Data with positions; `keys` has those of mapping keys, `values` those of everything."""

    data: Any = None
    keys: Mapping[DataPath, Position] = field(default_factory=dict)
    values: Mapping[DataPath, Position] = field(default_factory=dict)
    problems: tuple[_Problem, ...] = ()

    def of_value(self, path: DataPath) -> Position:
        """The position of a value, or of the nearest one above it that exists."""
        while path not in self.values and path:
            path = path[:-1]
        return self.values.get(path, _START)

    def of_key(self, path: DataPath) -> Position:
        """The position of a key, or of the nearest value above it that exists."""
        return self.keys.get(path) or self.of_value(path)


def read_yaml(text: bytes) -> Positioned:
    """Read one YAML document; what is wrong with its syntax is in `Positioned.problems`."""
    try:
        root = _compose(text)
        if root is None:
            return _broken(_START, "the file is empty; a story needs 'name', 'description' and 'steps'")
        return _Reader().read(root)
    except yaml.MarkedYAMLError as error:
        text_of_error = " ".join(filter(None, (error.context, error.problem)))
        return _broken(_of_mark(error.problem_mark or error.context_mark), text_of_error)
    except BoundsError as error:
        return _broken(_of_mark(error.mark), f"{error}; write it flatter, with fewer aliases, or as several stories")
    except (yaml.YAMLError, ValueError) as error:
        return _broken(_START, " ".join(str(error).split()))


def _compose(text: bytes) -> yaml.Node | None:
    """Compose with libyaml where PyYAML has it; what that refuses PyYAML's own parser reads for the words."""
    try:
        return compose_yaml(text, most=MOST_VALUES)
    except yaml.YAMLError:
        return compose_yaml(text, yaml.SafeLoader if len(text) <= _READ_TWICE else None, MOST_VALUES)


def _broken(position: Position, message: str) -> Positioned:
    return Positioned(problems=(_Problem(position, (), message),))


def _is_plain(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


class _Reader:
    """One walk over composed nodes."""

    def __init__(self) -> None:
        self._scalars = yaml.constructor.SafeConstructor()
        self._keys: dict[DataPath, Position] = {}
        self._values: dict[DataPath, Position] = {}
        self._problems: list[_Problem] = []

    def read(self, root: yaml.Node) -> Positioned:
        data = self._value(root, ())
        return Positioned(data, self._keys, self._values, tuple(self._problems))

    def _value(self, node: yaml.Node, path: DataPath) -> Any:
        self._values[path] = _position(node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)

    def _scalar(self, node: yaml.ScalarNode, path: DataPath) -> Any:
        try:
            value = self._scalars.construct_object(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            self._complain(node, path, f"'{node.value[:60]}' is no {node.tag.removeprefix('tag:yaml.org,2002:')}")
            return None
        if isinstance(value, str) and not _is_plain(value):
            self._complain(node, path, "text with a NUL or half a character, which no path or argument can have")
            return ""
        return value

    def _sequence(self, node: yaml.Node, path: DataPath) -> list[Any]:
        return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: DataPath) -> dict[str, Any]:
        self._find_repeated_keys(node, path)
        self._scalars.flatten_mapping(node)
        result = {}
        for key_node, value_node in node.value:
            if not (isinstance(key_node, yaml.ScalarNode) and key_node.tag == "tag:yaml.org,2002:str"):
                found = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a collection"
                self._complain(key_node, path, f"expected text as a key; put {found} in quotes")
                continue
            here = (*path, key_node.value)
            self._keys[here] = _position(key_node)
            result[key_node.value] = self._value(value_node, here)
        return result

    def _find_repeated_keys(self, node: yaml.MappingNode, path: DataPath) -> None:
        seen: dict[str, Position] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                first = seen[key.value]
                self._complain(key, (*path, key.value), f"key given twice; first in line {first.line}")
            seen.setdefault(key.value, _position(key))

    def _complain(self, node: yaml.Node, path: DataPath, message: str) -> None:
        self._problems.append(_Problem(_position(node), path, message))


def _position(node: yaml.Node) -> Position:
    return _of_mark(node.start_mark)


def _of_mark(mark: yaml.Mark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark else _START
