"""What differs between what a story expects and what is seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from ..story.positioned import DataPath

_T = TypeVar("_T")

MOST_SHOWN: Final = 64
"""Items of a list or mapping that are all shown."""
SHOWN_OF_MORE: Final = 8
"""Items that are shown of a longer one, as that of all megabytes of a GPU."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference: where in the expectation (keys of the document), what it says, and what was seen last."""

    path: DataPath
    expected: str
    seen: str


Mismatches = Iterator[Mismatch]


def shown(value: object) -> str:
    """A value as a story would write it; of more items than people read, the first and how many there are."""
    if isinstance(value, Mapping):
        return _listed([f"{key}: {_inside(item)}" for key, item in _first(value.items())], len(value)) or "none"
    if isinstance(value, list | tuple):
        return "[" + _listed([_inside(item) for item in _first(value)], len(value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)


def _inside(value: object) -> str:
    return "{" + (shown(value) if value else "") + "}" if isinstance(value, Mapping) else shown(value)


def _first(items: Collection[_T]) -> Iterable[_T]:
    return islice(items, len(items) if len(items) <= MOST_SHOWN else SHOWN_OF_MORE)


def _listed(items: Sequence[str], number: int) -> str:
    return ", ".join(items if len(items) == number else (*items, f"... ({number} in all)"))


def differs(path: DataPath, expected: object, seen: object) -> Mismatches:
    """One mismatch where two values are not equal."""
    if expected != seen:
        yield Mismatch(path, shown(expected), shown(seen))
