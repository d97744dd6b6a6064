"""The two streams of a program that answers lines: a session from its first line to its end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from typing import Final

from ..model.errors import HostError, InputError
from .request import LONGEST_LINE
from .session import CommandTable, N, Session

__all__ = ["LineReader", "serve_lines"]

_CHUNK_BYTES: Final = 1 << 16
_INPUT: Final = 0
_OUTPUT: Final = 1


async def serve_lines(make_node: Callable[[asyncio.TaskGroup], N], commands: CommandTable[N]) -> None:
    """Answer the lines of the standard input until it ends, the reader of the answers is gone, or a SIGTERM comes.

    Args:
        make_node: makes what the commands work on; it is stopped at the end.
        commands: what can be asked.

    Raises:
        InputError: the standard input cannot be read.
        HostError: the standard output cannot be written.
    """
    async with asyncio.TaskGroup() as tasks:
        node = make_node(tasks)
        session = Session(node, commands, tasks)
        answering = asyncio.create_task(_answer_all(session))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, answering.cancel)
        try:
            await asyncio.wait({answering})
        finally:
            answering.cancel()
            session.cancel()
            await node.stop()
    if not answering.cancelled():
        try:
            answering.result()
        except BrokenPipeError:
            pass
        except OSError as error:
            raise HostError(f"output: {error.strerror}") from None


async def _answer_all(session: Session[N]) -> None:
    with LineReader(_INPUT) as lines:
        while (line := await lines.next()) is not None:
            if line.strip():
                await _write_line(_OUTPUT, await session.answer(line))


class LineReader:
    """Reads lines as they come from a pipe, a socket, a terminal or a file; the loop stays free meanwhile.

    It reads on when the lines that it has are taken, so who writes faster than lines are answered waits. Of a line that
    is longer than `longest` only the beginning is kept, one byte more than that.

    Use as a context manager inside a running loop.
    """

    def __init__(self, descriptor: int, longest: int = LONGEST_LINE) -> None:
        self._descriptor = descriptor
        self._longest = longest
        self._lines: deque[bytes] = deque()
        self._unfinished = bytearray()
        self._is_at_end = False
        self._error: OSError | None = None
        self._is_file = False
        self._arrived = asyncio.Event()

    def __enter__(self) -> LineReader:
        try:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        except PermissionError:
            # A regular file cannot be watched, and never makes its reader wait.
            self._is_file = True
        return self

    def __exit__(self, *exception: object) -> None:
        self._unwatch()

    async def next(self) -> bytes | None:
        """The next line without its end, as soon as it is there; None at the end of the input.

        Raises:
            InputError: what is read from cannot be read.
        """
        while not self._lines:
            if self._error:
                raise InputError(f"input: {self._error.strerror}")
            if self._is_at_end:
                return None
            if self._is_file:
                self._read()
                continue
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._arrived.clear()
            await self._arrived.wait()
        return self._lines.popleft()

    def _read(self) -> None:
        chunk = b""
        try:
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
        except OSError as error:
            self._error = error
        if not chunk:
            self._is_at_end = True
            if self._unfinished:
                self._lines.append(bytes(self._unfinished))
        else:
            first, *more = chunk.split(b"\n")
            self._unfinished += first
            for part in more:
                self._lines.append(bytes(self._unfinished))
                self._unfinished = bytearray(part)
            del self._unfinished[self._longest + 1 :]
        if self._is_at_end or self._lines:
            self._unwatch()
            self._arrived.set()

    def _unwatch(self) -> None:
        if not self._is_file:
            asyncio.get_running_loop().remove_reader(self._descriptor)


async def _write_line(descriptor: int, line: bytes) -> None:
    """Write a line whole; the loop stays free while the other side does not read."""
    left = memoryview(line + b"\n")
    while left:
        await _until_writable(descriptor)
        # So many bytes do not block what can be written to.
        left = left[os.write(descriptor, left[: select.PIPE_BUF]) :]


async def _until_writable(descriptor: int) -> None:
    if select.select([], [descriptor], [], 0)[1]:
        return
    loop, writable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(descriptor, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(descriptor)
