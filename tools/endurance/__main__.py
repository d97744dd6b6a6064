"""``python -m tools.endurance``: one node through a simulated day of faults, measured, with a verdict and a plot.

Prints a JSON line for each round, and one with the verdict at the end, and writes these lines and the plot into a
folder. The exit status is that of a failed verdict where something did not agree, or grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import Final

from simkubelet.host import raise_limit

from .measurement import Measurement, growths
from .node import Endurance
from .plot import svg

_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # a folder of its own is made there


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s endurance --", description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, default=24, help="node time at least (default: 24)")
    parser.add_argument("--faults", type=int, default=100_000, help="faults at least (default: 100,000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed draws the same steps (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("build", "endurance"), help="folder of the lines and the plot")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    raise_limit()
    # That a plugin ends is no news here.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    logging.lastResort = None
    run = Endurance(given.seed, given.hours, given.faults)
    measurements: list[Measurement] = []
    found: list[list[str]] = []
    began = time.monotonic()
    place = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with (given.out / "lines.jsonl").open("w", encoding="utf-8", buffering=1) as lines:

        def write(**line: object) -> None:
            text = json.dumps(line)
            print(text, flush=True)
            lines.write(text + "\n")

        def take(measurement: Measurement) -> None:
            shown = sum(len(findings) for findings in found)
            found.append(run.findings[shown:])
            measurements.append(measurement)
            write(**measurement.line, findings=found[-1])

        asyncio.run(run.run(place, take))
        grown = growths(measurements)
        is_passed = not run.findings and all(one.is_flat for one in grown)
        write(
            verdict="passed" if is_passed else "failed",
            seed=given.seed,
            wall_s=round(time.monotonic() - began),
            checks=run.checks,
            refused=run.refused,
            by_verb=dict(run.by_verb.most_common()),
            growth={one.name: round(one.by, 2) for one in grown},
            growth_at_most={one.name: one.at_most for one in grown},
            findings=run.findings,
        )
    (given.out / "endurance.svg").write_text(svg(measurements), encoding="utf-8")
    return 0 if is_passed else 1


if __name__ == "__main__":
    sys.exit(main())
