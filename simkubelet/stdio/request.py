"""One command as it was read: typed access to its fields, with errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

from ..apis.documents import load_json

__all__ = ["LONGEST_LINE", "Fields", "RequestError", "parse"]

T = TypeVar("T")

LONGEST_LINE: Final = 16 << 20
"""Bytes of a line; an object of a cluster has at most 1.5 MiB, and its texts may be written as escapes."""
_MISSING: Final = object()
_LARGEST: Final = 2**63 - 1
_NUMA_NODES: Final = range(64)
_JSON_NAMES: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


class RequestError(Exception):
    """A line cannot be carried out as it is written; the message becomes the answer's ``error``."""


class Fields:
    """An object of a command; `where` is its path in the command, and precedes the names in errors."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def names(self) -> list[str]:
        return list(self._values)

    def text(self, name: str, default: str | None = None) -> str:
        return self._typed(name, str, default)

    def whole(self, name: str, default: int | None = None) -> int:
        return self._typed(name, int, default)

    def number(self, name: str, default: float | None = None) -> float:
        return self._typed(name, float, default)

    def flag(self, name: str, default: bool | None = None) -> bool:
        return self._typed(name, bool, default)

    def mapping(self, name: str, default: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        return self._typed(name, dict, None if default is None else dict(default))

    def texts(self, name: str) -> list[str]:
        return self._list(name, str)

    def wholes(self, name: str) -> list[int]:
        return self._list(name, int)

    def numa_nodes(self, name: str) -> list[int]:
        """Numbers of NUMA nodes, of which a kubelet can tell 64 apart."""
        nodes = self.wholes(name)
        for index, node in enumerate(nodes):
            if node not in _NUMA_NODES:
                raise RequestError(f"{self._path(name)}[{index}]: {node} is no NUMA node; give 0 to {_NUMA_NODES[-1]}")
        return nodes

    def counts(self, name: str) -> dict[str, int]:
        """The whole numbers of an object, by name."""
        path = self._path(name)
        return {key: _checked(f"{path}.{key}", value, int) for key, value in self.mapping(name).items()}

    def rows(self, name: str) -> list[list[int]]:
        rows = self._list(name, list)
        return [[_checked(f"{self._path(name)}[{i}]", cell, int) for cell in row] for i, row in enumerate(rows)]

    def objects(self, name: str) -> list[Fields]:
        """The objects of a list; none where the field is left out."""
        if name not in self:
            return []
        return [Fields(value, f"{self._path(name)}[{i}].") for i, value in enumerate(self._list(name, dict))]

    def _list(self, name: str, kind: type[T]) -> list[T]:
        values = self._typed(name, list, None)
        return [_checked(f"{self._path(name)}[{i}]", value, kind) for i, value in enumerate(values)]

    def _typed(self, name: str, kind: type[T], default: T | None) -> T:
        value = self._values.get(name, _MISSING)
        if value is _MISSING or value is None:
            if default is None:
                raise RequestError(f"{self._path(name)}: missing; give {_JSON_NAMES[kind]}")
            return default
        return _checked(self._path(name), value, kind)

    def _path(self, name: str) -> str:
        return f"{self._where}{name}"


def _checked(path: str, value: object, kind: type[T]) -> T:
    # A bool is an int to Python, but not to who wrote the line; a whole number serves as any number.
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise RequestError(f"{path}: {json.dumps(value)} is not {_JSON_NAMES[kind]}")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise RequestError(f"{path}: the number is too large; give at most {_LARGEST}")
    return value  # type: ignore[return-value]  # an int where a number is asked for


def parse(line: bytes) -> dict[str, Any]:
    """The object that a line holds.

    Raises:
        RequestError: it is not a JSON object, or too long.
    """
    if len(line) > LONGEST_LINE:
        raise RequestError(f"the line is too long; write at most {LONGEST_LINE} bytes")
    try:
        values = load_json(line, parse_constant=_no_number)
        if b"\\u" in line:
            json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RequestError("the line is no JSON: a text holds half a surrogate pair; write both halves") from None
    except ValueError as error:
        raise RequestError(f"the line is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise RequestError('the line is no JSON object; write {"cmd": "start"}, for instance')
    return values


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")
