"""Lines from one file descriptor to another, without a thread and without limits on their length."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Final

__all__ = ["LineReader", "write_line"]

_CHUNK_BYTES: Final = 1 << 16


class LineReader:
    """Reads lines as they come from a pipe, a socket, a terminal or a file; the loop stays free meanwhile.

    Use as a context manager inside a running loop.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._unfinished = bytearray()
        self._is_at_end = False
        self._is_watched = False
        self._arrived = asyncio.Event()

    def __enter__(self) -> LineReader:
        try:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._is_watched = True
        except PermissionError:
            # A regular file cannot be watched, and never makes its reader wait.
            self._arrived.set()
        return self

    def __exit__(self, *exception: object) -> None:
        self._unwatch()

    async def next(self) -> bytes | None:
        """The next line without its end, as soon as it is there; None at the end of the input."""
        while not self._lines:
            if self._is_at_end:
                return None
            if not self._is_watched:
                self._read()
                continue
            self._arrived.clear()
            await self._arrived.wait()
        return self._lines.popleft()

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _CHUNK_BYTES)
        self._arrived.set()
        if not chunk:
            self._is_at_end = True
            self._unwatch()
            if self._unfinished:
                self._lines.append(bytes(self._unfinished))
            return
        first, *more = chunk.split(b"\n")
        self._unfinished += first
        for part in more:
            self._lines.append(bytes(self._unfinished))
            self._unfinished = bytearray(part)

    def _unwatch(self) -> None:
        if self._is_watched:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._is_watched = False


def write_line(descriptor: int, line: bytes) -> None:
    """Write a line whole; waits while the other side does not read."""
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(descriptor, left) :]
