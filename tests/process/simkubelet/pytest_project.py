"""A project of a user of the pytest plugin, with a pytest of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.patience import PROGRAM_LIMIT_S
from tests.support.short_paths import short_place

LOADED = [f"-p{one}" for one in ("simkubelet", "xdist", "asyncio")]
"""What a project uses here of all that is installed beside pytest, whose imports take longer than most tests."""
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


class Project:
    """A user's project, and pytest in it.

    Attributes:
        temporary: Where processes of the project make temporary files.
    """

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = pytester.path
        # Short, as sockets are made below it; a link would not be, as the product makes its folders where it leads.
        self.temporary = Path(tempfile.mkdtemp(prefix="sk-test-", dir=short_place()))
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": "", "COLUMNS": "200"}
        self.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        self.environment.pop("PYTEST_ADDOPTS", None)
        self.program = [sys.executable, "-m", "pytest", *LOADED]
        self.write("pytest.ini", INI)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.program, "-p", "no:cacheprovider", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        printed, _ = process.communicate(timeout=PROGRAM_LIMIT_S)
        return process.returncode, printed

    def processes(self) -> list[int]:
        """Ids of the processes that were started with this project's place for temporary files."""
        mark = f"TMPDIR={self.temporary}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def has_plugin(self) -> bool:
        """Whether a plugin serves on a node."""
        with contextlib.suppress(FileNotFoundError):  # of a folder that is removed while it is searched
            return any(self.temporary.glob("sk-*/**/seat-*.sock"))
        return False

    def leftovers(self) -> list[str]:
        """What tests have left: processes, and files that are not pytest's own."""
        return [*map(str, self.processes()), *(str(one) for one in self.temporary.glob("sk-*"))]

    def close(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.temporary, ignore_errors=True)
