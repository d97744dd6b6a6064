"""What benchmarks share that drive a program of the project beside the original, and print the two medians."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

PLACES = {"tmpfs": "/dev/shm", "disk": None}  # noqa: S108 - temporary folders are made in both
"""Name -> folder of temporary folders; None is the usual one, which is not there in a view of a node."""


def programs(module: str) -> list[str]:
    """Paths of what a module of `tools.build` builds; ends the program where it cannot be built."""
    built = subprocess.run([sys.executable, "-m", module], stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        sys.exit(built.returncode)
    return built.stdout.splitlines()


def report(
    bench: str, what: str, unit: str, figures: Mapping[str, float], at_most: float | None = None, **about: object
) -> None:
    """Print a figure of the kubelet and of ours, with their ratio."""
    ratio = figures["simkubelet"] / figures["kubelet"] if figures["kubelet"] else float("nan")
    line = {
        "bench": bench,
        "what": what,
        **about,
        **{f"{name}_{unit}": round(value, 3) for name, value in figures.items()},
        "ratio": round(ratio, 3),
    }
    print(json.dumps(line if at_most is None else {**line, "at_most": at_most}), flush=True)


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Of each side's times."""
    return {name: statistics.median(values) for name, values in times.items()}
