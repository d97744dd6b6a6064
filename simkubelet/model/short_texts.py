"""Results that are kept by a text of a client, which may be a megabyte."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

__all__ = ["cached_if_short"]

_T = TypeVar("_T")
_KEPT: Final = 1024
_LONGEST: Final = 256


def cached_if_short(function: Callable[[str], _T]) -> Callable[[str], _T]:
    """Keep what a function of one text gave for the latest 1,024 texts that are short; for a long one it is called."""
    cached = lru_cache(_KEPT)(function)

    @wraps(function)
    def call(text: str) -> _T:
        return cached(text) if len(text) <= _LONGEST else function(text)

    return call
