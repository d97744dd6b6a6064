"""The gopher devices of the files below a directory, folders in folders included.

A folder is watched before it is listed, so that no file is missed between the two; a file that both report is one file.

`OriginalWatch` follows them as the original does: at its start all files below the directory are devices. Then the
directory alone is watched: whatever appears in it is a device, folders too, what is removed is none any more, and a
rename takes nothing away.

Source: i-device-plugin, pkg/device_plugin/device_monitor.go, ``List`` and ``Watch``, for `OriginalWatch`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path, PurePath
from types import TracebackType
from typing import Final, Self

from simkubelet.apis.inotify import Mask, PathEvent, PathWatch

from ..errors import FatalError
from ..framework.device_plugin import DeviceID

__all__ = ["DeviceFiles", "DirectoryWatch", "OriginalWatch"]


class DeviceFiles:
    """The files below a directory. A device is a base name: files of one name in several folders are one device."""

    def __init__(self) -> None:
        self._files: set[PurePath] = set()

    def add(self, path: PurePath) -> None:
        """A file is there; adding it twice changes nothing."""
        self._files.add(path)

    def remove(self, path: PurePath) -> None:
        """The file is gone, or the folder of that path with all that was below it."""
        self._files = {file for file in self._files if not file.is_relative_to(path)}

    def clear(self) -> None:
        """Nothing is known any more."""
        self._files.clear()

    def device_ids(self) -> tuple[DeviceID, ...]:
        """The devices, sorted."""
        return tuple(sorted({DeviceID(file.name) for file in self._files}))


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
        self._watch = PathWatch()
        try:
            self._start()
        except FatalError:
            self._watch.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.close()

    async def device_ids(self) -> AsyncGenerator[tuple[DeviceID, ...], None]:
        """The devices now, then again after each change.

        Raises:
            FatalError: the directory is gone.
        """
        known = self._files.device_ids()
        yield known
        async for event in self._watch:
            self._take(event)
            if (current := self._files.device_ids()) != known:
                known = current
                yield known

    def _start(self) -> None:
        try:
            self._watch.add(self._directory, _MASK)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FatalError(
                f"cannot watch the gopher directory {self._directory}: {error.strerror}; "
                "make it or name one with --directory"
            ) from error
        except OSError as error:
            raise _unwatchable(self._directory, error) from error
        self._list(self._directory)

    def _take(self, event: PathEvent) -> None:
        mask, path = event
        if path is None:
            self._files.clear()
            self._list(self._directory)
        elif mask & _GONE:
            # A folder below is reported by the one above it.
            if path == self._directory:
                raise FatalError(f"the gopher directory {self._directory} is gone; make it again and start the plugin")
        elif mask & (Mask.CREATE | Mask.MOVED_TO):
            if mask & Mask.ISDIR:
                self._list(path)
            else:
                self._files.add(path)
        else:
            self._files.remove(path)
            if mask & Mask.ISDIR:
                self._watch.remove(path)

    def _list(self, folder: Path) -> None:
        try:
            self._watch.add(folder, _MASK)
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


def _unwatchable(folder: Path, error: OSError) -> FatalError:
    return FatalError(
        f"cannot watch the gopher directory {folder}: {os.strerror(error.errno or 0)}; "
        "check its permissions and the limits of open files and of inotify"
    )


_PANIC_STATUS: Final = 2


class OriginalWatch:
    """The devices of one directory, from its construction on; stands in for `DirectoryWatch`.

    Raises:
        FatalError: the directory is missing or cannot be read, where the original panics.
    """

    def __init__(self, directory: Path) -> None:
        self._watch = PathWatch()
        try:
            self._watch.add(directory, Mask.CREATE | Mask.MOVED_TO | Mask.DELETE | Mask.ONLYDIR)
        except OSError as error:
            raise FatalError(
                f"cannot watch the gopher directory {directory}: {os.strerror(error.errno or 0)}; "
                "make it or name one with --directory",
                _PANIC_STATUS,
            ) from error
        self._devices = {DeviceID(name) for _, _, names in os.walk(directory) for name in names}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.close()

    async def device_ids(self) -> AsyncGenerator[tuple[DeviceID, ...], None]:
        """The devices now, then again after each thing that came or was removed."""
        yield tuple(sorted(self._devices))
        async for mask, path in self._watch:
            if path is None:
                continue
            device_id = DeviceID(path.name)
            if mask & Mask.DELETE:
                self._devices.discard(device_id)
            else:
                self._devices.add(device_id)
            yield tuple(sorted(self._devices))
