"""How large values may be, and where in ``device`` they are, for the estimate of what an expression costs.

Source: cel-go v0.26.0, checker/cost.go; k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go
(``sizeEstimator``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

__all__ = [
    "MOST",
    "NOTHING",
    "NOWHERE",
    "NO_ITEM",
    "ONE",
    "UNKNOWN",
    "Items",
    "Path",
    "Range",
    "declared_size",
    "rounded",
]

MOST: Final = (1 << 64) - 1
"""The greatest cost that there is; sums and products end here."""


class Range(NamedTuple):
    """The least and the greatest that a size or a cost can be."""

    low: int
    high: int

    @classmethod
    def of(cls, number: int) -> Range:
        return cls(number, number)

    def plus(self, other: Range) -> Range:
        return Range(min(self.low + other.low, MOST), min(self.high + other.high, MOST))

    def times(self, other: Range) -> Range:
        return Range(min(self.low * other.low, MOST), min(self.high * other.high, MOST))

    def by(self, factor: float) -> Range:
        """Multiply, and round up."""
        return Range(rounded(self.low * factor), rounded(self.high * factor))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def rounded(number: float) -> int:
    """Round up, to `MOST` at most."""
    return min(math.ceil(number), MOST)


UNKNOWN: Final = Range(0, MOST)
NOTHING: Final = Range.of(0)
ONE: Final = Range.of(1)
NO_ITEM: Final = Range(MOST, 0)


class Items(NamedTuple):
    """The sizes of the keys or places, and of the values, of a list or map."""

    is_list: bool
    keys: Range
    values: Range


class Path:
    """Where in ``device`` a value is, as the real estimator keeps it: a Go slice, which shares its memory.

    Of two paths that continue the same one the later may overwrite the end of the earlier.
    """

    __slots__ = ("_memory", "_room", "length")

    def __init__(self, memory: list[str], length: int, room: int) -> None:
        self._memory, self.length, self._room = memory, length, room

    @classmethod
    def begin(cls, name: str) -> Path:
        return cls([name], 1, 1)

    def then(self, name: str) -> Path:
        if self.length < self._room:
            self._memory[self.length :] = [name]
            return Path(self._memory, self.length + 1, self._room)
        return Path([*self._memory[: self.length], name], self.length + 1, max(2 * self._room, 1))

    @property
    def names(self) -> list[str]:
        return self._memory[: self.length]


NOWHERE: Final = Path([], 0, 0)


@dataclass(frozen=True, slots=True)
class Declared:
    """How large a part of ``device`` can be, and its parts."""

    size: int
    fields: Mapping[str, Declared] = field(default_factory=dict)
    keys: Declared | None = None
    values: Declared | None = None


_ATTRIBUTE: Final = Declared(64)


def _by_domain(values: Declared) -> Declared:
    return Declared(32, keys=Declared(63), values=Declared(32, keys=Declared(32), values=values))


_DEVICE: Final = Declared(
    0,
    {
        "driver": Declared(63),
        "allowMultipleAllocations": Declared(1),
        "attributes": _by_domain(_ATTRIBUTE),
        "capacity": _by_domain(Declared(0)),
    },
)


def declared_size(names: list[str]) -> Range | None:
    """Return how large the part of ``device`` at a path can be, None where that is not known.

    Source: cel/compile.go, ``sizeEstimator.EstimateSize``.
    """
    if not names or names[0] != "device":
        return None
    part = _DEVICE
    for name in names[1:]:
        if name in ("@items", "@values"):
            found = part.values
        elif name == "@keys":
            found = part.keys
        elif name in part.fields:
            found = part.fields[name]
        else:
            # All attributes have the same size; capacities with a name have none that is known.
            found = part.values if part.values is _ATTRIBUTE else None
        if found is None:
            return None
        part = found
    return Range(0, part.size)
