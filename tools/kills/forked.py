"""Processes of our programs that are killed: each is forked from one that has loaded its modules.

So a kill is in the work of a program, not in its imports, which take longer than the work; and a thousand of them take
minutes. What runs is the program as ``python -m`` runs it.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import runpy
import select
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_LOADED: Final = (
    __name__,
    *("simkubelet.stdio.__main__", "plugin.cli", "plugin.generic.command", "plugin.nvidia.command"),
    *("plugin.gopher.command", "plugin.stub.command", "fakegpu.cli.main", "fakegpu.cli.fault_commands"),
    *("fakegpu.cli.gpu_commands", "fakegpu.cli.load_command", "fakegpu.cli.machine_commands", "fakegpu.faults.faults"),
    *("fakegpu.load", "fakegpu.machine.inventory", "fakegpu.machine.settings", "fakegpu.files.tree", "runpy"),
    *("scenarios.campaign.command", "scenarios.up.cli", "scenarios.up.joining", "scenarios.up.control_socket"),
)
_ANSWERS_WITHIN_S: Final = 120.0
"""A guard only: a program that does not answer hangs."""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(_LOADED))


class EndedError(Exception):
    """A program has ended before it answered."""


class Program:
    """A program that runs until it ends or is killed; the end of the context kills it.

    Args:
        module: As after ``python -m``.
        arguments: Of its command line.
        log: Takes what it writes on standard error, and on standard output where it is not asked for answers.
        has_lines: Whether it reads lines on standard input and answers each on standard output.
        environment: Added to this process' own.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[object],
        log: Path,
        *,
        has_lines: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._read = bytearray()
        self._lines, theirs = socket.socketpair()
        inherited = theirs if has_lines else None
        values = (module, [str(one) for one in arguments], str(log), inherited, dict(environment or {}))
        self._process = _context.Process(target=_run, args=values)
        self._process.start()
        theirs.close()
        self.began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        self._lines.close()

    def ask(self, cmd: str, kill: Kill | None = None, **fields: object) -> dict[str, Any]:
        """Send a command and return its answer.

        Args:
            cmd: The command.
            kill: What is done meanwhile, when it is time.
            fields: Of the command.

        Raises:
            EndedError: It has ended or was killed before it answered.
        """
        limit = time.monotonic() + _ANSWERS_WITHIN_S
        try:
            self._lines.sendall(json.dumps({"cmd": cmd, **fields}).encode() + b"\n")
        except OSError:
            raise EndedError(f"{cmd}: it has ended: {self.end_of_log()}") from None
        while b"\n" not in self._read:
            moment = limit if kill is None or kill.is_done else min(limit, kill.moment)
            ready, _, _ = select.select([self._lines], [], [], max(0.0, moment - time.monotonic()))
            if kill is not None:
                kill.do_if_due()
            if not ready and moment < limit:
                continue
            try:
                chunk = self._lines.recv(1 << 16) if ready else b""
            except OSError:
                chunk = b""
            if not chunk:
                raise EndedError(f"{cmd}: {'it has ended' if ready else 'no answer'}: {self.end_of_log()}")
            self._read += chunk
        line, _, rest = self._read.partition(b"\n")
        self._read = bytearray(rest)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """Kill it with SIGKILL and wait for its end; may be called twice."""
        self._process.kill()
        self._process.join()

    def wait_until(self, moment: float) -> int | None:
        """Wait until it ends, or until a time of the monotonic clock; its status, None where it still runs."""
        self._process.join(max(0.0, moment - time.monotonic()))
        return self._process.exitcode

    def wait(self) -> int:
        """Wait for its end; its status."""
        self._process.join()
        return self._process.exitcode or 0

    def end_of_log(self) -> str:
        """The last line of its log; empty where it has written nothing."""
        if not self.log.exists():
            return ""
        return self.log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]


@dataclass(slots=True)
class Kill:
    """The kill of a program at a time of the monotonic clock; never, until there is one."""

    victim: Program
    moment: float = math.inf
    is_done: bool = False

    def do_if_due(self) -> None:
        """Kill it if it is time."""
        if not self.is_done and time.monotonic() >= self.moment:
            self.is_done = True
            self.victim.kill()


def _run(module: str, arguments: list[str], log: str, lines: socket.socket | None, environment: dict[str, str]) -> None:
    """Be the program; in the new process."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if lines is not None:
        os.dup2(lines.fileno(), 0)
        os.dup2(lines.fileno(), 1)
        lines.close()
    os.environ.update(environment)
    # What a killed program leaves is removed by a tracker of its own, as if it had not been forked.
    vars(resource_tracker._resource_tracker).update(_fd=None, _pid=None)
    sys.argv = [module, *arguments]
    # Those of the process: what is forked has streams of other files.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    runpy.run_module(module, run_name="__main__", alter_sys=True)
