"""The functions of expressions: some in Python, the others by the package that reads expressions.

A function of the package is called by an expression of one call over variables, which is compiled once.

Source: cel-go v0.26.0, common/stdlib, ext/strings.go; k8s.io/apiserver v0.34.4, pkg/cel/library.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from .kubernetes_functions import KUBERNETES_FUNCTIONS
from .tree import Uint
from .values import (
    EvaluationError,
    Joined,
    LimitError,
    NamedType,
    Optional,
    are_equal,
    compare,
    key_of,
    size_of,
    type_of,
)

if TYPE_CHECKING:
    from cel_expr_python import cel

__all__ = ["MOST_CHARACTERS", "call", "is_own"]

MOST_CHARACTERS: Final = 1 << 24
"""The longest string that is made; to read it would cost more than the limit.

Kubernetes makes any, as a cost counts what is read.
"""
_STATUS: Final = re.compile(r"^[A-Z_]+: ")
_NO_OVERLOAD: Final = "no such overload"
_UNNAMED: Final = frozenset(("@in", "contains", "startsWith", "endsWith", "matches", "hasValue", "value", "!_"))
"""Functions that an error about their operands does not name."""
_NUMBERS: Final = ("int", "uint", "double")
_OTHERS: Final = ("string", "google.protobuf.Timestamp", "google.protobuf.Duration")
_OPERANDS: Final = {
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), ("bool", "bytes", *_NUMBERS, *_OTHERS)),
    "_+_": ("bytes", "list", *_NUMBERS, *_OTHERS),
    **dict.fromkeys(("_-_", "_*_", "_/_", "_%_"), (*_NUMBERS, *_OTHERS)),
    "-_": ("int", "double", *_OTHERS),
}
"""Operators, and the types of the first operand for which an error does not name them."""
_CONVERSIONS: Final = {
    **{name: name for name in ("bool", "double", "int", "uint")},
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
}
_OPERATORS: Final = {"_+_": "{0} + {1}", "_-_": "{0} - {1}", "-_": "-{0}"}


def call(function: str, is_member: bool, operands: list[Any]) -> Any:
    """Return what a function gives for its operands, of which the target of a member is the first.

    Raises:
        EvaluationError: it gives no value for them.
    """
    try:
        own = _OWN.get(function)
        value = NotImplemented if own is None else own(*operands)
        return _by_package(function, is_member, operands) if value is NotImplemented else value
    except EvaluationError as error:
        if str(error) != _NO_OVERLOAD or function in _UNNAMED or type_of(operands[0]) in _OPERANDS.get(function, ()):
            raise
        types = "" if function == "size" or function in _OPERANDS else f"({', '.join(map(type_of, operands))})"
        raise EvaluationError(f"{_NO_OVERLOAD}: {function}{types}") from None


# Arithmetic


def _arithmetic(name: str, of: Callable[[int, int], int], of_doubles: Callable[[float, float], float]) -> Any:
    def calculate(left: Any, right: Any) -> Any:
        kind = type(left)
        if kind is not type(right) or kind not in (int, Uint, float):
            return NotImplemented
        if kind is float:
            return of_doubles(left, right)
        if name in "/%" and right == 0:
            raise EvaluationError("division by zero" if name == "/" else "modulus by zero")
        return _within(of(left, right), kind)

    return calculate


def _within(value: int, kind: type) -> int:
    if kind is Uint:
        if not 0 <= value < 1 << 64:
            raise EvaluationError("unsigned integer overflow")
        return Uint(value)
    if not -(1 << 63) <= value < 1 << 63:
        raise EvaluationError("integer overflow")
    return value


def _quotient(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    return float("nan") if not left or left != left else float("inf") * left


def _no_double(left: float, right: float) -> float:
    raise EvaluationError(_NO_OVERLOAD)


_sum: Final = _arithmetic("+", operator.add, operator.add)


def _plus(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, list | Joined) and isinstance(right, list | Joined):
        return Joined(left, right)
    return _sum(left, right)


def _negated(value: Any) -> Any:
    if type(value) is int:
        return _within(-value, int)
    return -value if isinstance(value, float) else NotImplemented


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(_NO_OVERLOAD)
    return not value


def _ordered(*accepted: int) -> Callable[[Any, Any], bool]:
    return lambda left, right: compare(left, right) in accepted


# Strings, lists and maps


def _of_texts(of: Callable[[str, str], Any]) -> Callable[[Any, Any], Any]:
    def apply(text: Any, other: Any) -> Any:
        if not isinstance(text, str) or not isinstance(other, str):
            raise EvaluationError(_NO_OVERLOAD)
        return of(text, other)

    return apply


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict | Joined):
        return size_of(value)
    raise EvaluationError(_NO_OVERLOAD)


def _is_in(item: Any, container: Any) -> bool:
    if isinstance(container, dict):
        return key_of(item) in container
    if isinstance(container, list | Joined):
        return any(are_equal(item, each) for each in container)
    raise EvaluationError(_NO_OVERLOAD)


def _replace(text: Any, old: Any, new: Any, most: Any = -1) -> str:
    if not (isinstance(text, str) and isinstance(old, str) and isinstance(new, str) and type(most) is int):
        raise EvaluationError(_NO_OVERLOAD)
    times = text.count(old) if most < 0 else min(text.count(old), most)
    _allow(len(text) + times * (len(new) - len(old)))
    return text.replace(old, new, most if most >= 0 else -1)


def _split(text: Any, separator: Any, most: Any = -1) -> list[str]:
    if not (isinstance(text, str) and isinstance(separator, str) and type(most) is int):
        raise EvaluationError(_NO_OVERLOAD)
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    if most < 0 or most >= len(text):
        return list(text)
    return [*text[: most - 1], text[most - 1 :]]


def _join(items: Any, separator: Any = "") -> Any:
    if not isinstance(items, list | Joined) or not isinstance(separator, str):
        raise EvaluationError(_NO_OVERLOAD)
    _allow(size_of(items))
    texts: list[Any] = list(items)
    if not all(isinstance(each, str) for each in texts):
        raise EvaluationError(_NO_OVERLOAD)
    _allow(sum(map(len, texts)) + max(len(texts) - 1, 0) * len(separator))
    return separator.join(texts)


def _allow(characters: int) -> None:
    if characters > MOST_CHARACTERS:
        raise LimitError


def _char_at(text: Any, place: Any) -> str:
    if not isinstance(text, str) or type(place) is not int:
        raise EvaluationError(_NO_OVERLOAD)
    return text[_bounded(text, place) :][:1]


def _substring(text: Any, start: Any, *end: Any) -> str:
    if not isinstance(text, str) or not all(type(each) is int for each in (start, *end)):
        raise EvaluationError(_NO_OVERLOAD)
    if end and start > end[0]:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end[0]}")
    return text[_bounded(text, start) : _bounded(text, *end) if end else None]


def _bounded(text: str, place: int) -> int:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return place


# Optional values, types


def _optional_value(value: Any) -> Any:
    if not isinstance(value, Optional):
        raise EvaluationError(_NO_OVERLOAD)
    if not value.has_value:
        raise EvaluationError("optional.none() dereference")
    return value.value


def _unless_zero(value: Any) -> Optional:
    is_zero = value is None or (isinstance(value, int | float | str | bytes | dict | list | Joined) and not value)
    return Optional(False) if is_zero else Optional(True, value)


_OWN: Final[Mapping[str, Callable[..., Any]]] = {
    "_+_": _plus,
    "_-_": _arithmetic("-", operator.sub, operator.sub),
    "_*_": _arithmetic("*", operator.mul, operator.mul),
    "_/_": _arithmetic("/", _quotient, _divided),
    "_%_": _arithmetic("%", lambda left, right: left - right * _quotient(left, right), _no_double),
    "-_": _negated,
    "!_": _not,
    "_==_": are_equal,
    "_!=_": lambda left, right: not are_equal(left, right),
    "_<_": _ordered(-1),
    "_<=_": _ordered(-1, 0),
    "_>_": _ordered(1),
    "_>=_": _ordered(1, 0),
    "@in": _is_in,
    "size": _size,
    "contains": _of_texts(lambda text, other: other in text),
    "startsWith": _of_texts(str.startswith),
    "endsWith": _of_texts(str.endswith),
    "charAt": _char_at,
    "substring": _substring,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "dyn": lambda value: value,
    "type": lambda value: NamedType(type_of(value)),
    "optional.of": lambda value: Optional(True, value),
    "optional.ofNonZeroValue": _unless_zero,
    "optional.none": lambda: Optional(False),
    "hasValue": lambda value: value.has_value if isinstance(value, Optional) else NotImplemented,
    "value": _optional_value,
    **KUBERNETES_FUNCTIONS,
}


def is_own(function: str) -> bool:
    """Whether a function is in Python, and the package has no part in it."""
    return function in _OWN


# The package's


_NAMES: Final = "abcdef"


def _by_package(function: str, is_member: bool, operands: list[Any]) -> Any:
    if function in _OPERANDS and not any(isinstance(each, datetime | timedelta) for each in operands):
        raise EvaluationError(_NO_OVERLOAD)
    names = [f"({_NAMES[place]})" for place in range(len(operands))]
    if function in _OPERATORS:
        text = _OPERATORS[function].format(*names)
    elif is_member:
        text = f"{names[0]}.{function}({', '.join(names[1:])})"
    else:
        text = f"{function}({', '.join(names)})"
    values = [list(each) if isinstance(each, Joined) else each for each in operands]
    data = dict(zip(_NAMES, values, strict=False))
    try:
        value = _compiled(text, tuple(map(type_of, operands))).eval(data=data)
        kind = str(value.type().name()).partition("<")[0].lower()
        plain = value.plain_value()
    except (RuntimeError, TypeError, ValueError) as error:
        raise EvaluationError(_said(str(error))) from None
    if kind == "error":
        if function in _CONVERSIONS and type_of(operands[0]) == "string":
            raise EvaluationError(f"type conversion error from 'string' to '{_CONVERSIONS[function]}'")
        raise EvaluationError(_said(str(value.value())))
    if kind == "bytes":
        return plain.encode() if isinstance(plain, str) else bytes(plain)
    return Uint(plain) if kind == "uint" else plain


@lru_cache(128)
def _compiled(text: str, types: tuple[str, ...]) -> cel.Expression:
    """An expression of one call over variables of some types."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_strings

    known = {
        "uint": cel.Type.UINT,
        "bytes": cel.Type.BYTES,
        "google.protobuf.Timestamp": cel.Type.TIMESTAMP,
        "google.protobuf.Duration": cel.Type.DURATION,
    }
    variables = {name: known.get(kind, cel.Type.DYN) for name, kind in zip(_NAMES, types, strict=False)}
    return cel.NewEnv(variables=variables, extensions=[ext_strings.ExtStrings()]).compile(text)


_SAID: Final = {
    "int64 out of uint64 range": "unsigned integer overflow",
    "double out of uint64 range": "unsigned integer overflow",
    "double out of int64 range": "integer overflow",
    "uint64 out of int64 range": "integer overflow",
}


def _said(text: str) -> str:
    """What went wrong, in the words of cel-go."""
    text = _STATUS.sub("", text).partition(" [")[0]
    if text.startswith("No matching overloads"):
        return _NO_OVERLOAD
    return _SAID.get(text, text)
