"""What differs between what a story expects and what is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .positioned import DataPath


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference: where in the expectation (keys of the document), what it says, and what was seen last."""

    path: DataPath
    expected: str
    seen: str


Mismatches = Iterator[Mismatch]


def shown(value: object) -> str:
    """A value as a story would write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    return "''" if value == "" else str(value)


def differs(path: DataPath, expected: object, seen: object) -> Mismatches:
    """One mismatch where two values are not equal."""
    if expected != seen:
        yield Mismatch(path, shown(expected), shown(seen))
