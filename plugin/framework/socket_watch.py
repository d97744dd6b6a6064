"""Notices sockets that come and go in a folder: of a restarted kubelet a plugin gets no other sign.

Asks inotify directly: the library for it starts a process to find the C library, a tenth of a plugin's start.

Source: inotify(7); linux/inotify.h.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME

__all__ = ["SocketChange", "SocketWatch"]

_MOVED_FROM: Final = 0x40
_MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_OVERFLOW: Final = 0x4000
_ONLY_A_FOLDER: Final = 0x1000000
_COMES: Final = _CREATE | _MOVED_TO
_GOES: Final = _DELETE | _MOVED_FROM
_EVENT: Final = struct.Struct("iIII")
"""Watch, mask, cookie, and the length of the name that follows, with NULs at its end."""
_READ_BYTES: Final = 1 << 16


class SocketChange(NamedTuple):
    """A name of the folder that came, in place or by a move, or went."""

    name: str
    is_there: bool


class SocketWatch:
    """Watches a folder from its construction on; what happens before `changes` is iterated is not lost.

    Args:
        folder: Watched itself, not what is below it.
        kubelet_name: The name of the kubelet's socket there.

    Raises:
        OSError: the folder cannot be watched.
    """

    def __init__(self, folder: Path, kubelet_name: str = KUBELET_SOCKET_NAME) -> None:
        self._kubelet_name = kubelet_name
        self._changes: asyncio.Queue[SocketChange] = asyncio.Queue()
        self._inotify = _watching(folder, _COMES | _GOES | _ONLY_A_FOLDER)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._inotify, self._read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._inotify)
        os.close(self._inotify)

    async def changes(self) -> AsyncGenerator[SocketChange, None]:
        """Each change, in order; never ends by itself.

        The folder removed under a plugin that serves is not noticed: the plugin's own socket keeps it in being.
        """
        while True:
            yield await self._changes.get()

    async def created(self) -> AsyncGenerator[None, None]:
        """One item for each new socket of a kubelet."""
        async for change in self.changes():
            if change.is_there and change.name == self._kubelet_name:
                yield

    def _read(self) -> None:
        for mask, name in _events(os.read(self._inotify, _READ_BYTES)):
            if mask & _OVERFLOW:
                # A new kubelet cannot be excluded.
                self._changes.put_nowait(SocketChange(self._kubelet_name, is_there=True))
            elif mask & (_COMES | _GOES):
                self._changes.put_nowait(SocketChange(name, is_there=bool(mask & _COMES)))


def _watching(folder: Path, mask: int) -> int:
    """A descriptor on which changes of a folder can be read.

    Raises:
        OSError: the folder cannot be watched.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    inotify: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if inotify < 0:
        raise _last_error()
    if libc.inotify_add_watch(inotify, os.fsencode(folder), mask) < 0:
        error = _last_error()
        os.close(inotify)
        raise error
    return inotify


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def _events(data: bytes) -> Iterator[tuple[int, str]]:
    """Mask and name of each event."""
    at = 0
    while at < len(data):
        _, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size + length
        yield mask, os.fsdecode(data[at - length : at].rstrip(b"\0"))
