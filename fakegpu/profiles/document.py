"""YAML documents with figures: exact keys and types, and sections whose figures name the documents they come from.

Profiles and recordings are such documents. A mistake is reported with file and line.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from ..errors import InputError

SUFFIX: Final = ".yaml"
_LARGEST_FILE: Final = 64 << 20
_MOST_LEVELS: Final = 32
_LONGEST_QUOTED: Final = 60
_KEY: Final = re.compile(r"([\w.]+): (.*)")
_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_NO_TEXT: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int"))
_YAML_1_2: Final = re.compile(
    r"[-+]?(?:0|[1-9][0-9]*|[0-9]*\.[0-9]*)(?:e[-+][0-9]+)?|0x[0-9a-f]+|[-+]?\.(?:inf|nan)|true|false", re.IGNORECASE
)
"""Those of PyYAML's numbers and booleans that YAML 1.2 reads the same: not 1:30, 017, 1_000, 0b11 and yes.

Source: yaml/resolver.py (PyYAML 6.0.2); YAML 1.2.2, 10.3.2.
"""
LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML in C where there is that: ten times as fast."""
DUMPER: Final = type(
    "Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {"ignore_aliases": lambda dumper, data: True}
)
"""The same; it writes equal parts twice, as a reader takes no aliases."""

_Model = TypeVar("_Model", bound=BaseModel)


class Part(BaseModel):
    """Base of everything in a document: camelCase keys, no others, exact types."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, strict=True, defer_build=True
    )


class Section(Part):
    """One group of figures with where they come from."""

    source: str | Mapping[str, Sequence[str]] = Field(description="key of `sources`, or which key each figure has")

    def figures(self) -> set[str]:
        """Keys, as in YAML, of the figures that this section gives."""
        given = ((name, field.alias or name) for name, field in type(self).model_fields.items() if name != "source")
        return {key for name, key in given if name in self.model_fields_set and getattr(self, name) is not None}


class Sourced(Part):
    """Sections of figures, and the documents that these come from."""

    description: str
    sources: Mapping[str, str] = Field(min_length=1, description="documents that the figures come from, by short name")

    def sections(self) -> Iterator[tuple[str, Section]]:
        """Key and value of every section."""
        for key in type(self).model_fields:
            value: Any = getattr(self, key)
            if isinstance(value, Section):
                yield key, value

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        for key, section in self.sections():
            if complaint := _source_complaint(section, self.sources):
                raise ValueError(f"{key}.source: {complaint}")
        return self


def _source_complaint(section: Section, documents: Mapping[str, str]) -> str | None:
    named = {section.source: section.figures()} if isinstance(section.source, str) else section.source
    if unknown := sorted(set(named) - set(documents)):
        return f"no '{unknown[0]}' under sources"
    listed = [figure for figures in named.values() for figure in figures]
    if missing := sorted(section.figures() - set(listed)):
        return f"names no document for {missing[0]}"
    if wrong := next(
        (figure for figure in listed if figure not in section.figures() or listed.count(figure) > 1), None
    ):
        return f"{wrong} is no figure of this section, or is named twice"
    return None


def is_file_name(name: str) -> bool:
    """Return whether ``name`` means a file: it ends in ``.yaml`` or ``.yml``, or has a slash."""
    return "/" in name or name.endswith((SUFFIX, ".yml"))


def read_document(name: str) -> str:
    """Return the text of a file.

    Raises:
        InputError: the file cannot be read, or is too large.
    """
    path = Path(name)
    try:
        with BufferedReader(FileIO(path, opener=lambda file, flags: os.open(file, flags | os.O_NONBLOCK))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path}: not a regular file")
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len(content) > _LARGEST_FILE:
        raise InputError(f"{path}: it is larger than {_LARGEST_FILE >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None


def parse_as(model: type[_Model], text: str, where: str) -> _Model:
    """Read YAML as ``model``.

    Args:
        model: Class of the document.
        text: The YAML.
        where: Name of the file, for the message.

    Raises:
        InputError: a key is unknown or missing, a value has the wrong type or is impossible, or a figure has no
            source; names the first such place by file and line.
    """
    try:
        _check_events(text, where)
        content = yaml.load(text, Loader=LOADER)  # noqa: S506 - one of the safe loaders
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        path: list[Any] = list(first["loc"])
        if not path and (named := _KEY.match(message)):
            path, message = named[1].split("."), named[2]
        key = f"{'.'.join(map(str, path))}: " if path else ""
        raise InputError(f"{where}:{line_of(text, path)}: {key}{message}") from None


def _check_events(text: str, where: str) -> None:
    """Refuse what would make a short text too deep or too large for its readers, or another figure than it shows.

    Raises:
        InputError: it has too many levels, aliases, or a value that only YAML 1.1 takes for a number or a boolean.
    """
    level = 0
    event: Any
    for event in yaml.parse(text, Loader=LOADER):
        level += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1
        if level > _MOST_LEVELS:
            raise InputError(f"{where}:{line}: not YAML: more than {_MOST_LEVELS} levels of lists and mappings")
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{where}:{line}: '*{event.anchor}' is an alias; write the value that it stands for")
        if isinstance(event, yaml.ScalarEvent) and _differs_in_yaml_1_1(event):
            why = "is another value in YAML 1.1 than in 1.2; write a decimal number, true or false, or put it in quotes"
            raise InputError(f"{where}:{line}: '{event.value[:_LONGEST_QUOTED]}' {why}")


def _differs_in_yaml_1_1(scalar: yaml.ScalarEvent) -> bool:
    is_text = scalar.implicit[1] or not (scalar.implicit[0] or scalar.tag in _NO_TEXT)
    if is_text or _YAML_1_2.fullmatch(scalar.value):
        return False
    return _RESOLVER.resolve(yaml.ScalarNode, scalar.value, (True, False)) in _NO_TEXT


def line_of(text: str, path: Sequence[str | int]) -> int:
    """Return the line, from 1, of the innermost part of ``path`` that the YAML has."""
    node = yaml.compose(text, Loader=LOADER)
    line = 1
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return int(line)
