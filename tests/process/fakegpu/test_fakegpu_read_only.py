"""A machine that may be read only: somebody else's, or on a file system that nobody writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fakegpu import Machine
from fakegpu.cli.main import main


def test_programs_run_with_it(foreign: Machine, tmp_path: Path) -> None:
    look = "import pynvml as n; n.nvmlInit(); open('told', 'w').write(str(n.nvmlDeviceGetCount()))"
    pid = os.fork()
    if pid == 0:
        os.chdir(tmp_path)
        main(["exec", "--dir", str(foreign.directory), "--", sys.executable, "-c", look])
        os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert (tmp_path / "told").read_text() == "4"
