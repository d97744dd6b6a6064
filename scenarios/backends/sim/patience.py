"""How long a story waits in the simulated world, in real time and in node time.

How long processes take depends on the machine as much as on them, so less time of a wait passes while more threads
want to run than there are cores. But a user waits for the story, so a wait ends in real time too: after three times
its length, as on a machine with three threads for each core, which is what builds and test suites make of one. A wait
has ten seconds in any case, the default of an expectation: even a short wait has to cover the start of a process, and
that takes seconds on a machine which is that busy. A wait that came to its end so with less than a quarter of its time
says nothing about the plugin; nor does one that had more where in its last tenth plugins came and went, as they do for
long after many restarts of their kubelet, or ran or waited for a core most of the time: these were at work.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Final

from simkubelet.model.clock import ManualClock
from simkubelet.model.events import (
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    DevicesListed,
    DriverConnected,
    DriverDisconnected,
    DriverReconnected,
    PluginDisconnected,
    PluginRegistered,
    PluginSocketFound,
    RegistrationRefused,
)

from ...trace.events import PluginCalled, PluginExited, PluginStarted, RegistrationAnswered
from ...trace.trace import Trace

_IDLE_S: Final = 0.01
_LOOK_S: Final = 0.1
_TURNS: Final = 4
"""Iterations of the loop from the arrival of a plugin's line to the event that it leaves."""
_FURTHEST_S: Final = 240.0
_SETTLES_WITHIN_S: Final = 2.0
_STARTS_WITHIN_S: Final = 2.0
_PASSES_MEANWHILE_S: Final = 10.0
_PACE_OF_FOUND: Final = 10.0
_FROM_PROCESSES: Final = frozenset(
    event.kind
    for event in (
        PluginStarted,
        PluginExited,
        PluginCalled,
        PluginSocketFound,
        PluginRegistered,
        PluginDisconnected,
        DriverConnected,
        DriverReconnected,
        DriverDisconnected,
        RegistrationAnswered,
        RegistrationRefused,
        DevicesListed,
        DevicesAllocated,
        ContainerStarted,
        ContainerExited,
    )
)
"""What real processes did, in their own time; the other kinds can all follow from node time alone."""
_COMINGS: Final = frozenset((PluginRegistered.kind, PluginDisconnected.kind, RegistrationRefused.kind))
_LAST_PART: Final = 0.1
_AT_WORK: Final = 0.5
"""How much of the last part a plugin wants a core in, at least, that is at work."""
_SLOWEST: Final = 0.05
"""The pace, compared with real time, below which it never goes."""
_MOST_TIMES: Final = 3.0
_ALWAYS_S: Final = 10.0
_SAYS_SOMETHING: Final = 0.25
_LOADAVG: Final = Path("/proc/loadavg")


async def settled(trace: Trace) -> None:
    """Return when nothing has happened for a tenth of a second, so that the kubelets know what processes did last.

    A plugin's end reaches its kubelet after the end itself, and a grace that begins there must not begin later because
    the story lets time pass. Plugins that never are quiet are waited for two seconds, as `FairTime` has them.
    """
    real_time = FairTime(_SETTLES_WITHIN_S)
    seen, looks, quiet_since_s = len(trace), 0, 0.0
    # Looks are counted too: a machine that stalls lets much time pass in which nobody gets to do anything.
    while looks < _LOOK_S / _IDLE_S or real_time.read() < quiet_since_s + _LOOK_S:
        looks += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_S):
                await trace.longer_than(seen)
            seen, looks, quiet_since_s = len(trace), 0, real_time.read()
        if real_time.left() <= 0:
            break


async def all_listed(trace: Trace, node: str, resources: Collection[str], within_s: float) -> bool:
    """Wait until plugins of all these resources have sent the node's kubelet a list from now on; whether they have.

    They have `within_s` seconds, as `FairTime` has them.
    """
    real_time = FairTime(within_s)
    seen = len(trace)
    missing = set(resources)
    while missing and real_time.left() > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await trace.longer_than(seen)
        begin, seen = seen, len(trace)
        listed = (entry.event for entry in trace[begin:seen])
        missing -= {one.resource for one in listed if isinstance(one, DevicesListed) and one.node == node}
    return not missing


