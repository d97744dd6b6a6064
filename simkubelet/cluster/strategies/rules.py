"""What decides how objects are checked: the release of the API server, and its gates; and the fields of a gate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from ...model.version import Difference, Version
from ..objects.objects import JSON

__all__ = ["Places", "Rules", "drop", "has_any"]

T = TypeVar("T")
Places: TypeAlias = Iterable[tuple[JSON, Sequence[str]]]
"""Parts of an object, and the names of a gate's fields in each."""


class Rules(NamedTuple):
    """A release, and those of its gates that are on."""

    release: Version
    gates: Collection[str]

    def of(self, difference: Difference[T]) -> T:
        """What a difference between releases is here."""
        return difference.at(self.release)


def drop(places: Places) -> None:
    """Remove a gate's fields."""
    for part, names in places:
        for name in names:
            part.pop(name, None)


def has_any(places: Places) -> bool:
    """Whether one of a gate's fields is set."""
    return any(part.get(name) not in (None, []) for part, names in places for name in names)
