"""What a process holds at a time, and whether that grows: a straight line through the measurements after a warm-up."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Final

_WARM_UP: Final = 0.3
"""Share of the measurements that is left out: until then what is remembered of Events and writes fills its room."""
_LEAST: Final = 4


@dataclass(frozen=True, slots=True)
class Measurement:
    """A process at the end of a round, when its node has no pods and everything is healed.

    Attributes:
        faults: Injected until then.
        steps: Done until then, faults among them.
        hours: Node time.
        cpu_s: Processor time.
        rss_mib: Resident memory.
        files: Open files, sockets among them.
        tasks: Tasks of the event loop.
        threads: Threads of the process.
        objects: Objects that Python's garbage collector knows.
    """

    faults: int
    steps: int
    hours: float
    cpu_s: float
    rss_mib: float
    files: int
    tasks: int
    threads: int
    objects: int

    @property
    def line(self) -> Mapping[str, float]:
        """Its fields, as a JSON line has them."""
        return {name: round(value, 2) for name, value in asdict(self).items()}


def measured(faults: int, steps: int, hours: float, cpu_s: float) -> Measurement:
    """Measure this process, from a coroutine."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    rss_kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
    return Measurement(
        faults=faults,
        steps=steps,
        hours=hours,
        cpu_s=cpu_s,
        rss_mib=rss_kib / 1024,
        files=len(os.listdir("/proc/self/fd")),  # noqa: PTH208  # names alone
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        objects=len(gc.get_objects()),
    )


@dataclass(frozen=True, slots=True)
class Growth:
    """How much something grows with 100,000 faults, as the line through the measurements has it.

    Attributes:
        name: What is measured.
        by: The growth.
        at_most: How much it may be.
    """

    name: str
    by: float
    at_most: float

    @property
    def is_flat(self) -> bool:
        """Whether the limit is kept."""
        return self.by <= self.at_most


LIMITS: Final[Mapping[str, float]] = {"rss_mib": 8.0, "files": 1.0, "tasks": 1.0, "threads": 1.0, "objects": 20_000.0}
"""Figure -> by how much it may grow with 100,000 faults."""
_UNIT_FAULTS: Final = 100_000


def growths(measurements: Sequence[Measurement]) -> list[Growth]:
    """The growth of each figure after the warm-up; none where there are too few measurements for a line."""
    after = measurements[int(len(measurements) * _WARM_UP) :]
    if len(after) < _LEAST:
        return []
    faults = [one.faults / _UNIT_FAULTS for one in after]
    return [
        Growth(name, linear_regression(faults, [float(getattr(one, name)) for one in after]).slope, most)
        for name, most in LIMITS.items()
    ]
