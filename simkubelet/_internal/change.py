"""Waiting for a change, or for the first of several things."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import Generic, TypeVar

from .doors import Door

__all__ = ["Change", "Noted", "first_done"]

K = TypeVar("K", bound=Hashable)


class Change:
    """A counter that can be waited on: nobody misses a change that came between a look and the wait."""

    def __init__(self) -> None:
        self._count = 0
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def count(self) -> int:
        return self._count

    def notify(self) -> None:
        self._count += 1
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seen: int) -> int:
        """Return the count as soon as it is above `seen`."""
        while self._count <= seen:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return self._count


class Noted(Generic[K]):
    """Keys of what is to be looked at, each once however often it was noted meanwhile, in the order of the first."""

    def __init__(self, keys: Iterable[K] = ()) -> None:
        self._keys = dict.fromkeys(keys)
        self._change = Change()

    def note(self, key: K) -> None:
        self._keys[key] = None
        self._change.notify()

    async def look_at_each(
        self, look: Callable[[K], None], door: Door, record: Callable[[K, str], object] = lambda key, error: None
    ) -> None:
        """Look at what is noted, now and later, until cancelled; `record` takes what fails, and why."""
        while True:
            seen = self._change.count
            keys, self._keys = self._keys, {}
            for key in keys:
                with door(key, partial(record, key)):
                    look(key)
            await self._change.wait(seen)


async def first_done(*waits: Awaitable[object]) -> None:
    """Return when the first is done; the others are cancelled then, and all where this call is."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
