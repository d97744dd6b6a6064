"""What a story writes for the values that it expects: devices, quantities, texts, mounts, events, a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, LiteralString

from pydantic import BaseModel, Discriminator, Field, PlainValidator, StrictBool, StrictStr, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from .part import FilledPart, Name, ResourceName

ABSENT: Literal["absent"] = "absent"
"""The word for what is not named at all, which is not 0 of it."""

_WORD = "(word)"
_MAPPING = "(mapping)"
_LIST = "(list)"

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


def _word_or_mapping(value: object) -> str | None:
    """The tag of a word in whose place a mapping may stand, and of that; None for anything else."""
    if isinstance(value, str):
        return _WORD
    return _MAPPING if isinstance(value, Mapping | BaseModel) else None


def _word_or_list(value: object) -> str | None:
    """The same for a list."""
    return _LIST if isinstance(value, list | tuple) else _WORD if isinstance(value, str) else None


ListedDevices = Annotated[
    Annotated[Literal["absent"], Tag(_WORD)] | Annotated[Mapping[ResourceName, PlacedDevices], Tag(_MAPPING)],
    Discriminator(
        _word_or_mapping,
        custom_error_type="listed",
        custom_error_message="expected resources and their devices, or 'absent'",
    ),
]
"""What an API lists by resource, or that it does not list the one it is about."""

AnsweredDevices = Annotated[
    Annotated[StrictStr, Tag(_WORD)] | Annotated[Mapping[ResourceName, PlacedDevices], Tag(_MAPPING)],
    Discriminator(
        _word_or_mapping,
        custom_error_type="answered",
        custom_error_message="expected resources and their devices, or the text of an error",
    ),
]
"""What an API answers by resource, or the text with which it refuses."""


def _count_or_absent(value: object) -> object:
    if _is_absent(value) or _is_count(value):
        return value
    raise PydanticCustomError("quantity", "expected a whole number of devices or 'absent'")


Quantity = Annotated[
    int | Literal["absent"],
    PlainValidator(_count_or_absent),
    WithJsonSchema({"anyOf": [_COUNT, {"const": ABSENT}]}),
]


_MAYBE = r"^[0-9]+\?$"


def _count_or_maybe(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(_MAYBE, value):
        return value
    if _is_count(value):
        return value
    raise PydanticCustomError("past", 'expected a whole number of devices, or as "0?" one that may be left out')


PastQuantity = Annotated[
    int | str,
    PlainValidator(_count_or_maybe),
    WithJsonSchema({"anyOf": [_COUNT, {"type": "string", "pattern": _MAYBE}]}),
]
"""A quantity that was published, or with a question mark one that may have been."""


_MINOR = r"^[0-9]+\.[0-9]+$"


def _text_or_texts(value: object) -> object:
    texts = value.items() if isinstance(value, Mapping) and value else [("1.0", value)]
    if all(re.fullmatch(_MINOR, minor) and isinstance(text, str) for minor, text in texts):
        return value
    raise PydanticCustomError("message", "expected a text, or a mapping of quoted minor versions to texts")


Message = Annotated[
    str | Mapping[str, str],
    PlainValidator(_text_or_texts),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "minProperties": 1,
                    "patternProperties": {_MINOR: {"type": "string"}},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""A text, or the texts by the minor version that began to say it so."""

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
"""Phase of a pod."""


class ExpectedMount(FilledPart):
    """A mount of a container; what is left out may be anything.

    Attributes:
        host_path: The path on the node.
        read_only: Whether the container can only read it.
    """

    host_path: StrictStr | None = None
    read_only: StrictBool | None = None


class ExpectedDeviceNode(FilledPart):
    """A device file of a container, the same way; `permissions` are the letters that its plugin gave.

    Attributes:
        host_path: The path on the node.
        permissions: Letters of `r`, `w` and `m`, in the order that the plugin gave.
    """

    host_path: StrictStr | None = None
    permissions: StrictStr | None = None


Mounts = Mapping[
    StrictStr,
    Annotated[
        Annotated[StrictStr, Tag(_WORD)] | Annotated[ExpectedMount, Tag(_MAPPING)],
        Discriminator(
            _word_or_mapping,
            custom_error_type="mount",
            custom_error_message="expected the path on the node, or a mapping with 'hostPath' and 'readOnly'",
        ),
    ],
]
"""Path in the container -> path on the node, or more about the mount."""

DeviceNodes = Mapping[
    StrictStr,
    Annotated[
        Annotated[StrictStr, Tag(_WORD)] | Annotated[ExpectedDeviceNode, Tag(_MAPPING)],
        Discriminator(
            _word_or_mapping,
            custom_error_type="device",
            custom_error_message="expected the path on the node, or a mapping with 'hostPath' and 'permissions'",
        ),
    ],
]
"""Path in the container -> path on the node, or more about the device file."""


class EventPattern(FilledPart):
    """A Kubernetes Event; what is left out may be anything.

    Attributes:
        type: Normal or Warning.
        reason: Such as `FailedScheduling`.
        message: The whole text, or a text for each minor.
    """

    type: Literal["Normal", "Warning"] | None = None
    reason: StrictStr | None = None
    message: Message | None = None


Health = Literal["Healthy", "Unhealthy", "Unknown", "absent"]
"""Health of a device in a pod's status; ``absent`` where the status does not name the device."""

PodEntries = Annotated[
    Annotated[Literal["absent"], Tag(_WORD)]
    | Annotated[Mapping[StrictStr, Mapping[ResourceName, Devices]], Tag(_MAPPING)],
    Discriminator(
        _word_or_mapping,
        custom_error_type="entries",
        custom_error_message="expected containers and their devices by resource, or 'absent'",
    ),
]


ClaimUsers = Annotated[
    Annotated[Literal["absent"], Tag(_WORD)] | Annotated[tuple[Name, ...], Tag(_LIST)],
    Discriminator(
        _word_or_list,
        custom_error_type="users",
        custom_error_message="expected the list of the pods that use the claim, or 'absent'",
    ),
]
"""The pods that use a claim, or that the kubelet does not know it."""


class CheckpointContent(FilledPart):
    """What a checkpoint says.

    Attributes:
        pods: Pod -> container -> resource -> the devices that it was given; ``absent`` where there is no entry.
        registered: Resource -> its healthy devices; ``absent`` where it is not named.
    """

    pods: Mapping[Name, PodEntries] = Field(default_factory=dict)
    registered: Mapping[ResourceName, DevicesOrAbsent] = Field(default_factory=dict)


ExpectedCheckpoint = Annotated[
    Annotated[Literal["absent", "corrupt"], Tag(_WORD)] | Annotated[CheckpointContent, Tag(_MAPPING)],
    Discriminator(
        _word_or_mapping,
        custom_error_type="checkpoint",
        custom_error_message="expected 'pods' and 'registered', or 'absent', or 'corrupt'",
    ),
]
