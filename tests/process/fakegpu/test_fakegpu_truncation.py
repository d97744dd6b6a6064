"""A plugin may make the file of its node's fake GPUs shorter: processes that have it open get an error, and go on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fakegpu import Machine
from tests.support.patience import LIMIT_S

PROGRAM = """
import os, sys
from fakegpu import FakeGpuError, Machine
machine = Machine.open(sys.argv[1])
os.truncate(sys.argv[1] + "/segment", int(sys.argv[2]))
for work in (lambda: machine.gpus, lambda: machine.fail(0, xid=79), lambda: machine.heal(0)):
    try:
        work()
    except FakeGpuError as error:
        print(str(error).rpartition(": ")[2])
"""


@pytest.mark.parametrize("size", [0, 4096, 10_000])
def test_shorter_file_is_an_error_of_each_call(machine: Machine, size: int) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(machine.directory), str(size)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    said = ["somebody has made it shorter; make the machine again"] * 3
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (said, "", 0)
