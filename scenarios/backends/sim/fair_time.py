"""The time of a wait on a machine that others use too: less of it passes while more want to run than there are cores.

A story waits for processes, and how long they take is the machine's affair as much as theirs. But a user waits for the
story, so a wait has an end in real time too: three times its length, as on a machine with three threads for each core,
which is what builds and test suites make of one. Ten seconds are granted in any case, the default of an expectation:
a wait of a moment has to cover the start of a process, and that takes seconds on a machine which is that busy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_SLOWEST: Final = 0.1
"""The pace, compared with real time, below which it never goes."""
_MOST_TIMES: Final = 3.0
_ALWAYS_S: Final = 10.0
_LOADAVG: Final = Path("/proc/loadavg")


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
        self._over_at = self._read_at + max(_MOST_TIMES * limit_s, _ALWAYS_S)

    def read(self) -> float:
        """Seconds since it was made."""
        now = self._now()
        self._seconds += (now - self._read_at) * max(_SLOWEST, min(1.0, self._cores / self._runnable()))
        self._read_at = now
        return self._seconds

    def left(self) -> float:
        """Seconds until the wait is over, none or less where it is."""
        return min(self._limit_s - self.read(), self._over_at - self._read_at)
