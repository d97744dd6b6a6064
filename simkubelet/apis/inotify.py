"""What the kernel reports about files: how plugins and kubelets notice each other's sockets.

`Inotify` calls back, `PathWatch` is iterated; both belong to the event loop in which they are made. inotify is asked
directly: asyncinotify runs a program to find the C library, and its import slows the start of a plugin
(docs/benchmarks.md).

Source: inotify(7); linux/inotify.h.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from enum import IntFlag
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

__all__ = ["Inotify", "Mask", "PathEvent", "PathWatch"]

_EVENT: Final = struct.Struct("iIII")
"""Watch, mask, cookie, and the length of the name that follows, with NULs at its end."""
_READ_BYTES: Final = 1 << 16


class Mask(IntFlag):
    """What is watched, and what has happened."""

    MODIFY = 0x2
    CLOSE_WRITE = 0x8
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    MOVE_SELF = 0x800
    UNMOUNT = 0x2000
    OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLYDIR = 0x1000000
    ISDIR = 0x40000000


class Inotify:
    """An instance of inotify, of which the kernel gives each user 128.

    Args:
        report: Called with the number of a watch, what happened as bits of `Mask`, and the name in the folder that it
            happened to; the name is empty where it is the watched path itself. The watch is -1 where events were lost.

    Raises:
        OSError: There are too many already.
    """

    def __init__(self, report: Callable[[int, int, str], None]) -> None:
        self._report = report
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _last_error()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """End all watches; call it once."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def add(self, path: Path, mask: int) -> int:
        """Watch a path, not what is below it, and return the watch; a file or folder has one, with the last mask.

        Raises:
            OSError: It cannot be watched.
        """
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
        if watch < 0:
            raise _last_error(path)
        return watch

    def remove(self, watch: int) -> None:
        """End a watch; the kernel has ended that of a deleted path, which makes no difference."""
        self._libc.inotify_rm_watch(self._descriptor, watch)

    def _read(self) -> None:
        data = os.read(self._descriptor, _READ_BYTES)
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            self._report(watch, mask, os.fsdecode(data[at - length : at].rstrip(b"\0")))


def _last_error(path: Path | None = None) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), None if path is None else str(path))


class PathEvent(NamedTuple):
    """Something that happened.

    Attributes:
        mask: What it was, as bits of `Mask`.
        path: What it happened to: a name in a watched folder, or a watched path; None where events were lost.
    """

    mask: int
    path: Path | None


class PathWatch:
    """Watches paths and is iterated for what happens to them, in order; what happens before that is not lost.

    Raises:
        OSError: There are too many instances of inotify already.
    """

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._reported: asyncio.Queue[tuple[int, int, str]] = asyncio.Queue()
        self._inotify = Inotify(lambda *event: self._reported.put_nowait(event))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all watches."""
        self._inotify.close()

    def add(self, path: Path, mask: int) -> None:
        """Watch a path, not what is below it; twice is once.

        Raises:
            OSError: It cannot be watched.
        """
        self._paths[self._inotify.add(path, mask)] = path

    def remove(self, folder: Path) -> None:
        """Watch neither a folder nor what is below it any more; what is already reported of them is dropped."""
        for watch, path in list(self._paths.items()):
            if path.is_relative_to(folder):
                del self._paths[watch]
                self._inotify.remove(watch)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PathEvent:
        while True:
            watch, mask, name = await self._reported.get()
            path = self._paths.get(watch)
            if mask & Mask.OVERFLOW:
                return PathEvent(mask, None)
            if mask & Mask.IGNORED:
                self._paths.pop(watch, None)
            elif path is not None:
                return PathEvent(mask, path / name if name else path)
