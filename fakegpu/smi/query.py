"""``nvidia-smi --query-gpu=… --format=csv``: chosen properties, one GPU a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .query_properties import ALIASES, PROPERTIES, Property
from .selection import Selected

_OPTIONS: Final = frozenset({"csv", "noheader", "nounits"})
_MISSING: Final = "[N/A]"


class UnknownPropertyError(Exception):
    """A property or a word of the format that there is not."""


def lines(gpus: Selected, wanted: str, form: str | None) -> Iterator[str]:
    """The header, and a line for each GPU.

    Args:
        gpus: which.
        wanted: names of properties with commas between them.
        form: ``csv``, and with commas ``noheader``, ``nounits``.

    Raises:
        UnknownPropertyError: for the first name that is none.
    """
    options = {word.strip() for word in (form or "").split(",")}
    if "csv" not in options or not options <= _OPTIONS:
        raise UnknownPropertyError(f"--format={form or ''}")
    properties = [_find(name.strip()) for name in wanted.split(",")]
    if "noheader" not in options:
        yield ", ".join(f"{name} [{found.unit}]" if found.unit else name for name, found in properties)
    for index, handle in gpus:
        yield ", ".join(_text(found, found.read(index, handle), "nounits" in options) for _, found in properties)


def _find(name: str) -> tuple[str, Property]:
    full = ALIASES.get(name, name)
    if full not in PROPERTIES:
        raise UnknownPropertyError(name)
    return full, PROPERTIES[full]


def _text(found: Property, value: object, without_unit: bool) -> str:
    if value is None:
        return _MISSING
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text if without_unit or not found.unit else f"{text} {found.unit}"
