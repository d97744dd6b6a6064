"""Values of CEL as Python has them, and what is the same for all of them: equality, order, size, keys, types.

Integers, doubles, strings, bytes, booleans and null are Python's; unsigned integers are `Uint`. Lists are any
sequences, maps are dictionaries whose keys `key_of` gives.

Source: cel-go v0.26.0, common/types.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from .tree import Uint

__all__ = [
    "TYPES",
    "Domains",
    "EvaluationError",
    "ExhaustedError",
    "Joined",
    "LimitError",
    "NamedType",
    "Optional",
    "Quantity",
    "Semver",
    "are_equal",
    "compare",
    "count_parts",
    "key_of",
    "size_of",
    "type_of",
    "value_of_key",
]


class EvaluationError(Exception):
    """A part has no value; the message is that of cel-go, which `||` and `&&` may leave unsaid."""


class LimitError(Exception):
    """The evaluation has cost too much and ends; nothing leaves that unsaid."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class ExhaustedError(Exception):
    """A search ends: its evaluations have cost too much together, or it was stopped."""


@dataclass(frozen=True, slots=True)
class NamedType:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    has_value: bool
    value: Any = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of Kubernetes."""

    number: Decimal


@dataclass(frozen=True, slots=True)
class Semver:
    """A version; `order` compares it with others."""

    text: str
    order: tuple[Any, ...]


class Domains(dict[Any, Any]):
    """Attributes or capacities by domain: one that is not there is there and empty, where it is looked into.

    Source: k8s.io/dynamic-resource-allocation v0.34.4, cel/compile.go, ``mapper``.
    """


class Joined(Sequence[Any]):
    """Two lists one after the other, which nothing copies: a list may be joined to itself again and again."""

    __slots__ = ("_left", "_length", "_right")

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        self._left, self._right = left, right
        self._length = size_of(left) + size_of(right)

    @property
    def length(self) -> int:
        """What ``len`` cannot say of more than a machine word."""
        return self._length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        part: Sequence[Any] = self
        while isinstance(part, Joined):
            split = size_of(part._left)
            part, place = (part._left, place) if place < split else (part._right, place - split)
        return part[place]

    def __iter__(self) -> Iterator[Any]:
        waiting: list[Sequence[Any]] = [self]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Joined):
                waiting += (part._right, part._left)
            else:
                yield from part


TYPES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (dict, "map"),
    ((list, Joined), "list"),
    (type(None), "null_type"),
    (NamedType, "type"),
    (Optional, "optional_type"),
    (Quantity, "kubernetes.Quantity"),
    (Semver, "kubernetes.Semver"),
    (datetime.datetime, "google.protobuf.Timestamp"),
    (datetime.timedelta, "google.protobuf.Duration"),
)


def type_of(value: Any) -> str:
    """The name of a value's type."""
    return next(name for kind, name in TYPES if isinstance(value, kind))


def size_of(value: Any) -> int:
    """What a value counts in costs: 1 where it is no string, bytes, list or map."""
    if isinstance(value, Joined):
        return value.length
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    return 1


def count_parts(values: Sequence[Any], most: int) -> int:
    """Return how many parts values have, each as often as it is in them.

    Raises:
        LimitError: more than `most`: a list that has another one twice, which has another one twice.
    """
    waiting, count = list(values), 0
    while waiting:
        value = waiting.pop()
        value = value.value if isinstance(value, Optional) else value
        count += 1
        if isinstance(value, list | Joined | dict):
            if count + size_of(value) > most:
                raise LimitError
            waiting += value.values() if isinstance(value, dict) else value
    return count


def key_of(value: Any) -> Any:
    """What stands for a value as a key: to Python true is 1."""
    return (value,) if isinstance(value, bool) else value


def value_of_key(key: Any) -> Any:
    """The value that a key stands for."""
    return key[0] if isinstance(key, tuple) else key


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def are_equal(left: Any, right: Any) -> bool:
    """Whether two values are the same; those of different types are not, unless they are numbers."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return len(left) == len(right) and all(
            key in right and are_equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list | Joined) and isinstance(right, list | Joined):
        return size_of(left) == size_of(right) and all(map(are_equal, left, right))
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.has_value == right.has_value and are_equal(left.value, right.value)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return left.order == right.order
    is_same = type(left) is type(right) or (_is_number(left) and _is_number(right))
    return is_same and bool(left == right)


_ORDERED: Final = (bool, str, bytes, datetime.datetime, datetime.timedelta)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1; 2 for numbers of which one is none.

    Raises:
        EvaluationError: they have no order.
    """
    if not (_is_number(left) and _is_number(right)) and not (type(left) is type(right) and type(left) in _ORDERED):
        raise EvaluationError("no such overload")
    if left == right:
        return 0
    return -1 if left < right else 1 if left > right else 2
