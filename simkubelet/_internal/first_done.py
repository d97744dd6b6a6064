"""Waiting for whichever of several things comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

__all__ = ["first_done"]


async def first_done(*waits: Awaitable[object]) -> None:
    """Return when the first is done; the others are cancelled then, and all where this call is."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
