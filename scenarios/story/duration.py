"""Spans of time as stories write them: ``200ms``, ``10s``, ``5m``, ``1h30m``; whole milliseconds, seconds inside."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

_PATTERN = r"^(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$"
_MAX_S = 7 * 24 * 3600
_MAX_DIGITS = 12
_UNITS_MS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def parse_duration(text: object) -> float:
    """Read a duration such as ``1h30m`` and return seconds; anything else is a `ValueError`."""
    match = re.match(_PATTERN, text, re.ASCII) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"expected a duration like 200ms, 10s, 5m or 1h30m; found {text!r}")
    if any(len(count or "") > _MAX_DIGITS for count in match.groups()):
        raise ValueError(f"expected a duration of at most {_MAX_S // 3600}h")
    amounts_ms = (int(count or 0) * size_ms for count, size_ms in zip(match.groups(), _UNITS_MS.values(), strict=True))
    seconds = sum(amounts_ms) / 1000
    if seconds > _MAX_S:
        raise ValueError(f"expected a duration of at most {_MAX_S // 3600}h; found {text!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds as a story would, rounded to whole milliseconds: ``5400.0`` becomes ``1h30m``."""
    rest_ms = round(seconds * 1000)
    parts = []
    for unit, size_ms in _UNITS_MS.items():
        count, rest_ms = divmod(rest_ms, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _validated(text: object) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise PydanticCustomError("duration", "{reason}", {"reason": str(error)}) from error


Duration = Annotated[
    float,
    BeforeValidator(_validated),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _PATTERN, "examples": ["200ms", "10s", "5m", "1h30m"]}),
]
"""A pydantic field that reads a duration and holds seconds."""
