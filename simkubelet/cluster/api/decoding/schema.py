"""The reading of a request's values by the types of their fields, as Go's JSON reads them.

Source: sigs.k8s.io/json, internal/golang/encoding/json/decode.go; staging/src/k8s.io/apimachinery/pkg/api/resource/
quantity.go, pkg/apis/meta/v1/time.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ....golang.text import quoted
from ....model.errors import InputError
from ....model.resources import canonical_quantity
from ...objects.objects import JSON
from .definitions import Schema, child, element, resolved, schema_of

__all__ = [
    "FieldFault",
    "check_date",
    "completed",
    "field_faults",
    "go_name",
    "read_value",
]

_GO_NAMES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    type(None): "null",
}
_SCALARS: Final = ("string", "boolean", "integer")
_ZEROS: Final[Mapping[str, Any]] = {"string": "", "boolean": False, "integer": 0, "array": []}
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_INT32: Final[Schema] = {"type": "integer", "format": "int32"}
_NO_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def go_name(value: Any) -> str:
    """What Go's JSON calls a value."""
    return next((name for type_, name in _GO_NAMES.items() if isinstance(value, type_)), "string")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands: in which Go struct, and its path as a fault names it and as Go's JSON does."""

    struct: str
    path: str = ""
    go_path: str = ""

    def field(self, struct: str, name: str) -> _Place:
        return _Place(struct, f"{self.path}.{name}".lstrip("."), f"{self.go_path}.{name}")

    def element(self, index: int) -> _Place:
        return _Place(self.struct, f"{self.path}[{index}]", self.go_path)

    def entry(self, key: str) -> _Place:
        return _Place(self.struct, f"{self.path}.{key}", self.go_path)

    def mismatch(self, value: Any, schema: Schema, shown: str = "") -> TypeError:
        field = f"struct field {self.struct}{self.go_path}" if self.go_path else "value"
        return TypeError(f"{shown or go_name(value)} into Go {field} of type {_go_type(schema)}")


