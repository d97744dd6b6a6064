"""A program of others that is run to its end for what it writes: one for credentials, a command of a story.

What it has started may keep its pipes open for longer, also after it was killed. Python's `Process.wait` waits for
that until 3.12, so a transport is used, which closes them.

Source: CPython 3.11, Lib/asyncio/base_subprocess.py, ``_process_exited``, ``_try_finish``.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["EndedProgram", "run_program"]

_MOST_SAID: Final = 64 << 10
_SAID_S: Final = 1.0
_STDOUT: Final = 1


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """A program that has ended.

    Attributes:
        status: its exit status, negative for a signal.
        written: its standard output.
        last_line: the last line of its standard error.
    """

    status: int
    written: bytes
    last_line: str


async def run_program(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, most_written: int | None = None
) -> EndedProgram:
    """Run a program with an empty standard input until it has ended and nobody can write for it any more.

    It is killed where this is cancelled. It stays in this terminal, where it may ask for a password.

    Args:
        argv: its path and its arguments.
        env: its environment; this process' one by default.
        most_written: bytes that it may write to standard output; None where nobody reads that.

    Raises:
        OSError: it cannot be started.
        ValueError: it writes more, or cannot be started with such arguments.
    """
    loop = asyncio.get_running_loop()
    transport, output = await loop.subprocess_exec(
        lambda: _Output(most_written),
        *argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if most_written is None else subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        await output.is_written
        if status := transport.get_returncode() or 0:
            # Standard error is another pipe; what a child of the program keeps open is not waited for.
            await asyncio.wait([output.is_said], timeout=_SAID_S)
    finally:
        transport.close()
        await output.is_ended
    last_line = output.said.decode(errors="replace").strip().rpartition("\n")[2]
    return EndedProgram(status, bytes(output.written), last_line)


class _Output(asyncio.SubprocessProtocol):
    """What a program writes.

    Attributes:
        is_ended: the process has ended.
        is_written: so it has, and its standard output has ended; or it has written too much.
        is_said: its standard error has ended.
    """

    def __init__(self, most_written: int | None) -> None:
        loop = asyncio.get_running_loop()
        self.written, self.said = bytearray(), bytearray()
        self.is_ended: asyncio.Future[None] = loop.create_future()
        self.is_written: asyncio.Future[None] = loop.create_future()
        self.is_said: asyncio.Future[None] = loop.create_future()
        self._most_written = most_written or 0
        self._is_read = most_written is not None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != _STDOUT:
            self.said += data
            del self.said[:-_MOST_SAID]
        elif len(self.written) + len(data) <= self._most_written:
            self.written += data
        elif not self.is_written.done():
            self.is_written.set_exception(ValueError(f"it writes more than {self._most_written} bytes"))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDOUT:
            self._is_read = False
            self._note()
        else:
            self.is_said.set_result(None)

    def process_exited(self) -> None:
        self.is_ended.set_result(None)
        self._note()

    def _note(self) -> None:
        if self.is_ended.done() and not self._is_read and not self.is_written.done():
            self.is_written.set_result(None)
