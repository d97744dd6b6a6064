"""Waits for conditions of a cluster that nothing notifies of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from simkubelet.model.errors import HostError

_LOOK_AGAIN_S: Final = 0.2


async def until(condition: Callable[[], Awaitable[bool]], within_s: float, complaint: str | Callable[[], str]) -> None:
    """Check a condition several times a second; return as soon as it holds.

    Args:
        condition: What to check.
        within_s: How long to wait for it; it is checked at least once.
        complaint: What does not happen, or a function that says it, called when the time is over.

    Raises:
        HostError: It does not hold in time: the complaint, and the time.
    """
    limit = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > limit:
            raise HostError(f"{complaint if isinstance(complaint, str) else complaint()} within {within_s:g} s")
        await asyncio.sleep(_LOOK_AGAIN_S)
