"""Whole numbers in what others send: Python's own reading takes spaces, underscores, and the digits of all scripts."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["parse_int"]

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]+)")
_MOST_DIGITS: Final = 19
"""Of a number with 64 bits."""


def parse_int(text: str, bits: int = 64) -> int:
    """Read a decimal number with a sign, of so many bits.

    Raises:
        ValueError: it is none, or too large; the message is Go's.

    Source: Go's ``strconv.ParseInt`` (go 1.24).
    """
    found = _INTEGER.fullmatch(text)
    if not found:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    largest = 1 << (bits - 1)
    number = int(f"{found[1]}{found[2]}") if len(found[2]) <= _MOST_DIGITS else largest
    if not -largest <= number < largest:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number
