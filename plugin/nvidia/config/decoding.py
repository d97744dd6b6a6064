"""Take typed values out of a parsed file; a value of another type is an error with Go's text.

A value that is null counts as not given.

Source: encoding/json, ``UnmarshalTypeError`` (Go 1.25).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ConfigError", "Place", "boolean", "go_json", "integer", "items", "raw_object", "string", "structure"]


class ConfigError(Exception):
    """The file cannot be read or has a wrong value; the message is the original's."""


_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """A field, by the Go struct that has it and its path from the top."""

    struct: str
    path: str

    def mismatch(self, value: Any, go_type: str) -> ConfigError:
        """The error for a value that is not of this type."""
        where = f"Go struct field {self.struct}.{self.path}" if self.path else "Go value"
        return ConfigError(f"json: cannot unmarshal {_kind(value, go_type)} into {where} of type {go_type}")


def string(value: Any, place: Place) -> str | None:
    """A text.

    Raises:
        ConfigError: it is something else.
    """
    if value is None or isinstance(value, str):
        return value
    raise place.mismatch(value, "string")


def boolean(value: Any, place: Place) -> bool | None:
    """A truth value.

    Raises:
        ConfigError: it is something else.
    """
    if value is None or isinstance(value, bool):
        return value
    raise place.mismatch(value, "bool")


def integer(value: Any, place: Place) -> int | None:
    """A whole number of 64 bits.

    Raises:
        ConfigError: it is something else.
    """
    if value is None or (_is_integer(value) and _SMALLEST <= value <= _LARGEST):
        return value  # type: ignore[no-any-return]  # narrowed by _is_integer
    raise place.mismatch(value, "int")


def items(value: Any, place: Place, go_type: str) -> list[Any]:
    """A list of what `go_type` names; empty where it is not given.

    Raises:
        ConfigError: it is something else.
    """
    if value is None or isinstance(value, list):
        return value or []
    raise place.mismatch(value, go_type)


def raw_object(value: Any, place: Place) -> Mapping[str, Any]:
    """An object whose keys are taken as they are spelt; empty where it is not given.

    Raises:
        ConfigError: it is something else.
    """
    if value is None or isinstance(value, dict):
        return value or {}
    raise place.mismatch(value, "map[string]json.RawMessage")


def structure(value: Any, names: Collection[str], place: Place, go_type: str) -> dict[str, Any]:
    """An object's known fields, whose names count in any case; unknown ones are left out.

    Raises:
        ConfigError: it is something else.
    """
    if value is not None and not isinstance(value, dict):
        raise place.mismatch(value, go_type)
    known = _by_lower_case(names)
    fields = sorted((value or {}).items())
    return {known[key.lower()]: field for key, field in fields if key.lower() in known}


def go_json(value: Any) -> str:
    """A value as Go writes it in JSON, on one line."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _by_lower_case(names: Iterable[str]) -> dict[str, str]:
    return {name.lower(): name for name in names}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any, go_type: str) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}" if go_type == "int" else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
