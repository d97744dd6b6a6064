"""How a story says which devices it expects: how many, which ones, or which ones with their NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal, LiteralString

from pydantic import BaseModel, Discriminator, PlainValidator, StrictStr, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from ..part import ResourceName

ABSENT: Literal["absent"] = "absent"
"""The word for what is not named at all, which is not 0 of it."""

WORD = "(word)"
MAPPING = "(mapping)"

_COUNT = {"type": "integer", "minimum": 0}
_IDS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_NODES = {"type": "object", "additionalProperties": {"type": "array", "items": _COUNT}}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value) and len(set(value)) == len(value)


def _are_on_nodes(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(device, str) and isinstance(nodes, list) and all(map(_is_count, nodes))
        for device, nodes in value.items()
    )


def _is_absent(value: object) -> bool:
    return value == ABSENT


def _one_of(expected: LiteralString, *kinds: Callable[[object], bool]) -> PlainValidator:
    def check(value: object) -> object:
        if any(is_of_kind(value) for is_of_kind in kinds):
            return value
        raise PydanticCustomError("devices", expected)

    return PlainValidator(check)


Devices = Annotated[
    int | list[str],
    _one_of("expected a number of devices, or the list of their ids", _is_count, _are_ids),
    WithJsonSchema({"anyOf": [_COUNT, _IDS]}),
]
"""How many, or which ones in any order."""

DevicesOrAbsent = Annotated[
    int | list[str] | Literal["absent"],
    _one_of("expected a number of devices, the list of their ids, or 'absent'", _is_count, _are_ids, _is_absent),
    WithJsonSchema({"anyOf": [_COUNT, _IDS, {"const": ABSENT}]}),
]
"""The same, or that the resource is not named."""

PlacedDevices = Annotated[
    int | list[str] | Mapping[str, list[int]],
    _one_of(
        "expected a number of devices, the list of their ids, or a mapping of ids to lists of NUMA nodes",
        _is_count,
        _are_ids,
        _are_on_nodes,
    ),
    WithJsonSchema({"anyOf": [_COUNT, _IDS, _NODES]}),
]
"""How many, which ones, or which ones on which NUMA nodes; a device without topology is on none."""


def word_or_mapping(value: object) -> str | None:
    """The tag of a word in whose place a mapping may stand, and of that; None for anything else."""
    if isinstance(value, str):
        return WORD
    return MAPPING if isinstance(value, Mapping | BaseModel) else None


ListedDevices = Annotated[
    Annotated[Literal["absent"], Tag(WORD)] | Annotated[Mapping[ResourceName, PlacedDevices], Tag(MAPPING)],
    Discriminator(
        word_or_mapping,
        custom_error_type="listed",
        custom_error_message="expected resources and their devices, or 'absent'",
    ),
]
"""What an API lists by resource, or that it does not list the one it is about."""

ToldDevices = Annotated[
    Annotated[StrictStr, Tag(WORD)] | Annotated[Mapping[ResourceName, PlacedDevices], Tag(MAPPING)],
    Discriminator(
        word_or_mapping,
        custom_error_type="told",
        custom_error_message="expected resources and their devices, or the text of an error",
    ),
]
"""What an API answers by resource, or the text with which it refuses."""
