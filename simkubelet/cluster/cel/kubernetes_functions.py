"""Kubernetes' own functions of expressions: quantities and versions.

Source: k8s.io/apiserver v0.34.4, pkg/cel/library/quantity.go, semverlib.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...model.errors import InputError
from ...model.resources import parse_quantity
from .values import EvaluationError, Quantity, Semver

__all__ = ["KUBERNETES_FUNCTIONS", "quantity", "semver"]

_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-.]+)?"
)
_NO_PARTS: Final = "No Major.Minor.Patch elements found"
_NO_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NO_OVERLOAD: Final = "no such overload"


def quantity(text: Any) -> Quantity:
    """Read a quantity.

    Raises:
        EvaluationError: it is none.
    """
    try:
        return Quantity(parse_quantity(text))
    except InputError:
        raise EvaluationError(_NO_QUANTITY) from None


def semver(text: str) -> Semver:
    """Read a version; raises as `quantity`.

    Source: precedence in Semantic Versioning 2.0.0.
    """
    match = _SEMVER.fullmatch(text)
    if match is None:
        if not text:
            raise EvaluationError("Version string empty")
        is_whole = text.count(".") > 1
        raise EvaluationError(f"Invalid character(s) found in {text!r}" if is_whole else _NO_PARTS)
    release = tuple(int(number) for number in match.group(1, 2, 3))
    if match[4] is None:
        return Semver(text, (*release, 1))
    parts = match[4].split(".")
    order = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return Semver(text, (*release, 0, order))


def _is_read(read: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def check(text: Any) -> bool:
        try:
            read(text)
        except EvaluationError:
            return False
        return True

    return check


def _compared(left: Any, right: Any) -> int:
    """Source: pkg/cel/library/quantity.go, semverlib.go, ``compareTo``."""
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        return (left.number > right.number) - (left.number < right.number)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return (left.order > right.order) - (left.order < right.order)
    raise EvaluationError(_NO_OVERLOAD)


def _number(value: Any) -> Any:
    if not isinstance(value, Quantity):
        raise EvaluationError(_NO_OVERLOAD)
    return value.number


def _is_integer(value: Any) -> bool:
    number = _number(value)
    return bool(number == number.to_integral_value() and -(1 << 63) <= number < 1 << 63)


def _integer(value: Any) -> int:
    if not _is_integer(value):
        raise EvaluationError("cannot convert value to integer")
    return int(_number(value))


def _part(place: int) -> Callable[[Any], int]:
    def part(value: Any) -> int:
        if not isinstance(value, Semver):
            raise EvaluationError(_NO_OVERLOAD)
        return int(value.order[place])

    return part


KUBERNETES_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "quantity": quantity,
    "isQuantity": _is_read(quantity),
    "semver": semver,
    "isSemver": _is_read(semver),
    "compareTo": _compared,
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "isInteger": _is_integer,
    "asInteger": _integer,
    "asApproximateFloat": lambda value: float(_number(value)),
    **{name: _part(place) for place, name in enumerate(("major", "minor", "patch"))},
}
