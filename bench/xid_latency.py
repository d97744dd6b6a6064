"""Time from ``machine.fail(gpu, xid=…)`` in Python to the return of ``nvmlEventSetWait_v2`` in other processes.

Prints two JSON lines: for one waiting process, and for the last of 64 that wait for the same event. The waiter is a C
program, compiled for the run, so that the figure is the library's and not an interpreter's; both sides read
CLOCK_MONOTONIC.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from fakegpu import Machine

CASES = ((1, 2000, {"p99_us_at_most": 1000}), (64, 500, {"p99_us_at_most": 5000}))
"""Waiting processes, events, and the limit."""
REST_S = 0.01
"""Before the next event, so that all are asleep again: a waiter that still prints is no waiter."""


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
        for processes, events, limit in CASES:
            latencies = sorted(measure(machine, waiter, processes, events))
            figures = {
                "p50_us": round(statistics.median(latencies), 1),
                "p99_us": round(latencies[len(latencies) * 99 // 100], 1),
                "max_us": round(latencies[-1], 1),
            }
            about = {"bench": "xid_latency", "waiting_processes": processes, "events": events}
            print(json.dumps({**about, **figures, **limit}), flush=True)
        machine.close()
    return 0


def measure(machine: Machine, waiter: Path, processes: int, events: int) -> list[float]:
    """Microseconds until the last waiter has returned, for each event."""
    latencies = []
    with ExitStack() as stack:
        outputs: list[IO[str]] = []
        for _ in range(processes):
            command: list[str | Path] = [waiter, machine.library, str(events)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            assert process.stdout is not None  # noqa: S101 - PIPE was asked for
            outputs.append(process.stdout)
        for output in outputs:
            output.readline()
        for number in range(events):
            time.sleep(REST_S)
            sent = time.monotonic_ns()
            machine.fail(0, xid=number + 1)
            time.sleep(REST_S)
            latencies.append((max(int(output.readline()) for output in outputs) - sent) / 1000)
    return latencies


if __name__ == "__main__":
    sys.exit(main())
