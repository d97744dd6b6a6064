"""Tries of pods in a thread, while the cluster goes on.

What the scheduler knows stays as it was when the try began: what is written meanwhile is taken afterwards, in order. A
real scheduler tries a pod on a snapshot, too, and applies to the pod afterwards what has happened.

The interpreter changes between threads every 5 ms: an answer of the API server takes some of these turns. An expression
ends at its next step where the scheduler is stopped, so that no thread is left.

Source: pkg/scheduler/backend/cache/cache.go, ``UpdateSnapshot``; backend/queue/active_queue.go,
``addEventIfAnyInFlight`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from ..objects.objects import Objects, Subscriber, Written

__all__ = ["TryThread"]

_T = TypeVar("_T")


class TryThread:
    """Holds writes back during a try.

    Args:
        objects: the cluster's.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._missed: deque[tuple[Subscriber, Written]] | None = None

    def subscriber(self, follow: Subscriber) -> Subscriber:
        """What takes the writes to a kind in the place of `follow`, which is called with each one, if later."""

        def take(written: Written) -> None:
            if self._missed is None:
                follow(written)
            else:
                self._missed.append((follow, written))

        return take

    async def run(self, work: Callable[[], _T], stop: Callable[[], None]) -> _T:
        """Work in a thread. Writes are held back from now on until `catch_up`.

        Args:
            work: uses nothing that changes but by the writes.
            stop: ends it early, where the caller is cancelled; it is waited for.
        """
        if self._missed is None:
            self._missed = deque()
        thread = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            stop()
            await asyncio.gather(thread, return_exceptions=True)
            raise

    async def catch_up(self) -> None:
        """Take the writes that were held back, and those that come meanwhile."""
        while self._missed:
            follow, written = self._missed.popleft()
            self._objects.deliver(written, follow)
            # They may be many.
            await asyncio.sleep(0)
        self._missed = None
