"""Real time as it is for those who share a machine: less of it passes while more want to run than there are cores.

A story waits for processes, and how long they take is the machine's affair as much as theirs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_SLOWEST: Final = 0.1
_LOADAVG: Final = Path("/proc/loadavg")


def runnable() -> int:
    """How many threads of the machine run or want to, this one among them.

    Source: fs/proc/loadavg.c, ``loadavg_proc_show`` (Linux 6.1).
    """
    return max(1, int(_LOADAVG.read_text().split()[3].partition("/")[0]))


class FairTime:
    """A stopwatch that runs from the start, at a tenth of the pace of real time at least.

    Read it several times a second: what lies between two readings counts as the machine is found at the second.

    Args:
        now: Real time in seconds.
        runnable: How many want a core, at the moment.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, runnable: Callable[[], int] = runnable) -> None:
        self._now = now
        self._runnable = runnable
        self._cores = len(os.sched_getaffinity(0))
        self._seconds = 0.0
        self._read_at = now()

    def read(self) -> float:
        """Seconds since it was made."""
        now = self._now()
        self._seconds += (now - self._read_at) * max(_SLOWEST, min(1.0, self._cores / self._runnable()))
        self._read_at = now
        return self._seconds
