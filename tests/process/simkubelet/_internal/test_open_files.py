"""The limit on open files: raised for the simulator, unchanged for what it starts, and named where it is too low."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LIMITS = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"


def said(code: str, soft: int, hard: int) -> str:
    """What Python code prints in a process with these limits."""
    argv = ["prlimit", f"--nofile={soft}:{hard}", sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_raised_limit_is_the_hard_one_and_programs_have_the_first(tmp_path: Path) -> None:
    code = (
        "import pathlib, subprocess, sys; from simkubelet._internal.open_files import *\n"
        "from simkubelet._internal.bounds import *\n"
        f"raise_limit(); {LIMITS}; sys.stdout.flush()\n"
        f"program = BoundProgram(Bounds(pathlib.Path({str(tmp_path)!r})))\n"
        f"subprocess.run(program.argv([sys.executable, '-c', {LIMITS!r}]))\n"
        "program.end()\n"
    )
    assert said(code, 100, 200) == "(200, 200)\n(100, 200)\n"
