"""Pauses before another try, and work that is tried until it succeeds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from .._internal.change import Change
from .._internal.doors import Door
from ..model.clock import Clock
from .client import ApiError

__all__ = ["BackOff", "WorkQueue"]

_WORK: Final = Door("write to the API server", ApiError)
_FIRST_S: Final = 0.1
_LONGEST_S: Final = 10.0
_IN_FLIGHT: Final = 50
_Key = TypeVar("_Key", bound=Hashable)


class BackOff:
    """Pauses that double, each shorter by up to half so that many clients do not come back together."""

    def __init__(self, first_s: float = _FIRST_S, longest_s: float = _LONGEST_S) -> None:
        self._first_s = self._next_s = first_s
        self._longest_s = longest_s

    def next_s(self, asked_s: float = 0.0) -> float:
        """Return the next pause, at least as long as the server has asked for."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._longest_s)
        return max(asked_s, pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, guards nothing

    def reset(self) -> None:
        """Begin with the first pause again: a try has succeeded."""
        self._next_s = self._first_s


class WorkQueue(Generic[_Key]):
    """Brings things to the state in which they should be: one try at a time for each key, until one succeeds.

    What a key is about is looked up by the work, so a key that is added several times while the server is away is
    worked on once.

    Args:
        work: what is done for a key. An `ApiError` that may pass leads to another try, any other ends the work; where
            failures are contained, any other exception leads to another try.
        tasks: owns the tries.
        clock: the time of the pauses.
        complain: called with what went wrong, once for each error in a row.
    """

    def __init__(
        self,
        work: Callable[[_Key], Awaitable[None]],
        tasks: asyncio.TaskGroup,
        clock: Clock,
        complain: Callable[[str], None],
    ) -> None:
        self._work = work
        self._tasks = tasks
        self._clock = clock
        self._complain = complain
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._running: dict[_Key, asyncio.Task[None]] = {}
        self._again: set[_Key] = set()
        self._change = Change()

    def add(self, key: _Key) -> None:
        """Have a key worked on, again if that happens now."""
        if key in self._running:
            self._again.add(key)
        else:
            self._running[key] = self._tasks.create_task(self._run(key), name=f"write of {key}")

    async def until_done(self) -> None:
        """Return when nothing is left to do."""
        while self._running:
            await self._change.wait(self._change.count)

    async def close(self) -> None:
        """Give up what is left."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, key: _Key) -> None:
        try:
            while True:
                self._again.discard(key)
                await self._until_it_succeeds(key)
                if key not in self._again:
                    return
        finally:
            self._again.discard(key)
            del self._running[key]
            self._change.notify()

    async def _until_it_succeeds(self, key: _Key) -> None:
        back_off, complaint = BackOff(), ""
        while True:
            try:
                async with self._slots:
                    with _WORK(key) as passage:
                        await self._work(key)
                if passage.error is None:
                    return
                await self._clock.sleep(back_off.next_s())
            except ApiError as error:
                if str(error) != complaint and error.status:
                    complaint = str(error)
                    self._complain(complaint)
                if not error.may_pass:
                    return
                await self._clock.sleep(back_off.next_s(error.retry_after_s))
