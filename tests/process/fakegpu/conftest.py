"""The machines of `tests.support.machines`, and programs that look at them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from fakegpu import Machine
from tests.support.machines import _no_machine_from_outside, answers, foreign, h100, load, machine, nvml
from tests.support.patience import LIMIT_S

__all__ = ["See", "_no_machine_from_outside", "answers", "foreign", "h100", "load", "machine", "nvml", "see"]

See = Callable[[Machine, str], str]


@pytest.fixture
def see() -> See:
    """Runs Python code in a process that sees the machine, with pynvml as ``n``; returns what it prints."""

    def run(machine: Machine, code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "import pynvml as n\n" + code],
            env=os.environ | machine.environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
