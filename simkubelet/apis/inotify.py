"""What the kernel reports about files: how plugins and kubelets notice each other's sockets.

`Inotify` calls back, `PathWatch` is iterated. The kernel gives a user 128 instances of inotify, and one process may
hold a thousand nodes with their plugins: all that watch in an event loop share one instance, which is opened for the
first of them and closed after the last. What waits to be taken is bounded as in the kernel: where more comes, an event
says that some were lost. inotify is asked directly: asyncinotify runs a program to find the C library,
and its import slows the start of a plugin (docs/benchmarks.md).

Source: inotify(7); linux/inotify.h.
"""

from __future__ import annotations

import array
import asyncio
import ctypes
import fcntl
import os
import struct
import termios
from collections import deque
from collections.abc import Callable
from enum import IntFlag
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, NamedTuple, Self
from weakref import WeakKeyDictionary

__all__ = ["NO_INSTANCE", "Inotify", "Mask", "PathEvent", "PathWatch"]

_EVENT: Final = struct.Struct("iIII")
"""Watch, mask, cookie, and the length of the name that follows, with NULs at its end."""
_READ_BYTES: Final = 1 << 16
_ALL_WATCHES: Final = -1
_MOST_EVENTS: Final = 16_384
"""That wait to be taken. Source: fs/notify/inotify/inotify_user.c, ``inotify_max_queued_events`` (Linux 6.1)."""


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
    DONT_FOLLOW = 0x2000000
    MASK_ADD = 0x20000000
    ISDIR = 0x40000000


class PathEvent(NamedTuple):
    """Something that happened.

    Attributes:
        mask: What it was, as bits of `Mask`.
        path: What it happened to: a name in a watched folder, or a watched path; None where events were lost.
    """

    mask: int
    path: Path | None


class _Listener:
    """The paths that are watched for somebody; made anywhere, used in one event loop."""

    def __init__(self) -> None:
        self._instance: _Instance | None = None
        self._watched: dict[int, _Watched] = {}

    def __len__(self) -> int:
        """The number of paths that are watched."""
        return len(self._watched)

    def add(self, path: Path, mask: int) -> None:
        """Watch a path, not what is below it; of two masks for one file or folder the last counts.

        Raises:
            OSError: It cannot be watched, or there are too many instances of inotify already.
        """
        self._instance = _Instance.of_running_loop()
        watch, begin = self._instance.add(self, path, mask)
        known = self._watched.get(watch)
        self._watched[watch] = _Watched(path, mask, known.begin if known else begin)

    def remove(self, folder: Path) -> None:
        """Watch neither a folder nor what is below it any more; what is not reported of them yet is dropped."""
        for watch, (path, _, _) in list(self._watched.items()):
            if path.is_relative_to(folder):
                self._end(watch)

    def close(self) -> None:
        """End all watches; may be called twice and from any state."""
        for watch in list(self._watched):
            self._end(watch)
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.close_if_unused()

    def take(self, event: _Event) -> None:
        """Take an event about one of the watches, or about all."""
        raise NotImplementedError

    def _event(self, event: _Event) -> PathEvent | None:
        """What an event says of the watched paths; None for nothing."""
        if event.mask & Mask.OVERFLOW:
            return PathEvent(event.mask, None)
        if event.mask & Mask.IGNORED:
            self._watched.pop(event.watch, None)
            return None
        watched = self._watched.get(event.watch)
        if watched is None or event.number < watched.begin or not event.mask & (watched.mask | Mask.UNMOUNT):
            return None
        return PathEvent(event.mask, watched.path / event.name if event.name else watched.path)

    def _end(self, watch: int) -> None:
        del self._watched[watch]
        if self._instance is not None:
            self._instance.remove(self, watch)


class _Watched(NamedTuple):
    """A path of a listener, by its own name for it; events before the number `begin` are older than its watch."""

    path: Path
    mask: int
    begin: int


class _Event(NamedTuple):
    """What the kernel reports; `name` is that in the watched folder, empty where it is the watched path itself."""

    number: int
    watch: int
    mask: int
    name: str


