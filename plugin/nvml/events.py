"""Waits for events of GPUs, and decides which XIDs matter to the health of a GPU.

NVML's wait blocks, so it runs in a thread. All plugins that look for XIDs use it; each says which events it subscribes
to and what it makes of them. NVML offers no way to end a wait early, so a stopped thread stays until its wait of 5 s is
over: it holds its own NVML session, touches nothing after that, and as a daemon never delays the exit of the process.

Source: internal/rm/health.go, ``getDisabledHealthCheckXids`` (k8s-device-plugin v0.19.0), for `XidPolicy`. Where its
comment and its code differ, the code is followed: ``all`` disabled stays disabled, whatever single XIDs are enabled,
and 0 acts as ``all``.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from .nvml import EventSet, Nvml, NvmlError, NvmlEvent

__all__ = ["APPLICATION_XIDS", "DISABLE_VARIABLE", "ENABLE_VARIABLE", "WatchInitError", "XidPolicy", "event_reports"]

DISABLE_VARIABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENABLE_VARIABLE: Final = "DP_ENABLE_HEALTHCHECKS"

APPLICATION_XIDS: Final = frozenset((13, 31, 43, 45, 68, 109))
"""Errors of an application, after which the GPU is as good as before."""

_ALL: Final = 0
_LARGEST_XID: Final = 2**64 - 1


class XidPolicy(NamedTuple):
    """The XIDs that are ignored and those that are looked at, as they were listed; 0 stands for every XID."""

    ignored: frozenset[int]
    watched: frozenset[int]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> XidPolicy:
        """Read the two variables; what is no XID in them is passed over."""
        return cls(
            ignored=_xids(environment.get(DISABLE_VARIABLE, "")) | APPLICATION_XIDS,
            watched=_xids(environment.get(ENABLE_VARIABLE, "")),
        )

    @property
    def ignores_everything(self) -> bool:
        """Whether there is no health check at all."""
        return _ALL in self.ignored and _ALL not in self.watched

    def ignores(self, xid: int) -> bool:
        """Whether a GPU with this XID stays healthy."""
        if _ALL in self.watched or xid in self.watched:
            return False
        return xid in self.ignored or _ALL in self.ignored


def _xids(text: str) -> frozenset[int]:
    entries = [entry.strip() for entry in text.lower().split(",")]
    if "all" in entries or "xids" in entries:
        return frozenset((_ALL,))
    numbers = (int(entry) for entry in entries if re.fullmatch("[0-9]+", entry))
    return frozenset(number for number in numbers if number <= _LARGEST_XID)


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
