"""Tells what happens to the names in a folder, for any number of folders and listeners.

The kernel gives a user 128 inotify instances, and one process may hold a thousand nodes: all listeners of an event
loop share one instance, which is opened for the first of them and closed after the last.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import Enum
from functools import reduce
from operator import or_
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from asyncinotify import Event, Inotify, Mask, Watch

__all__ = ["FolderEvent", "FolderEvents"]


class FolderEvent(Enum):
    """What happened to a name in a watched folder."""

    CREATED = "created"
    WRITTEN = "written"
    """Who wrote it has closed it."""
    MOVED_IN = "moved in"
    MOVED_OUT = "moved out"
    DELETED = "deleted"


_MASKS: Final = {
    Mask.CREATE: FolderEvent.CREATED,
    Mask.CLOSE_WRITE: FolderEvent.WRITTEN,
    Mask.MOVED_TO: FolderEvent.MOVED_IN,
    Mask.MOVED_FROM: FolderEvent.MOVED_OUT,
    Mask.DELETE: FolderEvent.DELETED,
}
_ALL: Final = reduce(or_, _MASKS, Mask.ONLYDIR)


Listener = Callable[[Path, FolderEvent], None]


class FolderEvents:
    """The folders of one listener, which is called in the event loop with each path and what happened to it.

    Folders below a watched one are not watched with it. A folder that is deleted is forgotten.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._instance: _SharedInstance | None = None

    def add(self, folder: Path) -> None:
        """Listen to a folder; twice is once.

        Raises:
            OSError: it cannot be watched.
        """
        if self._instance is None:
            self._instance = _SharedInstance.of_running_loop()
        self._instance.add(folder, self._listener)

    def close(self) -> None:
        """Listen to nothing any more; may be called twice and from any state."""
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.remove(self._listener)


class _SharedInstance:
    """The inotify instance of one event loop."""

    _instances: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _SharedInstance]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._inotify = Inotify(sync_timeout=0)
        # Watch descriptor -> the watch and, for each of its listeners, the path by which that one knows the folder.
        self._folders: dict[int, tuple[Watch, dict[Listener, Path]]] = {}

    @classmethod
    def of_running_loop(cls) -> _SharedInstance:
        loop = asyncio.get_running_loop()
        instance = cls._instances.get(loop)
        if instance is None:
            instance = cls._instances[loop] = cls()
            loop.add_reader(instance._inotify.fd, instance._read)
        return instance

    def add(self, folder: Path, listener: Listener) -> None:
        try:
            watch = self._inotify.add_watch(folder, _ALL)
        except OSError:
            self._close_if_unused()
            raise
        self._folders.setdefault(watch.wd, (watch, {}))[1][listener] = folder

    def remove(self, listener: Listener) -> None:
        for descriptor, (watch, listeners) in list(self._folders.items()):
            listeners.pop(listener, None)
            if not listeners:
                del self._folders[descriptor]
                # The kernel has ended the watch of a folder that is deleted.
                with contextlib.suppress(OSError):
                    self._inotify.rm_watch(watch)
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._folders and self._instances.get(loop) is self:
            del self._instances[loop]
            loop.remove_reader(self._inotify.fd)
            self._inotify.close()

    def _read(self) -> None:
        while self._folders and (event := self._inotify.sync_get()) is not None:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        watch = event.watch
        if watch is None or watch.wd not in self._folders:
            return
        if Mask.IGNORED in event.mask:
            del self._folders[watch.wd]
        elif event.name is not None:
            kind = next(kind for mask, kind in _MASKS.items() if mask in event.mask)
            for listener, folder in list(self._folders[watch.wd][1].items()):
                listener(folder / event.name, kind)
