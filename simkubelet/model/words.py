"""Numbers of things in words, wherever somebody reads them."""

from __future__ import annotations

__all__ = ["number_of"]


def number_of(count: int, one: str, several: str = "") -> str:
    """A number of things: ``1 story``, ``2 stories``, ``1,000 stories``.

    Args:
        count: How many.
        one: The word for one of them.
        several: The word for any other number, where that is not `one` with an s.
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
