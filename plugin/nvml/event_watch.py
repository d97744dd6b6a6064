"""Waits for events of GPUs, in a thread, as that wait cannot be awaited.

All plugins that look for XIDs use it; each says which events it subscribes to and what it makes of them. NVML offers no
way to end a wait early, so a stopped thread stays until its wait of 5 s is over: it holds its own NVML session, touches
nothing after that, and as a daemon never delays the exit of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, Generic, TypeVar

from .nvml import EventSet, Nvml, NvmlError, NvmlEvent

__all__ = ["WatchInitError", "event_reports"]

_Report = TypeVar("_Report")

_WAIT_MS: Final = 5000


class WatchInitError(NvmlError):
    """NVML cannot be initialised."""


async def event_reports(
    nvml: Nvml,
    subscribe: Callable[[EventSet], Sequence[_Report]],
    judge: Callable[[NvmlEvent | NvmlError], _Report | None],
) -> AsyncGenerator[_Report, None]:
    """What `subscribe` reports, once no event can be missed any more, then what `judge` makes of each wait.

    Both are called in the thread. `judge` gets the event, or the error that ended a wait, a timeout included; None is
    not reported.

    The thread does not wait for the next event while there are reports that nobody has taken: a wait that fails at once
    would fill the memory with them.

    Raises:
        WatchInitError: before the first report.
        NvmlError: there is no event set, or `subscribe` raises it; before the first report.
    """
    watcher = _Watcher(nvml, subscribe, judge)
    threading.Thread(target=watcher.run, name="gpu events", daemon=True).start()
    try:
        while True:
            report = await watcher.next()
            if isinstance(report, NvmlError):
                raise report
            yield report
    finally:
        watcher.stop()


class _Watcher(Generic[_Report]):
    """`next` and `stop` are called in the event loop, everything else in the thread."""

    def __init__(
        self,
        nvml: Nvml,
        subscribe: Callable[[EventSet], Sequence[_Report]],
        judge: Callable[[NvmlEvent | NvmlError], _Report | None],
    ) -> None:
        self._nvml = nvml
        self._subscribe = subscribe
        self._judge = judge
        self._loop = asyncio.get_running_loop()
        self._reports: asyncio.Queue[_Report | NvmlError] = asyncio.Queue()
        self._has_room = threading.Event()
        self._has_room.set()
        self._lock = threading.Lock()
        self._is_stopped = False

    async def next(self) -> _Report | NvmlError:
        report = await self._reports.get()
        if self._reports.empty():
            self._has_room.set()
        return report

    def stop(self) -> None:
        """Report nothing from now on; the event loop may close afterwards."""
        with self._lock:
            self._is_stopped = True
        self._has_room.set()

    def run(self) -> None:
        try:
            self._nvml.init()
        except NvmlError as error:
            self._report(WatchInitError(error.code, str(error)))
            return
        try:
            self._watch()
        except NvmlError as error:
            self._report(error)
        finally:
            self._nvml.shutdown()

    def _watch(self) -> None:
        events = self._nvml.create_event_set()
        try:
            for report in self._subscribe(events):
                self._report(report)
            while not self._is_stopped:
                self._wait(events)
                self._has_room.wait()
        finally:
            self._nvml.free_event_set(events)

    def _wait(self, events: EventSet) -> None:
        event: NvmlEvent | NvmlError
        try:
            event = self._nvml.wait(events, _WAIT_MS)
        except NvmlError as error:
            event = error
        if not self._is_stopped and (report := self._judge(event)) is not None:
            self._report(report)

    def _report(self, report: _Report | NvmlError) -> None:
        self._has_room.clear()
        with self._lock:
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(self._reports.put_nowait, report)
