"""Commands in processes that are forked from one which has loaded them: to load them takes longer than most commands.

Each command is a process with arguments, variables, folder and output of its own, and ends as it does for a user. Only
/proc shows another command line and environment; so it is for commands whose end a test waits for. What a test signals
or looks at meanwhile is started as a user starts it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Final, TextIO, cast

from scenarios.story import stories
from scenarios.story.document import load
from tests.support.patience import PROGRAM_LIMIT_S

ROOT: Final = Path(__file__).resolve().parents[2]
LOADED: Final = (
    "fakegpu.cli",
    "scenarios.backends.sim.backend",
    "scenarios.backends.world.hardware",
    "scenarios.conform.cli",
    "scenarios.play.run",
    "scenarios.up.cluster",
    "simkubelet.cli",
)
"""What commands import when they are used."""
CLOSED: Final = "closed"
UNREAD: Final = "unread"


class CommandServer:
    """Runs commands, one after the other; its process starts with the first one and ends with `close`."""

    @cached_property
    def _process(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    def run(
        self,
        program: str,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        outputs: Sequence[str] = ("", ""),
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -m PROGRAM ARGUMENTS`` in a folder, and return what `subprocess.run` does.

        Args:
            program: The module.
            arguments: Of the command line.
            folder: The current one of the command.
            environment: All its variables.
            outputs: Paths that standard output and standard error lead to, `CLOSED` or `UNREAD`; returned where empty.

        Raises:
            TimeoutExpired: It has not ended; it is killed.
        """
        argv = [program, *arguments]
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (output, errors)]
            files = [path or file for path, file in zip(outputs, files, strict=True)]
            order = {"argv": argv, "folder": str(folder), "environment": dict(environment), "files": files}
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            stdin.write(json.dumps(order).encode() + b"\n")
            if not select.select([stdout], [], [], PROGRAM_LIMIT_S)[0]:
                self.close()
                raise subprocess.TimeoutExpired(argv, PROGRAM_LIMIT_S)
            status = int(stdout.readline())
            return subprocess.CompletedProcess(argv, status, *map(_content, (output, errors)))

    def close(self) -> None:
        """End the process and the command that it runs; the next command starts another."""
        process = self.__dict__.pop("_process", None)
        if process is not None:
            with process:
                os.killpg(process.pid, signal.SIGKILL)


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def serve() -> None:
    """Load the commands, then run one for each line of the input and answer with its status."""
    for module in LOADED:
        importlib.import_module(module)
    # The first story makes the model of all stories.
    load(next(iter(stories.builtin().values())))
    gc.freeze()
    for line in sys.stdin:
        if (command := os.fork()) == 0:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]), flush=True)


def _become(argv: list[str], folder: str, environment: dict[str, str], files: list[str]) -> None:
    """Be the process of a command; it ends as Python does."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    encoding = environment.get("PYTHONIOENCODING")
    for number, path in enumerate((os.devnull, *files)):
        if path == CLOSED:
            os.close(number)
        else:
            os.dup2(_unread() if path == UNREAD else os.open(path, os.O_RDWR | os.O_APPEND), number)
    # As Python makes them at its start.
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115  # they stay open
    sys.stdout, sys.stderr = (
        cast("TextIO", None if path == CLOSED else open(number, "w", encoding=encoding, errors=errors, closefd=False))  # noqa: SIM115
        for number, path, errors in zip((1, 2), files, ("strict", "backslashreplace"), strict=True)
    )
    sys.argv, sys.path[0] = argv, folder
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    sys.exit()


def _unread() -> int:
    """The end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


if __name__ == "__main__":
    serve()
