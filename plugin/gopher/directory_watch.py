"""Follows the files below a directory, folders in folders included.

A folder is watched before it is listed, so that no file is missed between the two; a file that both report is one file.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from asyncinotify import Event, Inotify, Mask

from ..errors import FatalError
from ..framework.device import DeviceID
from .device_files import DeviceFiles

__all__ = ["DirectoryWatch"]

_MASK: Final = (
    Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.ONLYDIR
)
_GONE: Final = Mask.DELETE_SELF | Mask.MOVE_SELF | Mask.UNMOUNT


class DirectoryWatch:
    """The devices of one directory, from its construction on.

    Raises:
        FatalError: the directory is missing or cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = DeviceFiles()
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise _unwatchable(directory, error) from error
        try:
            self._start()
        except FatalError:
            self._inotify.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inotify.close()

    async def device_ids(self) -> AsyncGenerator[tuple[DeviceID, ...], None]:
        """The devices now, then again after each change.

        Raises:
            FatalError: the directory is gone.
        """
        known = self._files.device_ids()
        yield known
        async for event in self._inotify:
            self._take(event)
            if (current := self._files.device_ids()) != known:
                known = current
                yield known

    def _start(self) -> None:
        try:
            self._inotify.add_watch(self._directory, _MASK)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FatalError(
                f"cannot watch the gopher directory {self._directory}: {error.strerror}; "
                "make it or name one with --directory"
            ) from error
        except OSError as error:
            raise _unwatchable(self._directory, error) from error
        self._list(self._directory)

    def _take(self, event: Event) -> None:
        if Mask.Q_OVERFLOW in event.mask:
            self._files.clear()
            self._list(self._directory)
            return
        path = event.path
        if path is None or event.mask & _GONE or Mask.IGNORED in event.mask:
            # A folder below is told about by the one above it.
            if path == self._directory:
                raise FatalError(f"the gopher directory {self._directory} is gone; make it again and start the plugin")
        elif event.mask & (Mask.CREATE | Mask.MOVED_TO):
            if Mask.ISDIR in event.mask:
                self._list(path)
            else:
                self._files.add(path)
        else:
            self._files.remove(path)
            if Mask.ISDIR in event.mask:
                self._unwatch(path)

    def _list(self, folder: Path) -> None:
        try:
            self._inotify.add_watch(folder, _MASK)
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = folder / entry.name
                    if entry.is_dir(follow_symlinks=False):
                        self._list(path)
                    else:
                        self._files.add(path)
        except (FileNotFoundError, NotADirectoryError):
            # Made and removed again, or replaced, before it was looked at.
            self._files.remove(folder)
        except OSError as error:
            raise _unwatchable(folder, error) from error

    def _unwatch(self, folder: Path) -> None:
        """Forget the folders that were moved away; watches of deleted ones end by themselves."""
        for watch in self._inotify.watches:
            if watch.path.is_relative_to(folder):
                try:
                    self._inotify.rm_watch(watch)
                except OSError:
                    continue


def _unwatchable(folder: Path, error: OSError) -> FatalError:
    return FatalError(
        f"cannot watch the gopher directory {folder}: {os.strerror(error.errno or 0)}; "
        "check its permissions and the limits of open files and of inotify"
    )
