"""A machine that may be read only: somebody else's, or on a file system that nobody writes."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.cli.main import main


@pytest.fixture
def foreign(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine, which a process that opens it from now on may only read; the object given here may still write."""
    opened = os.open

    def refuse(path: str | os.PathLike[str], flags: int, *rest: int) -> int:
        if os.fspath(path) == str(machine.directory / "segment") and flags & os.O_RDWR:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    return machine


def test_programs_run_with_it(foreign: Machine, tmp_path: Path) -> None:
    look = "import pynvml as n; n.nvmlInit(); open('told', 'w').write(str(n.nvmlDeviceGetCount()))"
    pid = os.fork()
    if pid == 0:
        os.chdir(tmp_path)
        main(["exec", "--dir", str(foreign.directory), "--", sys.executable, "-c", look])
        os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "told").read_text() == "4"
