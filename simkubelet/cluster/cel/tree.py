"""The tree of an expression whose types are known, as the package ``cel-expr-python`` writes it.

The package gives it only in the form of ``cel.expr.CheckedExpr``, a protobuf message. It is read without the protobuf
library, which refuses messages that are nested a hundred times: a macro in a macro takes four.

Source: cel/expr/checked.proto, cel/expr/syntax.proto (cel-spec v0.25).
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

__all__ = [
    "ACCUMULATOR",
    "Call",
    "Checked",
    "Comprehension",
    "Expr",
    "Ident",
    "ListOf",
    "Literal",
    "MapOf",
    "Message",
    "Select",
    "Type",
    "Uint",
    "read_checked",
]

ACCUMULATOR: Final = "@result"
"""The variable in which the macros gather their results."""
_QUALIFIED: Final = {"device.capacity": ("device", "capacity")}
"""Names that are declared with a dot, as the type of the field cannot be said otherwise."""


class Uint(int):
    """An unsigned integer of CEL."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Type:
    """A type: ``int``, ``list`` and ``map`` with parameters, or the name of a message or of another opaque type."""

    name: str
    parameters: tuple[Type, ...] = ()


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable, or the name of a type."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field; `is_test` where it is asked whether it is there."""

    id: int
    operand: Expr
    field: str
    is_test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator; `target` is None where it is no member."""

    id: int
    target: Expr | None
    function: str
    arguments: tuple[Expr, ...]

    @property
    def operands(self) -> tuple[Expr, ...]:
        """The target and the arguments."""
        return self.arguments if self.target is None else (self.target, *self.arguments)


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; `optional` has the places of items that may be missing."""

    id: int
    items: tuple[Expr, ...]
    optional: frozenset[int]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map: key, value, whether the entry may be missing."""

    id: int
    entries: tuple[tuple[Expr, Expr, bool], ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its fields."""

    id: int
    name: str
    fields: tuple[tuple[str, Expr, bool], ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What a macro becomes: a loop over a list or the keys of a map."""

    id: int
    variable: str
    range: Expr
    accumulator: str
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr

    @property
    def is_bind(self) -> bool:
        """Whether it has no loop, but gives a name to a value: ``cel.bind``."""
        return (
            isinstance(self.range, ListOf)
            and not self.range.items
            and isinstance(self.condition, Literal)
            and self.condition.value is False
            and self.accumulator != ACCUMULATOR
        )


Expr: TypeAlias = Literal | Ident | Select | Call | ListOf | MapOf | Message | Comprehension


@dataclass(frozen=True, slots=True)
class Checked:
    """An expression with the types of its parts, and the overloads that each call may be, by id."""

    expr: Expr
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]


# Reading

_Fields: TypeAlias = "defaultdict[int, list[Any]]"
_PRIMITIVES: Final = ("", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN: Final = ("", "any", "timestamp", "duration")
_DYN: Final = Type("dyn")


def read_checked(body: bytes) -> Checked:
    """Read what ``Expression.serialize()`` gives: a ``google.protobuf.Any`` with a ``CheckedExpr``."""
    checked = _fields(_fields(body)[2][0])
    types = {number: _type(body) for number, body in _entries(checked[3])}
    overloads = {number: _overloads(body) for number, body in _entries(checked[2])}
    return Checked(_expr(checked[4][0]), types, overloads)


def _entries(entries: list[Any]) -> Iterator[tuple[int, bytes]]:
    """The entries of a map from numbers to messages."""
    for entry in entries:
        pair = _fields(entry)
        yield _only(pair, 1, 0), _only(pair, 2, b"")


def _fields(body: bytes) -> _Fields:
    """The values of a message by the numbers of its fields, those of a repeated field in their order."""
    found: _Fields = defaultdict(list)
    place = 0
    while place < len(body):
        key, place = _varint(body, place)
        wire = key & 7
        if wire == 0:
            number, place = _varint(body, place)
            found[key >> 3].append(number)
            continue
        length = 8
        if wire == 2:
            length, place = _varint(body, place)
        found[key >> 3].append(body[place : place + length])
        place += length
    return found


def _varint(body: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _only(fields: _Fields, number: int, default: Any) -> Any:
    return fields[number][0] if number in fields else default


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _text(body: bytes) -> str:
    return body.decode()


def _overloads(body: bytes) -> tuple[str, ...]:
    return tuple(_text(each) for each in _fields(body)[3])


def _type(body: bytes) -> Type:
    fields = _fields(body)
    number, values = next(iter(fields.items()))
    value = values[0]
    if number in (3, 4):
        return Type(_PRIMITIVES[value])
    if number == 5:
        return Type(_WELL_KNOWN[value])
    if number in (6, 7):
        inner = _fields(value)
        return Type("list" if number == 6 else "map", tuple(_type(inner[key][0]) for key in sorted(inner)))
    if number == 9:
        return Type(_text(value))
    if number == 11:
        return Type("type")
    if number == 14:
        inner = _fields(value)
        return Type(_text(inner[1][0]), tuple(_type(each) for each in inner[2]))
    return Type("null") if number == 2 else _DYN


_LITERALS: Final[dict[int, Callable[[Any], Any]]] = {
    1: lambda _: None,
    2: bool,
    3: _signed,
    4: Uint,
    5: lambda value: struct.unpack("<d", value)[0],
    6: _text,
    7: bytes,
}


def _literal(number: int, body: bytes) -> Expr:
    kind, values = next(iter(_fields(body).items()))
    return Literal(number, _LITERALS[kind](values[0]))


def _ident(number: int, body: bytes) -> Expr:
    name = _text(_fields(body)[1][0])
    if name in _QUALIFIED:
        variable, field = _QUALIFIED[name]
        return Select(number, Ident(-number, variable), field, is_test=False)
    return Ident(number, name)


def _select(number: int, body: bytes) -> Expr:
    fields = _fields(body)
    return Select(number, _expr(fields[1][0]), _text(fields[2][0]), bool(_only(fields, 3, 0)))


def _call(number: int, body: bytes) -> Expr:
    fields = _fields(body)
    target = _expr(fields[1][0]) if 1 in fields else None
    return Call(number, target, _text(fields[2][0]), tuple(_expr(each) for each in fields[3]))


def _list(number: int, body: bytes) -> Expr:
    fields = _fields(body)
    return ListOf(number, tuple(_expr(each) for each in fields[1]), frozenset(_packed(fields[2])))


def _packed(values: list[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        place = 0
        while place < len(value):
            number, place = _varint(value, place)
            yield number


def _struct(number: int, body: bytes) -> Expr:
    fields = _fields(body)
    entries = [_fields(each) for each in fields[2]]
    if name := _text(_only(fields, 1, b"")):
        return Message(
            number, name, tuple((_text(each[2][0]), _expr(each[4][0]), bool(_only(each, 5, 0))) for each in entries)
        )
    return MapOf(number, tuple((_expr(each[3][0]), _expr(each[4][0]), bool(_only(each, 5, 0))) for each in entries))


def _comprehension(number: int, body: bytes) -> Expr:
    fields = _fields(body)
    initial, condition, step, result = (_expr(fields[key][0]) for key in (4, 5, 6, 7))
    return Comprehension(
        number, _text(fields[1][0]), _expr(fields[2][0]), _text(fields[3][0]), initial, condition, step, result
    )


_KINDS: Final[dict[int, Callable[[int, bytes], Expr]]] = {
    3: _literal,
    4: _ident,
    5: _select,
    6: _call,
    7: _list,
    8: _struct,
    9: _comprehension,
}


def _expr(body: bytes) -> Expr:
    fields = _fields(body)
    number = _only(fields, 2, 0)
    kind = next(key for key in fields if key in _KINDS)
    return _KINDS[kind](number, fields[kind][0])
