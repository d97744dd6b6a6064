"""Reports what happens to the names in a folder, for any number of folders and listeners.

The kernel gives a user 128 inotify instances, and one process may hold a thousand nodes: all listeners of an event
loop share one instance, which is opened for the first of them and closed after the last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

from ..apis.inotify import Inotify, Mask

__all__ = ["FolderEvents"]

_NAMES: Final = Mask.CREATE | Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE

Listener = Callable[[Path, int], None]


class FolderEvents:
    """The folders of one listener, which is called in the event loop with each path and what happened to it.

    That is one bit of `Mask`: CREATE, CLOSE_WRITE, MOVED_TO, MOVED_FROM or DELETE, with ISDIR where the path is a
    folder. Folders below a watched one are not watched with it. A folder that is deleted is forgotten.
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
        self._inotify = Inotify(self._report)
        # Watch -> for each of its listeners the path by which that one knows the folder.
        self._folders: dict[int, dict[Listener, Path]] = {}

    @classmethod
    def of_running_loop(cls) -> _SharedInstance:
        loop = asyncio.get_running_loop()
        instance = cls._instances.get(loop)
        if instance is None:
            instance = cls._instances[loop] = cls()
        return instance

    def add(self, folder: Path, listener: Listener) -> None:
        try:
            watch = self._inotify.add(folder, _NAMES | Mask.ONLYDIR)
        except OSError:
            self._close_if_unused()
            raise
        self._folders.setdefault(watch, {})[listener] = folder

    def remove(self, listener: Listener) -> None:
        for watch, listeners in list(self._folders.items()):
            listeners.pop(listener, None)
            if not listeners:
                del self._folders[watch]
                self._inotify.remove(watch)
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._folders and self._instances.get(loop) is self:
            del self._instances[loop]
            self._inotify.close()

    def _report(self, watch: int, mask: int, name: str) -> None:
        if mask & Mask.IGNORED:
            self._folders.pop(watch, None)
        elif mask & _NAMES:
            for listener, folder in list(self._folders.get(watch, {}).items()):
                listener(folder / name, mask)
