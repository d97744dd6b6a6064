"""Waits for what a cluster tells nobody, by looking again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from simkubelet.model.errors import HostError

_LOOK_AGAIN_S: Final = 0.2


async def until(is_so: Callable[[], Awaitable[bool]], within_s: float, complaint: str) -> None:
    """Return as soon as something is so.

    Raises:
        HostError: It is not so in time: the complaint, and the time.
    """
    limit = time.monotonic() + within_s
    while not await is_so():
        if time.monotonic() > limit:
            raise HostError(f"{complaint} within {within_s:g} s")
        await asyncio.sleep(_LOOK_AGAIN_S)
