"""How long tests wait for what must happen: the limits, and how to wait for what reports no event.

A test has a limit of its own only where that number is the behaviour under test.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["ASKED_LIMIT_MS", "LIMIT_S", "PROGRAM_LIMIT_S", "eventually", "until"]

LIMIT_S: Final = 120
"""A guard only, for a busy machine: nothing waits for it to pass."""
ASKED_LIMIT_MS: Final = LIMIT_S * 900
"""The same for a program that is asked to wait: it says what it saw before the one who asks gives up."""
PROGRAM_LIMIT_S: Final = 500
"""The same for a program with much to do, as one that plays stories; pytest allows a test a little more."""
_POLL_S: Final = 0.002

Condition = Callable[[], object]
Complaint = Callable[[], str]


def _never() -> str:
    return "it does not come true"


async def until(condition: Condition, complaint: Complaint = _never) -> None:
    """Wait for a condition that other processes or threads bring about, and let other tasks run meanwhile.

    Args:
        condition: It is asked again and again.
        complaint: Returns the failure's text where the condition does not come true.

    Raises:
        AssertionError: The limit has passed.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            while not condition():  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise AssertionError(complaint()) from None


def eventually(condition: Condition, complaint: Complaint = _never) -> None:
    """Wait as `until` does, in a test without an event loop."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, complaint()
        time.sleep(_POLL_S)
