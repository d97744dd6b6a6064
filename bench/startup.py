"""How long the commands take that do next to nothing: the price of every call in a shell."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

COMMANDS = (("python", "-c", "pass"), ("simkubelet", "--version"), ("simkubelet", "list"), ("fakegpu", "--help"))
RUNS = 15


def wall_ms(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    scripts = Path(sysconfig.get_path("scripts"))
    for name, *arguments in COMMANDS:
        program = sys.executable if name == "python" else str(scripts / name)
        command = [program, *arguments]
        wall_ms(command)
        times = sorted(wall_ms(command) for _ in range(RUNS))
        figure = {"median_ms": round(statistics.median(times), 1), "min_ms": round(times[0], 1)}
        print(json.dumps({"bench": "startup", "command": " ".join((name, *arguments)), "runs": RUNS, **figure}))


if __name__ == "__main__":
    main()
