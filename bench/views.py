"""What a plugin's view costs without a mount namespace: the same work in both kinds of view, alternately.

Both run in a user namespace, one that may make further namespaces and one that may not, as an ordinary container. In
each turn:

- ``start``, ``start_python``: of ``true``, and of a Python that imports asyncio, with the making of the view.
- ``stat``, ``getppid``: a call that names a file, and one that does not, in microseconds.
- ``conform``: the check of a bundled stub, and ``stories``, all built-in ones; each once.
- ``allocate``: of NVIDIA's plugin, by `bench.nvidia_plugin`, where it can be built; once.

Every figure is a JSON line with both medians and their ratio; ``at_most`` is the ratio that it should keep to.
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
from collections import defaultdict
from pathlib import Path
from typing import Final

from simkubelet.host import NodeView, check_sandbox, sandboxed

ROOT: Final = Path(__file__).resolve().parent.parent
TURNS: Final = int(os.environ.get("BENCH_TURNS", "5"))
STARTS: Final = 10
CALLS: Final = 2000
REFUSE: Final = (
    'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all --inh-caps -all --no-new-privs "$@"'
)
WAYS: Final = {"namespace": ["unshare", "-Ur"], "supervisor": ["unshare", "-Ur", "sh", "-c", REFUSE, "sh"]}
AT_MOST: Final = {"stories": 1.3, "conform": 1.15, "allocate": 1.1}
LOOP: Final = f"""
import os, time
def each(call, *words):
    began = time.perf_counter()
    for _ in range({CALLS}):
        call(*words)
    return (time.perf_counter() - began) / {CALLS} * 1e6
print(each(os.stat, "/etc/bench/file"), each(os.getppid))
"""

Figures = dict[str, list[float]]


def wall_s(command: list[str]) -> float:
    began = time.perf_counter()
    status = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    # A check or a story that fails takes its time, too.
    if status not in {0, 1}:
        raise RuntimeError(f"status {status} of {command}")
    return time.perf_counter() - began


def inside(way: str) -> dict[str, float]:
    """Measure where the kernel lets views be of one kind alone."""
    if check_sandbox().startswith("a supervisor") != (way == "supervisor"):
        raise RuntimeError(f"this machine has no other kind of view than that: {check_sandbox()}")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        (folder / "root" / "etc" / "bench").mkdir(parents=True)
        (folder / "root" / "etc" / "bench" / "file").touch()
        view = NodeView(folder / "root", folder / "view", opened=("/etc", "/run", "/var", "/var/lib"), kept=(folder,))
        python = [sys.executable, "-I", "-c"]
        loop = subprocess.run(sandboxed([*python, LOOP], view), check=True, stdout=subprocess.PIPE, text=True)
        stat_us, getppid_us = map(float, loop.stdout.split())
        return {
            "start": statistics.median(wall_s(sandboxed(["true"], view)) for _ in range(STARTS)) * 1000,
            "start_python": statistics.median(
                wall_s(sandboxed([*python, "import asyncio"], view)) * 1000 for _ in range(STARTS)
            ),
            "stat": stat_us,
            "getppid": getppid_us,
        }


def allocate_ms(way: list[str]) -> float:
    command = [*way, sys.executable, "-m", "bench.nvidia_plugin"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return next(float(line["nvidia_ms"]) for line in map(json.loads, lines) if line["what"] == "allocate")


def report(what: str, measured: dict[str, Figures]) -> None:
    medians = {way: statistics.median(figures[what]) for way, figures in measured.items()}
    unit = {"stat": "us", "getppid": "us", "stories": "s", "conform": "s"}.get(what, "ms")
    line = {
        "bench": "views",
        "what": what,
        "runs": len(measured["namespace"][what]),
        **{f"{way}_{unit}": round(value, 3) for way, value in medians.items()},
        "ratio": round(medians["supervisor"] / medians["namespace"], 2),
    }
    print(json.dumps(line | ({"at_most": AT_MOST[what]} if what in AT_MOST else {})), flush=True)


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(inside(sys.argv[1])))
        return 0
    measured: dict[str, Figures] = {way: defaultdict(list) for way in WAYS}
    for _ in range(TURNS):
        for way, prefix in WAYS.items():
            command = [*prefix, sys.executable, "-m", "bench.views", way]
            turn = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
            if turn.returncode:
                return 3
            for what, figure in json.loads(turn.stdout).items():
                measured[way][what].append(figure)
    for what in ("start", "start_python", "stat", "getppid"):
        report(what, measured)
    try:
        for way, prefix in WAYS.items():
            measured[way]["allocate"].append(allocate_ms(prefix))
        report("allocate", measured)
    except subprocess.CalledProcessError as error:
        print(f"not measured: allocate, status {error.returncode}", file=sys.stderr)
    simkubelet = str(Path(sysconfig.get_path("scripts"), "simkubelet"))
    stub = [simkubelet, "plugin", "stub", "--resource", "example.com/seat", "--device", "a", "--device", "b"]
    commands = {"conform": [simkubelet, "conform", "--", *stub], "stories": [simkubelet, "run", "--all"]}
    for what, command in commands.items():
        for way, prefix in WAYS.items():
            measured[way][what].append(wall_s([*prefix, *command]))
        report(what, measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
