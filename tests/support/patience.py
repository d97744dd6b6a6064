"""How long tests wait for what must happen: one limit, and one way to wait for what reports no event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["LIMIT_S", "until"]

LIMIT_S: Final = 60.0
"""A guard only, for a busy machine: nothing waits for it to pass."""
_POLL_S: Final = 0.01


async def until(condition: Callable[[], object], expected: Callable[[], str] | None = None) -> None:
    """Wait until something is so that other processes or threads bring about.

    Args:
        condition: It is asked again and again.
        expected: What is said where it does not come true.

    Raises:
        AssertionError: The limit has passed.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise AssertionError(expected() if expected else "it does not come true") from None
