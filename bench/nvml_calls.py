"""What NVML costs its callers: a getter, the first look at all GPUs, the library's size and the memory it adds.

A getter is compared with the floor of a read under a seqlock in a library of its own; both are called through the
PLT, alternately. A start is dlopen, nvmlInit and a walk over all GPUs with eight questions each, in a new process each
time; resident memory is what all of it added to that process, shared pages included. The programs are in C and compiled
for the run, so that no figure is an interpreter's.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from fakegpu import Machine

ROUNDS = 2000
STARTS = 200
GETTERS = ("floor", "temperature", "memory", "utilization", "uuid")
COSTS = ("dlopen_us", "init_us", "walk_us", "next_walk_us", "calls", "added_kib")
RATIO_AT_MOST = 2
START_US_AT_MOST = 1000
ADDED_KIB_AT_MOST = 2048
LIBRARY_BYTES_AT_MOST = 1 << 20


def main() -> int:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        print("error: no C compiler in PATH: the callers of this bench are written in C", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="fakegpu-bench-") as name:
        folder = Path(name)
        few, many = Machine.create(folder / "few", count=8), Machine.create(folder / "many", count=64)
        tell("library", bytes=few.library.stat().st_size, at_most=LIBRARY_BYTES_AT_MOST)
        measure_getters(few, compiler, folder)
        walker = folder / "nvml_walk"
        subprocess.run([compiler, "-O2", "-o", walker, source("nvml_walk.c"), "-ldl"], check=True)
        for machine, gpus in ((few, 8), (many, 64)):
            measure_start(machine, gpus, walker)
            machine.close()
    return 0


def source(name: str) -> Path:
    return Path(__file__).with_name(name)


def tell(figure: str, **fields: object) -> None:
    print(json.dumps({"bench": "nvml_calls", "figure": figure, **fields}), flush=True)


def measure_getters(machine: Machine, compiler: str, folder: Path) -> None:
    """Prints nanoseconds per call and the ratio to the floor."""
    floor, caller = folder / "libfloor.so", folder / "nvml_getters"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", floor, source("nvml_floor.c")], check=True)
    subprocess.run([compiler, "-O2", "-o", caller, source("nvml_getters.c"), floor, machine.library], check=True)
    environment = {**os.environ, **machine.environment()}
    done = subprocess.run([caller, str(ROUNDS)], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rounds = [[float(cost) for cost in line.split()] for line in done.stdout.splitlines()]
    costs = {getter: sorted(column) for getter, column in zip(GETTERS, zip(*rounds, strict=True), strict=True)}
    floor_ns = statistics.median(costs["floor"])
    for getter, each in costs.items():
        p50, p99 = statistics.median(each), each[len(each) * 99 // 100]
        limit = {} if getter == "floor" else {"to_floor": round(p50 / floor_ns, 2), "at_most": RATIO_AT_MOST}
        tell(getter, p50_ns=round(p50, 2), p99_ns=round(p99, 2), **limit)


def measure_start(machine: Machine, gpus: int, walker: Path) -> None:
    """Prints what new processes pay, medians unless said otherwise."""
    command = [walker, machine.library]
    runs = []
    for _ in range(STARTS):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        runs.append([float(cost) for cost in done.stdout.split()])
    medians = dict(zip(COSTS, map(statistics.median, zip(*runs, strict=True)), strict=True))
    totals = sorted(dlopen + init + walk for dlopen, init, walk, *_ in runs)
    tell(
        f"start with {gpus} GPUs",
        p50_us=round(statistics.median(totals), 1),
        p50_us_at_most=START_US_AT_MOST,
        p99_us=round(totals[len(totals) * 99 // 100], 1),
        **{name: round(cost, 1) for name, cost in medians.items()},
        added_kib_at_most=ADDED_KIB_AT_MOST,
    )


if __name__ == "__main__":
    sys.exit(main())