class SimPatience:
    """Waits for real processes in real time, and lets node time leap when nothing happens meanwhile.

    A leap goes to the next thing due, but never further than `within_s` of node time behind what a process did last,
    and never beyond four minutes in one wait that is itself shorter: a story that waits 10 s sees the next status
    period, not the end of a five-minute grace, whatever recurs meanwhile. Not all that can be expected leaves an event
    (a device's health in a pod's status does not), so a wait in which nothing is due ends after a tenth of a second.
    While a plugin starts node time goes no further than `Starts` lets it: even on a busy machine a start takes seconds
    of a node's time, not the minutes until a pod is tried again.

    Real time counts as `FairTime` has it. When it is used up node time still goes to what is due within the wait, so
    that a plugin's late answer is not lost on a kubelet that publishes it with the next status. What processes do from
    then on gives the wait no more node time, and from the latest end that `FairTime` knows there is one more look: a
    look takes real time too, and much of it where a machine is busy and other stories share the event loop.

    Args:
        clock: The node time.
        trace: What happens.
        observed: How much of the trace the story has seen.
        within_s: How long the wait is.
        real_time: Measures the real time of the wait; a new stopwatch where it is left out.
        before_leap: Awaited before node time leaps, for what else must have come to its end by then.
        limit: The node time up to which it may leap now, real time or not.
        wanted: What names each plugin -> seconds that its processes have run or waited for a core.
    """

    def __init__(
        self,
        clock: ManualClock,
        trace: Trace,
        observed: Callable[[], int],
        within_s: float,
        real_time: FairTime | None = None,
        before_leap: Callable[[], Awaitable[None]] | None = None,
        limit: Callable[[], float] = lambda: math.inf,
        wanted: Callable[[], Mapping[Hashable, float]] = dict,
    ) -> None:
        self._wanted = wanted
        self._wanted_before: tuple[float, Mapping[Hashable, float]] | None = None
        self._before_leap = before_leap
        self._limit = limit
        self._clock = clock
        self._trace = trace
        self._observed = observed
        self._within_s = within_s
        self._real_time = real_time or FairTime(within_s)
        self._leap_limit = clock.now() + within_s
        self._looked_at = len(trace)
        self._last_limit = clock.now() + max(within_s, _FURTHEST_S)
        self._has_final_limit = False
        self._noted = len(trace)
        self._came_at_s = -math.inf
        self._refusals: set[object] = set()

    async def wait(self) -> bool:
        """See `Patience`."""
        self._note_comings()
        if self._is_over():
            return await self._leap()
        if await self._happens_within(_IDLE_S):
            return True
        return await self._leap() or await self._happens_within(_LOOK_S) or not self._is_over()

    @property
    def is_starved(self) -> bool:
        """See `Patience`."""
        still_come = self._came_at_s > (1 - _LAST_PART) * self._real_time.read()
        is_at_work = still_come or (self._real_time.is_starved(1.0) and self._some_want_a_core())
        return self._real_time.is_starved(1.0 if is_at_work else _SAYS_SOMETHING)

    def _some_want_a_core(self) -> bool:
        """Whether some plugin ran or waited for a core in most of the time since the last part began."""
        if self._wanted_before is None:
            return False
        then_left_s, before = self._wanted_before
        passed_s = then_left_s - self._real_time.until_latest_end()
        return any(seconds - before.get(name, 0.0) > _AT_WORK * passed_s for name, seconds in self._wanted().items())

    def _note_comings(self) -> None:
        begin, self._noted = self._noted, len(self._trace)
        comings = {entry.event for entry in self._trace[begin : self._noted] if entry.kind in _COMINGS}
        # Who is refused again in the same words does not come any nearer.
        if comings - self._refusals:
            self._came_at_s = self._real_time.read()
        self._refusals |= {one for one in comings if isinstance(one, RegistrationRefused)}
        left_s = self._real_time.until_latest_end()
        if self._wanted_before is None and left_s <= _LAST_PART * self._real_time.latest_end_s:
            self._wanted_before = left_s, self._wanted()

    async def _happens_within(self, limit_s: float) -> bool:
        if self._is_over():
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(limit_s, self._real_time.left())):
                await self._trace.longer_than(self._observed())
        # Another story may have held the loop up: what has come by now is taken first.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return len(self._trace) > self._observed()

    async def _leap(self) -> bool:
        if self._before_leap is not None:
            await self._before_leap()
        is_new = any(event.kind in _FROM_PROCESSES for event in self._trace[self._looked_at :])
        if is_new and not self._has_final_limit:
            self._leap_limit = min(self._clock.now() + self._within_s, self._last_limit)
        self._looked_at, self._has_final_limit = len(self._trace), self._is_over()
        due = self._clock.next_deadline()
        if due is None or due > self._leap_limit or (due > self._limit() and not self._is_over()):
            return False
        target = self._leap_limit if self._real_time.is_latest_end() else due
        await self._clock.advance(target - self._clock.now())
        return True

    def _is_over(self) -> bool:
        return self._real_time.left() <= 0


