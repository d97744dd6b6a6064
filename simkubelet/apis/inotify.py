"""What the kernel reports about names that come and go in folders.

Asks inotify directly. asyncinotify runs programs to find the C library: its import takes 9 ms of processor time, and a
plugin's start 110 ms in all (docs/benchmarks.md).

Source: inotify(7); linux/inotify.h.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import AsyncGenerator
from enum import IntFlag
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

__all__ = ["FolderEvent", "Inotify", "Mask"]

_EVENT: Final = struct.Struct("iIII")
"""Watch, mask, cookie, and the length of the name that follows, with NULs at its end."""
_READ_BYTES: Final = 1 << 16


class Mask(IntFlag):
    """What is watched, and what has happened."""

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


class FolderEvent(NamedTuple):
    """Something that happened.

    Attributes:
        mask: What it was, as bits of `Mask`.
        path: Of the name that it happened to, or of the folder itself; None where events were lost.
    """

    mask: int
    path: Path | None


class Inotify:
    """Watches folders, made and closed in the event loop; what happens before `events` is iterated is not lost.

    Raises:
        OSError: there are too many already.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise _last_error()
        self._folders: dict[int, Path] = {}
        self._read_events: asyncio.Queue[tuple[int, int, str]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all watches."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def add(self, folder: Path, mask: Mask) -> None:
        """Watch a folder, not what is below it; twice is once.

        Raises:
            OSError: it cannot be watched.
        """
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), mask | Mask.ONLYDIR)
        if watch < 0:
            raise _last_error()
        self._folders[watch] = folder

    def remove(self, folder: Path) -> None:
        """Watch neither a folder nor the folders below it any more; the kernel ends the watches of deleted ones."""
        for watch, path in list(self._folders.items()):
            if path.is_relative_to(folder):
                del self._folders[watch]
                self._libc.inotify_rm_watch(self._descriptor, watch)

    async def events(self) -> AsyncGenerator[FolderEvent, None]:
        """Each event, in order; never ends by itself."""
        while True:
            watch, mask, name = await self._read_events.get()
            folder = self._folders.get(watch)
            if mask & Mask.OVERFLOW:
                yield FolderEvent(mask, None)
            elif mask & Mask.IGNORED:
                self._folders.pop(watch, None)
            elif folder is not None:
                yield FolderEvent(mask, folder / name if name else folder)

    def _read(self) -> None:
        data = os.read(self._descriptor, _READ_BYTES)
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            self._read_events.put_nowait((watch, mask, os.fsdecode(data[at - length : at].rstrip(b"\0"))))


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
