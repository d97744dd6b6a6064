"""Time from ``machine.fail(gpu, xid=…)`` in Python to the return of ``nvmlEventSetWait_v2`` in another process.

Prints one JSON line: p50 and p99 in microseconds, and nanoseconds per call of four getters. The waiter is a C program,
compiled for the run, so that the figure is the library's and not an interpreter's; both sides read CLOCK_MONOTONIC.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fakegpu import Machine

EVENTS = 500
CALLS = 1_000_000
GOAL_P50_US = 1000


def main() -> int:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        print("error: no C compiler in PATH: the waiter of this bench is written in C", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="fakegpu-bench-") as folder:
        waiter = Path(folder) / "xid_waiter"
        source = Path(__file__).with_name("xid_waiter.c")
        subprocess.run([compiler, "-O2", "-o", waiter, source, "-ldl"], check=True)
        machine = Machine.create(Path(folder) / "node", count=8)
        latencies = sorted(measure_events(machine, waiter))
        result: dict[str, Any] = {
            "bench": "xid_latency",
            "waiter": "C, other process",
            "n": EVENTS,
            "p50_us": round(statistics.median(latencies), 1),
            "p99_us": round(latencies[len(latencies) * 99 // 100], 1),
            "getter_ns": measure_getters(machine, waiter),
        }
        machine.close()
    print(json.dumps(result))
    return 0 if result["p50_us"] < GOAL_P50_US else 1


def measure_events(machine: Machine, waiter: Path) -> list[float]:
    """Microseconds of each event; the next one is sent when the waiter has told of the last."""
    latencies = []
    with subprocess.Popen(
        [waiter, machine.library, "events", str(EVENTS)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - PIPE was asked for
        process.stdout.readline()
        for number in range(EVENTS):
            sent = time.monotonic_ns()
            machine.fail(0, xid=number + 1)
            latencies.append((int(process.stdout.readline()) - sent) / 1000)
    return latencies


def measure_getters(machine: Machine, waiter: Path) -> dict[str, float]:
    """Nanoseconds per call."""
    done = subprocess.run([waiter, machine.library, "getters", str(CALLS)], capture_output=True, text=True, check=True)
    return {name: float(cost) for name, cost in map(str.split, done.stdout.splitlines())}


if __name__ == "__main__":
    sys.exit(main())