def runnable() -> int:
    """How many threads of the machine run or want to, this one among them.

    Source: fs/proc/loadavg.c, ``loadavg_proc_show`` (Linux 6.1).
    """
    return max(1, int(_LOADAVG.read_text().split()[3].partition("/")[0]))


class FairTime:
    """A stopwatch that runs from the start, and says when a wait is over.

    Read it several times a second: what lies between two readings counts as the machine is found at the second.

    Args:
        limit_s: How long the wait is.
        now: Real time in seconds.
        runnable: How many want a core, at the moment.
    """

    def __init__(
        self, limit_s: float, now: Callable[[], float] = time.monotonic, runnable: Callable[[], int] = runnable
    ) -> None:
        self._limit_s = limit_s
        self._now = now
        self._runnable = runnable
        self._cores = len(os.sched_getaffinity(0))
        self._seconds = 0.0
        self._read_at = now()
        self.latest_end_s = max(_MOST_TIMES * limit_s, _ALWAYS_S)
        self._over_at = self._read_at + self.latest_end_s

    def read(self) -> float:
        """Seconds since it was made."""
        now = self._now()
        self._seconds += (now - self._read_at) * max(_SLOWEST, min(1.0, self._cores / self._runnable()))
        self._read_at = now
        return self._seconds

    def left(self) -> float:
        """Seconds until the wait is over, none or less where it is."""
        return min(self._limit_s - self.read(), self._over_at - self._read_at)

    def until_latest_end(self) -> float:
        """Seconds until the wait is over however busy the machine is, none or less where it is."""
        return self._over_at - self._now()

    def is_latest_end(self) -> bool:
        """Whether the wait is over however busy the machine is."""
        return self.until_latest_end() <= 0

    def is_starved(self, share: float = _SAYS_SOMETHING) -> bool:
        """Whether it is over because of the latest end, with less than this share of the time that it was to have."""
        return self.is_latest_end() and self._seconds < share * self._limit_s


class Starts:
    """The plugins' starts that a story's waits let come to their end before node time goes far.

    One has come to its end when the kubelet knows of the plugin. Each has two seconds of these waits, as `FairTime`
    has them: a plugin that finds no device may never register.
    Meanwhile ten seconds of node time may pass, as in a wait of no other length: in them a kubelet publishes its node.
    From the moment that the kubelet has found a plugin's socket there are two seconds more, and then node time passes
    at ten times their pace: a kubelet asks such a plugin in its own time, and it takes a plugin real time to answer.

    Args:
        starting: What names each start that has not come to its end -> whether the kubelet has found its socket.
        clock: The node time.
    """

    def __init__(self, starting: Callable[[], Mapping[Hashable, bool]], clock: ManualClock) -> None:
        self._starting = starting
        self._clock = clock
        self._seen: dict[tuple[Hashable, bool], tuple[float, FairTime]] = {}

    def limit(self) -> float:
        """The node time up to which it may leap now; infinity where nothing starts."""
        now = self._clock.now()
        self._seen = {one: self._seen.get(one) or (now, FairTime(_STARTS_WITHIN_S)) for one in self._starting().items()}
        return min((_limit(is_found, *seen) for (_, is_found), seen in self._seen.items()), default=math.inf)


def _limit(is_found: bool, began: float, waited: FairTime) -> float:
    """How far one start lets node time go."""
    if waited.left() <= 0:
        return math.inf
    # The kubelet asks at its next second.
    return began + (1 + waited.read() * _PACE_OF_FOUND if is_found else _PASSES_MEANWHILE_S)
