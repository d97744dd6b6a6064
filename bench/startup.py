"""How long the commands take that do next to nothing: the price of every call in a shell.

The last ones change a machine of eight GPUs, as a script does that injects faults. CPU time says more than time on the
wall where others work on the same cores.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from fakegpu import Machine

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("python", "-c", "pass"),
    ("python", "-c", "import click"),
    ("simkubelet", "--version"),
    ("simkubelet", "list"),
    ("fakegpu", "--help"),
)
ON_A_MACHINE: tuple[tuple[str, ...], ...] = (
    ("fakegpu", "fail", "3", "--xid", "79"),
    ("fakegpu", "set", "3", "temperature=91"),
    ("fakegpu", "heal", "3"),
)
RUNS = 15


def times_ms(command: list[str]) -> tuple[float, float]:
    """Return time on the wall and of a processor."""
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall * 1000, used * 1000


def report(name: str, *arguments: str, options: tuple[str, ...] = ()) -> None:
    program = sys.executable if name == "python" else str(Path(sysconfig.get_path("scripts"), name))
    command = [program, *arguments, *options]
    times_ms(command)
    walls, cpus = zip(*(times_ms(command) for _ in range(RUNS)), strict=True)
    figure = {
        "median_ms": round(statistics.median(walls), 1),
        "min_ms": round(min(walls), 1),
        "cpu_ms": round(statistics.mean(cpus), 1),
    }
    print(json.dumps({"bench": "startup", "command": " ".join((name, *arguments)), "runs": RUNS, **figure}))


def main() -> None:
    for command in COMMANDS:
        report(*command)
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine.create(Path(folder, "node"))
        for command in ON_A_MACHINE:
            report(*command, options=("--dir", str(machine.directory)))
        machine.destroy()


if __name__ == "__main__":
    main()
