"""Objects as protobuf, for clients that prefer it to JSON: client-go does for all built-in kinds.

What `protobuf` reads is written here: the types are those of the schema, the numbers those of ``field_numbers.json``.

Source: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go, and the ``generated.proto`` of the
kinds (kubernetes v1.34.4).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ...objects.objects import JSON
from .definitions import Schema, definition, name_of, plain_name, resolved, schema_of
from .protobuf import MAGIC, META, numbers_by_field

__all__ = ["framed_event", "written_list", "written_metadata", "written_object", "written_status"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LENGTH_BYTES: Final = 4


def written_object(obj: JSON, schema: Schema) -> bytes:
    """An object that names its kind."""
    return _enveloped(obj, _message(obj, schema, name_of(schema)))


def written_list(listed: JSON, schema: Schema) -> bytes:
    """A list of objects of one schema."""
    name = name_of(schema)
    items = (_message(item, schema, name) for item in listed["items"])
    return _enveloped(listed, _list(listed, items))


def written_metadata(content: JSON) -> bytes:
    """A PartialObjectMetadata, or a list of them."""
    if "items" in content:
        items = (_bytes(1, _named(item["metadata"], "ObjectMeta")) for item in content["items"])
        return _enveloped(content, _list(content, items))
    return _enveloped(content, _bytes(1, _named(content["metadata"], "ObjectMeta")))


def written_status(status: JSON) -> bytes:
    """A Status."""
    return written_object(status, schema_of("", "v1", "Status"))


def framed_event(type_: str, obj: bytes) -> bytes:
    """An event of a watch about an object that is written already, after its length.

    Source: staging/src/k8s.io/apimachinery/pkg/util/framer/framer.go, ``NewLengthDelimitedFrameWriter``;
    pkg/apis/meta/v1/generated.proto, ``WatchEvent`` (kubernetes v1.34.4).
    """
    event = _bytes(1, type_.encode()) + _bytes(2, _bytes(1, obj))
    return len(event).to_bytes(_LENGTH_BYTES, "big") + event


def _enveloped(obj: JSON, content: bytes) -> bytes:
    type_meta = _bytes(1, obj["apiVersion"].encode()) + _bytes(2, obj["kind"].encode())
    return MAGIC + _bytes(1, type_meta) + _bytes(2, content) + _bytes(3, b"") + _bytes(4, b"")


def _list(listed: JSON, items: Iterable[bytes]) -> bytes:
    return _bytes(1, _named(listed["metadata"], "ListMeta")) + b"".join(_bytes(2, item) for item in items)


def _named(obj: JSON, name: str) -> bytes:
    return _message(obj, definition(f"{META}{name}"), f"{META}{name}")


def _message(obj: JSON, schema: Schema, name: str) -> bytes:
    found = bytearray()
    for field, number in numbers_by_field().get(name, {}).items():
        if isinstance(number, list):
            # JSON has the fields of this message in the object itself.
            found += _bytes(number[0], _message(obj, schema, number[1]))
        elif obj.get(field) is not None and field in schema["properties"]:
            found += _field(number, obj[field], schema["properties"][field])
    return bytes(found)


def _field(number: int, value: Any, schema: Schema) -> bytes:
    if schema.get("type") == "array":
        return b"".join(_value(number, item, schema["items"]) for item in value)
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        entries = (_bytes(1, key.encode()) + _value(2, value[key], inner) for key in sorted(value))
        return b"".join(_bytes(number, entry) for entry in entries)
    return _value(number, value, schema)


def _value(number: int, value: Any, schema: Schema) -> bytes:
    name = plain_name(schema.get("$ref", ""))
    if name in _SPECIAL:
        return _bytes(number, _SPECIAL[name](value))
    if name:
        return _bytes(number, _message(value, resolved(schema), name))
    match schema["type"]:
        case "string":
            is_coded = schema.get("format") == "byte"
            return _bytes(number, base64.b64decode(value) if is_coded else value.encode())
        case _:
            return _number(number, int(value))


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value % (1 << 64))


def _bytes(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _date(text: str) -> bytes:
    since = datetime.fromisoformat(text) - _EPOCH
    seconds = since // timedelta(seconds=1)
    return _number(1, seconds) + _number(2, (since - timedelta(seconds=seconds)) // timedelta(microseconds=1) * 1000)


def _whole_date(text: str) -> bytes:
    return _number(1, (datetime.fromisoformat(text) - _EPOCH) // timedelta(seconds=1)) + _number(2, 0)


def _quantity(text: str) -> bytes:
    return _bytes(1, text.encode())


def _int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return _number(1, 1) + _number(2, 0) + _bytes(3, value.encode())
    return _number(1, 0) + _number(2, value) + _bytes(3, b"")


def _raw_json(value: Any) -> bytes:
    return _bytes(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


_SPECIAL: Final[Mapping[str, Callable[[Any], bytes]]] = {
    f"{META}Time": _whole_date,
    f"{META}MicroTime": _date,
    f"{META}FieldsV1": _raw_json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
}