def read_value(value: Any, schema: Schema, struct: str, faults: list[str]) -> Any:
    """A value without the fields that its schema does not have; these are added to `faults`.

    `struct` is what Go calls the value.

    Raises:
        TypeError: it or something in it is of another type; the message is Go's.
        ValueError: a text in it is of another form.
    """
    return _read(value, schema, _Place(struct), faults)


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A value of an object that the API server refuses, or a field that the object's kind does not have.

    Attributes:
        path: Keys and list indices from the object down.
        value: What stands there.
        wanted: The type in OpenAPI that the value should have (``string``, ``integer`` …); empty where it has it.
        reason: What is wrong, in Go's words; empty for a field that is unknown.
        known: Of an unknown field: the fields that its place has.
    """

    path: tuple[str | int, ...]
    value: Any
    wanted: str = ""
    reason: str = ""
    known: tuple[str, ...] = ()


def field_faults(manifest: JSON, group: str, version: str, kind: str) -> Iterator[FieldFault]:
    """Find all for which strict decoding refuses an object, which kubectl asks for by default.

    Raises:
        KeyError: The kind is not among the served ones.
    """
    yield from _faults(manifest, schema_of(group, version, kind), ())


def _faults(value: Any, schema: Schema, path: tuple[str | int, ...]) -> Iterator[FieldFault]:
    if value is None:
        return
    plain = resolved(schema)
    try:
        _accepted(value, schema, _Place(""))
    except TypeError as error:
        yield FieldFault(path, value, plain.get("type", ""), str(error))
        return
    except ValueError as error:
        yield FieldFault(path, value, reason=str(error))
        return
    if plain.get("type") == "array":
        for index, inner in enumerate(value):
            yield from _faults(inner, plain["items"], (*path, index))
    elif "additionalProperties" in plain:
        for key, inner in value.items():
            yield from _faults(inner, plain["additionalProperties"], (*path, key))
    elif "properties" in plain:
        for name, inner in value.items():
            if name in plain["properties"]:
                yield from _faults(inner, plain["properties"][name], (*path, name))
            else:
                yield FieldFault((*path, name), inner, known=tuple(plain["properties"]))


def _accepted(value: Any, schema: Schema, place: _Place) -> Any:
    """The value itself, a quantity in its canonical form; what is inside a list or an object is not looked at.

    Raises:
        TypeError: it is of another type.
        ValueError: it is a text of another form.
    """
    plain = resolved(schema)
    if "oneOf" in plain:
        # The other such type, IntOrString, has a format.
        if "format" not in plain:
            return _quantity(value)
        if not any(_fits(value, option["type"]) for option in plain["oneOf"]):
            raise place.mismatch(value, _INT32)
        if isinstance(value, int) and not _is_in_range(value, "int32"):
            raise place.mismatch(value, _INT32, f"number {value}")
        return value
    wanted = plain.get("type")
    if wanted is not None and not _fits(value, wanted):
        raise place.mismatch(value, schema)
    if wanted == "integer" and not _is_in_range(value, plain.get("format", "int64")):
        raise place.mismatch(value, schema, f"number {value}")
    if plain.get("format") == "date-time":
        check_date(value)
    if plain.get("format") == "byte":
        _check_base64(value)
    return value


def _read(value: Any, schema: Schema, place: _Place, faults: list[str]) -> Any:
    value = _accepted(value, schema, place)
    plain = resolved(schema)
    if plain.get("type") == "array":
        return [_read_inside(inner, plain["items"], place.element(i), faults) for i, inner in enumerate(value)]
    if "additionalProperties" in plain:
        inner_schema = plain["additionalProperties"]
        return {key: _read_inside(inner, inner_schema, place.entry(key), faults) for key, inner in value.items()}
    if "properties" not in plain:
        return value
    struct = schema["$ref"].rpartition(".")[2] if "$ref" in schema else place.struct
    found: JSON = {}
    for name, inner in value.items():
        below = place.field(struct, name)
        if name not in plain["properties"]:
            faults.append(f'unknown field "{below.path}"')
        elif inner is not None:
            found[name] = _read(inner, plain["properties"][name], below, faults)
    return found


def _read_inside(value: Any, schema: Schema, place: _Place, faults: list[str]) -> Any:
    return _zero(resolved(schema)) if value is None else _read(value, schema, place, faults)


_MEANT_EMPTY: Final = ("resourceClaimStatuses", "nodeAllocatableResourceClaimStatuses")
"""Lists that the API server tells from missing ones, which it fills in."""


def completed(obj: JSON, schema: Schema) -> JSON:
    """An object with the texts, numbers and flags that Go always writes, without lists and maps that it leaves out.

    Lists that mean something when they are empty stay; the strategies leave them out.
    """
    found = {name: _inside(value, child(schema, name)) for name, value in obj.items()}
    required = schema.get("required", ())
    for name, value in obj.items():
        is_list_or_map = value == [] or (value == {} and "additionalProperties" in (child(schema, name) or {}))
        if is_list_or_map and "properties" in schema and name not in (*required, *_MEANT_EMPTY):
            del found[name]
    for name in required:
        type_ = resolved(schema["properties"][name]).get("type")
        if name not in found and type_ in _SCALARS:
            found[name] = _ZEROS[type_]
    return found


def _inside(value: Any, schema: Schema | None) -> Any:
    if schema is not None and isinstance(value, dict):
        return completed(value, schema)
    if schema is not None and isinstance(value, list):
        return [_inside(item, element(schema)) for item in value]
    return value


def _zero(schema: Schema) -> Any:
    """What Go makes of a null where no value may be missing: in a list or a map."""
    if "oneOf" in schema:
        return 0 if "format" in schema else "0"
    return _ZEROS.get(schema.get("type", ""), {})


def _quantity(value: Any) -> str:
    try:
        return canonical_quantity(value)
    except InputError:
        raise ValueError(_NO_QUANTITY) from None


def _check_base64(text: str) -> None:
    plain = re.sub(r"[\r\n]", "", text)
    legal = re.match(r"[A-Za-z0-9+/]*", plain)[0]  # type: ignore[index]
    padding = "=" * (-len(legal) % 4)
    if plain != legal + padding or len(legal) % 4 == 1:
        raise ValueError(f"illegal base64 data at input byte {min(len(legal.encode()), len(text.encode()))}")


def check_date(text: str) -> None:
    """Check that a text is a date.

    Raises:
        ValueError: it is not a date; the message is Go's.
    """
    try:
        is_date = _DATE.fullmatch(text) is not None and datetime.fromisoformat(text) is not None
    except ValueError:
        is_date = False
    if not is_date:
        layout = "2006-01-02T15:04:05Z07:00"
        why = f"parsing time {quoted(text)} as {quoted(layout)}: cannot parse {quoted(text)} as {quoted('2006')}"
        raise ValueError(why)


def _fits(value: Any, wanted: str) -> bool:
    match wanted:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _is_in_range(value: int, format_: str) -> bool:
    limit: int = 2 ** (int(format_.removeprefix("int")) - 1)
    return -limit <= value < limit


def _go_type(schema: Schema) -> str:
    plain = resolved(schema)
    match plain.get("type"):
        case "integer":
            return str(plain.get("format", "int64"))
        case "boolean":
            return "bool"
        case "array":
            return f"[]{_go_type(plain['items'])}"
        case "object" if "additionalProperties" in plain:
            return f"map[string]{_go_type(plain['additionalProperties'])}"
        case "object":
            return f"v1.{schema.get('$ref', '').rpartition('.')[2]}"
        case _:
            return "string"
