"""How large objects are in etcd, which refuses those that are larger than its limit for a request.

Source: etcd server/etcdserver/v3_server.go, ``processInternalRaftRequestOnce``; server/embed/config.go,
``DefaultMaxRequestBytes`` (v3.6.4).
"""

from __future__ import annotations

import json
from itertools import starmap, zip_longest
from typing import Any, Final, NamedTuple

from .objects import JSON

__all__ = ["TOO_LARGE", "Sized", "is_too_large", "sized"]

TOO_LARGE: Final = "etcdserver: request is too large"
_MOST_STORED_BYTES: Final = 3 * 512 * 1024
_MOST_FIELDS: Final = 64
"""More than any type of the API has; what has more is a map."""


class Sized(NamedTuple):
    """A state of an object, and how large it is in etcd."""

    object: JSON
    size: int

    @property
    def is_too_large(self) -> bool:
        """Whether etcd would refuse it."""
        return self.size > _MOST_STORED_BYTES


def sized(new: JSON, before: Sized | None) -> Sized:
    """A state with its size; quick where it shares most of its parts with the one before."""
    return Sized(new, _stored_bytes(new) if before is None else before.size + _growth(new, before.object))


def is_too_large(new: JSON) -> bool:
    """Whether etcd would refuse an object as it is stored, so with its defaults and with who manages which field."""
    return _stored_bytes(new) > _MOST_STORED_BYTES


def _stored_bytes(value: object) -> int:
    """About how long a value is in etcd, in protobuf, where each value has two bytes or more before it.

    Names of fields are numbers there, those of a map are texts. The only JSON there is who manages which field.

    Source: staging/src/k8s.io/api/core/v1/generated.pb.go, ``MarshalToSizedBuffer`` (kubernetes v1.34.4).
    """
    if isinstance(value, str):
        return 2 + len(value)
    if isinstance(value, list):
        return sum(map(_stored_bytes, value))
    if isinstance(value, int):
        # Seven bits a byte.
        return 1 + max(1, -(-value.bit_length() // 7))
    if not isinstance(value, dict):
        return 0
    size = 2 + sum(map(_stored_bytes, value.values()))
    if len(value) > _MOST_FIELDS:
        return size + sum(4 + len(name) for name in value)
    if "fieldsV1" in value:
        size += len(json.dumps(value["fieldsV1"], separators=(",", ":"))) - _stored_bytes(value["fieldsV1"])
    return size


def _growth(new: Any, old: Any) -> int:
    """By how much a value is larger than another one; what both share is not looked into."""
    if new is old:
        return 0
    if isinstance(new, dict) and isinstance(old, dict) and _is_plain(new) and _is_plain(old):
        gone = sum(_stored_bytes(inner) for name, inner in old.items() if name not in new)
        return sum(_growth(inner, old.get(name)) for name, inner in new.items()) - gone
    if isinstance(new, list) and isinstance(old, list):
        return sum(starmap(_growth, zip_longest(new, old)))
    return _stored_bytes(new) - _stored_bytes(old)


def _is_plain(value: JSON) -> bool:
    return len(value) <= _MOST_FIELDS and "fieldsV1" not in value
