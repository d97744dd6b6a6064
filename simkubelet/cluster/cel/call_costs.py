"""What calls of functions cost, by their operands and their value.

Source: cel-go v0.26.0, interpreter/runtimecost.go (``costCall``); k8s.io/apiserver v0.34.4, pkg/cel/library/cost.go
(``CallCost``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...model.version import Difference, Version
from .estimate import READS_ALL_PATTERNS
from .values import Optional, Quantity, Semver, size_of

__all__ = ["CostOf", "cost_of", "one"]

CostOf: TypeAlias = Callable[[list[Any], Any], int]
"""From the operands, without value where they have an error, and the value."""
_COUNTS_PREFIX: Final = Difference(
    "`startsWith` and `endsWith` in a selector cost by the length of what is looked for, not of the whole text",
    {"1.26": False, "1.37": True},
    "cel-go v0.26.0, v0.29.2, interpreter/runtimecost.go",
)
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25


def cost_of(function: str, overload: str, release: Version) -> CostOf:
    """What calls of a function cost in a release; the overload is empty where only the evaluation shows which it is."""
    if overload == "matches" and READS_ALL_PATTERNS.at(release):
        overload = "matches_string"
    if overload in ("starts_with_string", "ends_with_string") and _COUNTS_PREFIX.at(release):
        return _second_read
    return _OF_FUNCTIONS.get(function) or _OF_OVERLOADS.get(overload, one)


def _up(number: float) -> int:
    return math.ceil(number)


def _sizes(operands: list[Any]) -> list[int]:
    values = (each.value if isinstance(each, Optional) and each.has_value else each for each in operands)
    return [size_of(each) for each in values]


def one(operands: list[Any], value: Any) -> int:
    """What most functions cost."""
    return 1


def _first(operands: list[Any], value: Any) -> int:
    return _up(size_of(operands[0]) * _TRAVERSAL)


def _second_read(operands: list[Any], value: Any) -> int:
    return _up(_sizes(operands)[1] * _TRAVERSAL)


def _first_twice(operands: list[Any], value: Any) -> int:
    return _up(size_of(operands[0]) * 2 * _TRAVERSAL)


def _traversed(operands: list[Any], value: Any) -> int:
    text = operands[0]
    return int(len(text.encode()) * _TRAVERSAL) if isinstance(text, str) else 1


def _result_twice(operands: list[Any], value: Any) -> int:
    return _up(size_of(value) * 2 * _TRAVERSAL)


def _second(operands: list[Any], value: Any) -> int:
    return size_of(operands[1])


def _least(operands: list[Any], value: Any) -> int:
    return _up(min(_sizes(operands)) * _TRAVERSAL)


def _equality(operands: list[Any], value: Any) -> int:
    return 1 if isinstance(operands[0], Quantity | Semver) else _least(operands, value)


def _both(operands: list[Any], value: Any) -> int:
    return _up(sum(_sizes(operands)) * _TRAVERSAL)


def _matched(operands: list[Any], value: Any) -> int:
    text, pattern = _sizes(operands)
    return _up((1.0 + text) * _TRAVERSAL) * _up(pattern * _REGEX)


def _contained(operands: list[Any], value: Any) -> int:
    text, other = _sizes(operands)
    return _up(text * _TRAVERSAL) * _up(other * _TRAVERSAL)


_OF_FUNCTIONS: Final[Mapping[str, CostOf]] = {
    "_==_": _equality,
    "_!=_": _least,
    "join": _result_twice,
    **dict.fromkeys(("indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _first),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _first),
    **dict.fromkeys(("replace", "split"), _first_twice),
}
_OF_OVERLOADS: Final[Mapping[str, CostOf]] = {
    **dict.fromkeys(
        (
            "starts_with_string",
            "ends_with_string",
            "string_to_bytes",
            "bytes_to_string",
            "strings_quote",
            "string_format",
        ),
        _first,
    ),
    **dict.fromkeys(
        (
            f"{comparison}_{kind}"
            for comparison in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _least,
    ),
    **dict.fromkeys(("add_string", "add_bytes"), _both),
    "in_list": _second,
    "matches_string": _matched,
    "contains_string": _contained,
}
