"""What a story writes for quantities and texts that it expects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from .expected_devices import ABSENT


def _count_or_absent(value: object) -> object:
    if value == ABSENT or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise PydanticCustomError("quantity", "expected a whole number of devices or 'absent'")


Quantity = Annotated[
    int | Literal["absent"],
    PlainValidator(_count_or_absent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": ABSENT}]}),
]


_MAYBE = r"^[0-9]+\?$"


def _count_or_maybe(value: object) -> object:
    if isinstance(value, str) and re.match(_MAYBE, value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise PydanticCustomError("past", 'expected a whole number of devices, or as "0?" one that may be left out')


PastQuantity = Annotated[
    int | str,
    PlainValidator(_count_or_maybe),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _MAYBE}]}),
]
"""A quantity that was published, or with a question mark one that may have been."""


_MINOR = r"^[0-9]+\.[0-9]+$"


def _text_or_texts(value: object) -> object:
    texts = value.items() if isinstance(value, Mapping) and value else [("1.0", value)]
    if all(re.match(_MINOR, minor) and isinstance(text, str) for minor, text in texts):
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
