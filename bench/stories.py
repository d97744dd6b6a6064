"""How long the built-in stories take, each alone and all in one run, plugin processes included."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

CATALOG = Path(__file__).resolve().parent.parent / "scenarios" / "catalog"
RUNS = 5


def wall_s(stories: tuple[str, ...]) -> float:
    simkubelet = Path(sysconfig.get_path("scripts"), "simkubelet")
    began = time.perf_counter()
    subprocess.run([simkubelet, "run", *stories], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def report(label: str, stories: tuple[str, ...]) -> None:
    times = sorted(wall_s(stories) for _ in range(RUNS))
    figure = {"median_s": round(statistics.median(times), 3), "max_s": round(times[-1], 3)}
    print(json.dumps({"bench": "stories", "story": label, "runs": RUNS, **figure}), flush=True)


def main() -> int:
    names = tuple(sorted(path.stem for path in CATALOG.rglob("*.yaml")))
    try:
        for name in names:
            report(name, (name,))
        report("all", names)
    except subprocess.CalledProcessError as error:
        print(f"error: a story failed, so its time says nothing: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
