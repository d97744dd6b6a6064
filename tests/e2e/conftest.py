"""Runs the installed commands as a user does: `simkubelet` and `fakegpu` in a process and a folder of their own.

Everything a run makes is below ``Run.scratch``, which is its ``TMPDIR`` too, so a test can tell what was left behind.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command_server import CommandServer
from tests.support.views import shared_line


@dataclass(frozen=True)
class Run:
    """How commands are run in one test; `scratch` has a short path, as sockets are made below it."""

    scratch: Path
    server: CommandServer

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.scratch), "XDG_RUNTIME_DIR": str(self.scratch), "COLUMNS": "200"}

    def argv(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command)
        return [sys.executable, "-m", program, *arguments]

    def __call__(
        self, command: str, outputs: tuple[str, str] = ("", ""), **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command; see `CommandServer.run`. What containers share on this machine is left out of its errors.

        Args:
            variables: Added to its environment.
        """
        program, *arguments = shlex.split(command)
        done = self.server.run(program, arguments, self.scratch, {**self.environment(), **variables}, outputs)
        done.stderr = done.stderr.removeprefix(shared_line())
        return done

    def start(self, command: str, **variables: str) -> subprocess.Popen[str]:
        """Run a command in a process group of its own, as a shell does, so that a test can interrupt it.

        Args:
            variables: Added to its environment.
        """
        return subprocess.Popen(
            self.argv(command),
            cwd=self.scratch,
            env={**self.environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def leftovers(self) -> list[str]:
        """What is left of the runs: folders of nodes, and processes that have them on their command line."""
        folders = [str(path) for path in self.scratch.glob("sk-*")]
        return folders + [line for line in self.processes() if "/sk-" in line]

    def processes(self) -> list[str]:
        """Command lines of all processes that were started with this test's folder."""
        lines = []
        for pid in self.process_ids():
            with contextlib.suppress(OSError):
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return [line for line in lines if line]

    def process_ids(self) -> list[int]:
        """Ids of all processes that were started with this test's folder."""
        mark = f"XDG_RUNTIME_DIR={self.scratch}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-minor", action="store_true", help="play every story on every Kubernetes minor")


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def run(command_server: CommandServer) -> Iterator[Run]:
    scratch = Path(tempfile.mkdtemp(prefix="e2e-"))
    runs = Run(scratch, command_server)
    yield runs
    # Of a test that failed; all others look themselves.
    for pid in runs.process_ids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(scratch)


@pytest.fixture(scope="session")
def nvidia_plugin() -> str:
    """NVIDIA's own device plugin; the nox session `nvidia` builds it and names it."""
    binary = os.environ.get("SIMKUBELET_NVIDIA_PLUGIN")
    if not binary:
        pytest.skip("SIMKUBELET_NVIDIA_PLUGIN is not set: run nox -s nvidia, which builds the plugin")
    return binary