class _Queue:
    """Events that wait, in order; of those that are too many, one that says so."""

    def __init__(self) -> None:
        self._events: deque[_Event] = deque()
        self._has_lost = False

    def __bool__(self) -> bool:
        return bool(self._events)

    def put(self, event: _Event) -> None:
        # The end of a watch is never lost: there is one of each, and it ends what is kept of the watch.
        if len(self._events) >= _MOST_EVENTS and not event.mask & Mask.IGNORED:
            event = event._replace(mask=int(Mask.OVERFLOW), watch=_ALL_WATCHES, name="")
        if event.mask & Mask.OVERFLOW:
            if self._has_lost:
                return
            self._has_lost = True
        self._events.append(event)

    def take(self) -> _Event:
        event = self._events.popleft()
        if event.mask & Mask.OVERFLOW:
            self._has_lost = False
        return event


NO_INSTANCE: Final = "an inotify instance"
"""What the error names where there can be none."""


class _Instance:
    """The instance of one event loop: who listens to which watch, and what has been read and not reported."""

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Instance]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            # The kernel has the same number for too many open files and for too many instances of a user.
            raise _last_error(NO_INSTANCE)
        self._listeners: dict[int, dict[_Listener, None]] = {}
        self._unreported = _Queue()
        self._count = 0
        loop.add_reader(self._descriptor, self._take)

    @classmethod
    def of_running_loop(cls) -> _Instance:
        loop = asyncio.get_running_loop()
        instance = cls._of_loop.get(loop)
        if instance is None:
            instance = cls._of_loop[loop] = cls(loop)
        return instance

    def add(self, listener: _Listener, path: Path, mask: int) -> tuple[int, int]:
        """Return the watch, and the number of the first event after it.

        The file may be watched already, with events about it that the listener is not to see. They are read first: the
        kernel drops an event that is like the last one that waits, which others wait for.
        """
        # Not all that comes meanwhile: others may make events as fast as these are read.
        if self._read(self._waiting_bytes()):
            asyncio.get_running_loop().call_soon(self._report)
        watch: int = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask | Mask.MASK_ADD)
        if watch < 0:
            error = _last_error(str(path))
            self.close_if_unused()
            raise error
        self._listeners.setdefault(watch, {})[listener] = None
        return watch, self._count

    def remove(self, listener: _Listener, watch: int) -> None:
        """End a watch for a listener; the kernel has ended that of a deleted path, which makes no difference."""
        listeners = self._listeners.get(watch, {})
        listeners.pop(listener, None)
        if not listeners and self._listeners.pop(watch, None) is not None:
            self._libc.inotify_rm_watch(self._descriptor, watch)

    def close_if_unused(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._listeners and self._of_loop.get(loop) is self:
            del self._of_loop[loop]
            loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _take(self) -> None:
        self._read()
        self._report()

    def _waiting_bytes(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, count)
        return count[0]

    def _read(self, size: int = _READ_BYTES) -> bool:
        """Read what waits, at most so many bytes; whether there was anything."""
        if not size:
            return False
        try:
            data = os.read(self._descriptor, size)
        except BlockingIOError:
            return False
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
            self._unreported.put(_Event(self._count, watch, mask, name))
            self._count += 1
        return True

    def _report(self) -> None:
        while self._unreported:
            event = self._unreported.take()
            if event.mask & Mask.OVERFLOW:
                listeners = list(dict.fromkeys(listener for each in self._listeners.values() for listener in each))
            elif event.mask & Mask.IGNORED:
                listeners = list(self._listeners.pop(event.watch, ()))
            else:
                listeners = list(self._listeners.get(event.watch, ()))
            for listener in listeners:
                listener.take(event)


def _last_error(name: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), name)


class Inotify(_Listener):
    """Calls back in the event loop for what happens to the watched paths, in order.

    Args:
        report: Called with each event; not with what happened before its path was added.
    """

    def __init__(self, report: Callable[[PathEvent], None]) -> None:
        super().__init__()
        self._report = report

    def take(self, event: _Event) -> None:
        """See `_Listener`."""
        if (reported := self._event(event)) is not None:
            self._report(reported)


class PathWatch(_Listener):
    """Watches paths and is iterated for what happens to them, in order; what happens before that is not lost."""

    def __init__(self) -> None:
        super().__init__()
        self._taken = _Queue()
        self._has_come = asyncio.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def take(self, event: _Event) -> None:
        """See `_Listener`."""
        self._taken.put(event)
        self._has_come.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PathEvent:
        while True:
            while not self._taken:
                self._has_come.clear()
                await self._has_come.wait()
            if (event := self._event(self._taken.take())) is not None:
                return event
