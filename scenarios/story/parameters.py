"""The parameters of a story: ``${NAME}`` in its texts, in place of which a run puts a value.

Only a story that declares `parameters` has any; in all others ``${…}`` is text like any other, as shells use it. What
is replaced keeps its place in the file, so that a message about it points at the line that the user wrote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simkubelet.apis.documents import LARGEST_FILE
from simkubelet.model.errors import InputError

from .crosscheck import unknown
from .model import PARAMETERS
from .part import DataPath, ParameterValue

_REFERENCE: Final = re.compile(r"(\$?)\$\{([^{}]*)\}")
_WORDS: Final = {"true": True, "false": False}
_TYPES: Final = {bool: "true or false", int: "a whole number", str: "text"}


@dataclass(slots=True)
class Filled:
    """A story's data with values in the place of its parameters.

    Attributes:
        data: As the model takes it.
        origins: Where each value is now -> where it is in the file.
        findings: What is wrong: the path in the file, whether it is about the key there, and the message.
    """

    data: Any
    origins: dict[DataPath, DataPath] = field(default_factory=dict)
    findings: list[tuple[DataPath, bool, str]] = field(default_factory=list)


def fill(data: Any, settings: Mapping[str, ParameterValue]) -> Filled | None:
    """Put values in the place of a story's parameters.

    Args:
        data: A document as it was read.
        settings: Name -> value in place of the default; those that the story does not declare are left out.

    Returns:
        None where the document declares no parameters.

    Raises:
        InputError: A setting is of another type than the default.
    """
    declared = data.get(PARAMETERS) if isinstance(data, Mapping) else None
    if not isinstance(declared, Mapping):
        return None
    defaults = {name: value for name, value in declared.items() if type(value) in _TYPES}
    given = {name: _as(value, settings[name], name) for name, value in defaults.items() if name in settings}
    walk = _Walk({**defaults, **given})
    filled = walk.filled
    filled.data = {key: walk.value(value, (key,), (key,)) for key, value in data.items() if key != PARAMETERS}
    filled.data[PARAMETERS] = {**declared, **given}
    return filled


def check_settings(settings: Collection[str], declared: Collection[str]) -> None:
    """Check that each setting is a parameter of some story.

    Raises:
        InputError: One is not.
    """
    for name in settings:
        if name not in declared:
            raise InputError(f"--set: {unknown('parameter', name, declared)}; a story of this run must declare it")


def _as(default: ParameterValue, value: ParameterValue, name: str) -> ParameterValue:
    """Return a value in the type of the default; text is how a command line gives each."""
    if isinstance(default, str):
        return str(value)
    if isinstance(value, str):
        is_number = not isinstance(default, bool) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII)
        value = int(value) if is_number else _WORDS.get(value, value)
    if type(value) is not type(default):
        raise InputError(f"--set {name}={value}: parameter '{name}' is {_TYPES[type(default)]}; found '{value}'")
    return value


class _Walk:
    """One walk over a document."""

    def __init__(self, values: Mapping[str, ParameterValue]) -> None:
        self._values = values
        self._left = LARGEST_FILE
        """Characters that values may still take inside of texts: a short text can name a long one often."""
        self.filled = Filled(None)

    def value(self, value: Any, here: DataPath, origin: DataPath) -> Any:
        self.filled.origins[here] = origin
        match value:
            case str():
                return self._text(value, origin, is_key=False)
            case list():
                return [self.value(one, (*here, index), (*origin, index)) for index, one in enumerate(value)]
            case dict():
                return dict(self._items(value, here, origin))
        return value

    def _items(self, mapping: dict[str, Any], here: DataPath, origin: DataPath) -> Iterator[tuple[str, Any]]:
        taken: set[str] = set()
        for written, value in mapping.items():
            key = str(self._text(written, (*origin, written), is_key=True))
            if key in taken:
                self._complain((*origin, written), f"key '{key}' given twice", is_key=True)
            taken.add(key)
            yield key, self.value(value, (*here, key), (*origin, written))

    def _text(self, text: str, origin: DataPath, *, is_key: bool) -> ParameterValue:
        """The text with values in it; a text that is a reference and nothing else becomes the value itself."""
        if (whole := _REFERENCE.fullmatch(text)) and not whole[1] and whole[2] in self._values:
            return self._values[whole[2]]

        def value_of(found: re.Match[str]) -> str:
            if found[1]:
                return found[0][1:]
            if found[2] not in self._values:
                self._complain(origin, unknown("parameter", found[2], self._values), is_key=is_key)
                return ""
            written = _written(self._values[found[2]])
            self._left -= len(written)
            if self._left < 0:
                self._complain(origin, "the parameters make the story too large; use them less often", is_key=is_key)
                return ""
            return written

        return _REFERENCE.sub(value_of, text)

    def _complain(self, origin: DataPath, message: str, *, is_key: bool) -> None:
        self.filled.findings.append((origin, is_key, message))


def _written(value: ParameterValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
