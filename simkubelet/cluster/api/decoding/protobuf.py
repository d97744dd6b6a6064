"""Bodies of requests that are protobuf, as plain values.

kubectl sends as protobuf what it makes itself (``kubectl create secret``). Its types are those of the schema, its
numbers those of ``field_numbers.json``.

Source: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go, and the ``generated.proto`` of the
kinds (kubernetes v1.34.4).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

from ...objects.objects import JSON
from .definitions import Schema, name_of, plain_name, resolved
from .documents import json_document

__all__ = ["MAGIC", "META", "ProtobufError", "numbers_by_field", "read_protobuf"]

MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_POINTERS: Final = ("io.k8s.api.resource.v1.DeviceAttribute",)
"""Messages whose texts are only written where they are set."""


class ProtobufError(Exception):
    """Bytes that are not protobuf, or not a Kubernetes object's."""


_Value: TypeAlias = int | bytes


def read_protobuf(body: bytes, schema: Schema) -> JSON:
    """The object in a request's body.

    Raises:
        ProtobufError: there is none.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_raw_fields(body[len(MAGIC) :]))
    type_meta = dict(_raw_fields(_bytes(envelope.get(1, b""))))
    found = {"apiVersion": _text(type_meta), "kind": _bytes(type_meta.get(2, b"")).decode()}
    return {**found, **_message(_bytes(envelope.get(2, b"")), schema, name_of(schema))}


@cache
def numbers_by_field() -> Mapping[str, Mapping[str, Any]]:
    """By message: the number of each field; number and name of a message whose fields JSON has in the object itself."""
    found: Mapping[str, Mapping[str, Any]] = json.loads(
        resources.files(__package__).joinpath("field_numbers.json").read_text()
    )
    return found


@cache
def _fields_by_number() -> Mapping[str, Mapping[int, tuple[str, str]]]:
    """By message and number: a field, or the message whose fields JSON has in the object itself."""
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for message, fields in numbers_by_field().items():
        entries = found.setdefault(message, {})
        for field, number in fields.items():
            if isinstance(number, list):
                entries[number[0]] = ("", number[1])
            else:
                entries[number] = (field, "")
    return found


def _message(content: bytes, schema: Schema, name: str) -> JSON:
    fields = _fields_by_number().get(name, {})
    found: JSON = {}
    for number, value in _raw_fields(content):
        field, embedded = fields.get(number, ("", ""))
        inner = schema.get("properties", {}).get(field)
        if embedded:
            found |= _message(_bytes(value), schema, embedded)
        elif inner is None:
            continue
        elif inner.get("type") == "array":
            found.setdefault(field, []).append(_field_value(value, inner["items"]))
        elif "additionalProperties" in inner:
            entry = dict(_raw_fields(_bytes(value)))
            key = _bytes(entry.get(1, b"")).decode()
            found.setdefault(field, {})[key] = _field_value(entry.get(2, b""), inner["additionalProperties"])
        else:
            found[field] = _field_value(value, inner)
    if name in _POINTERS:
        return found
    # Go writes empty texts and lists of numbers as they are: what JSON leaves out is left out here.
    return {field: value for field, value in found.items() if value not in ("", None)}


def _field_value(value: _Value, schema: Schema) -> Any:
    name = plain_name(schema.get("$ref", ""))
    if name in _SPECIAL:
        return _SPECIAL[name](dict(_raw_fields(_bytes(value))))
    if name:
        return _message(_bytes(value), resolved(schema), name)
    match schema.get("type"):
        case "string":
            content = _bytes(value)
            return base64.b64encode(content).decode() if schema.get("format") == "byte" else content.decode()
        case "boolean":
            return bool(value)
        case "integer":
            return _signed(value)
        case _:
            raise ProtobufError(f"proto: no number expected of type {schema.get('type')}")


def _raw_fields(content: bytes) -> Iterator[tuple[int, _Value]]:
    """The fields of a message: numbers of varints and contents of the rest."""
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        match tag & 7:
            case 0:
                value, at = _varint(content, at)
                yield tag >> 3, value
                continue
            case 1:
                length = 8
            case 2:
                length, at = _varint(content, at)
            case 5:
                length = 4
            case wire_type:
                raise ProtobufError(f"proto: illegal wireType {wire_type}")
        if at + length > len(content):
            raise ProtobufError("unexpected EOF")
        yield tag >> 3, content[at : at + length]
        at += length


def _varint(content: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(content):
            raise ProtobufError("unexpected EOF")
        if shift > 63:
            raise ProtobufError("proto: integer overflow")
        byte = content[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def _signed(value: _Value) -> int:
    if not isinstance(value, int):
        raise ProtobufError("proto: wrong wireType")
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: _Value) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("proto: wrong wireType")
    return value


def _date(fields: Mapping[int, _Value]) -> str | None:
    if not fields:
        return None
    return (_EPOCH + timedelta(seconds=_signed(fields.get(1, 0)))).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_date(fields: Mapping[int, _Value]) -> str | None:
    if not fields:
        return None
    date = _EPOCH + timedelta(seconds=_signed(fields.get(1, 0)), microseconds=_signed(fields.get(2, 0)) // 1000)
    return date.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _text(fields: Mapping[int, _Value]) -> str:
    return _bytes(fields.get(1, b"")).decode()


def _int_or_string(fields: Mapping[int, _Value]) -> int | str:
    return _bytes(fields.get(3, b"")).decode() if fields.get(1) else _signed(fields.get(2, 0))


def _raw_json(fields: Mapping[int, _Value]) -> Any:
    return json_document(_bytes(fields.get(1, b"null")))


_SPECIAL: Final[Mapping[str, Callable[[Mapping[int, _Value]], Any]]] = {
    f"{META}Time": _date,
    f"{META}MicroTime": _micro_date,
    f"{META}FieldsV1": _raw_json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _text,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
}
