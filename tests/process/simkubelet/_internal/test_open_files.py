"""The limit on open files: raised for the simulator, unchanged for what it starts, and named where it is too low."""

from __future__ import annotations

import subprocess
import sys

LIMITS = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"


def said(code: str, soft: int, hard: int) -> str:
    """What Python code prints in a process with these limits."""
    argv = ["prlimit", f"--nofile={soft}:{hard}", sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_raised_limit_is_the_hard_one_and_children_have_the_first() -> None:
    code = (
        "import subprocess, sys; from simkubelet._internal.open_files import *\n"
        f"raise_limit(); {LIMITS}; sys.stdout.flush()\n"
        f"subprocess.run(with_first_limit([sys.executable, '-c', {LIMITS!r}]))\n"
    )
    assert said(code, 100, 200) == "(200, 200)\n(100, 200)\n"


def test_limit_that_was_not_raised_adds_nothing_to_a_command() -> None:
    code = "from simkubelet._internal.open_files import *; print(*with_first_limit(['program', '--option']))"
    assert said(code, 100, 200) == "program --option\n"
