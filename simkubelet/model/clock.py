"""The one owner of time on a simulated node.

Everything the kubelet and the scheduler wait for (status period, grace period, back-off) reads a `Clock`. Plugins are
real processes and keep real time, so limits on calls to them (the 10 s dial, the 30 s PreStartContainer) never do.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from itertools import count
from typing import Protocol

__all__ = ["Clock", "ManualClock", "RealClock"]


class Clock(Protocol):
    """Seconds since the clock was made, and waiting in those seconds."""

    def now(self) -> float:
        """Seconds since the clock was made; never goes back."""

    async def sleep(self, delay_s: float) -> None:
        """Return when `delay_s` seconds of this clock have passed."""


class RealClock:
    """Time as it passes, or `rate` times as fast."""

    def __init__(self, rate: float = 1.0) -> None:
        if rate <= 0:
            raise ValueError(f"rate must be above 0, not {rate}")
        self._rate = rate
        self._start = time.monotonic()

    def now(self) -> float:
        return (time.monotonic() - self._start) * self._rate

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s / self._rate)


class ManualClock:
    """Time that stands still until it is advanced.

    An idle event loop does not mean an idle system while calls to plugins are under way, so the clock never jumps
    by itself: the caller that drives the node advances it.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, delay_s: float) -> None:
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + delay_s, next(self._order), woken))
        await woken

    def next_deadline(self) -> float | None:
        """When the earliest sleeper wakes, in seconds of this clock; None without sleepers."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    async def advance(self, delay_s: float) -> None:
        """Let `delay_s` seconds pass, waking every sleeper at its own time and in order.

        A woken task runs before the next one is woken, so a period of 10 s ticks thirty times in five minutes.
        """
        if delay_s < 0:
            raise ValueError(f"time does not go back: {delay_s}")
        # Who is about to sleep does so before time passes.
        await self._let_others_run()
        target = self._now + delay_s
        while (deadline := self.next_deadline()) is not None and deadline <= target:
            self._now = deadline
            heapq.heappop(self._sleepers)[2].set_result(None)
            await self._let_others_run()
        self._now = target

    @staticmethod
    async def _let_others_run() -> None:
        # The sleeper resumes in the first turn of the loop, what it wakes in turn (a change signal and the tasks
        # that wait for it) in the next ones.
        for _ in range(4):
            await asyncio.sleep(0)
