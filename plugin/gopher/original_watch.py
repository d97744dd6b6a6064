"""Follows the files below a directory as the original does, with what that overlooks.

At its start all files below the directory are devices. Then the directory alone is watched: whatever appears in it is a
device, folders too, what is removed is none any more, and a rename takes nothing away.

Source: i-device-plugin, pkg/device_plugin/device_monitor.go, ``List`` and ``Watch``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ..errors import FatalError
from ..framework.device import DeviceID
from ..framework.inotify import Inotify, Mask

__all__ = ["OriginalWatch"]

_PANIC_STATUS: Final = 2


class OriginalWatch:
    """The devices of one directory, from its construction on; stands in for `DirectoryWatch`.

    Raises:
        FatalError: the directory is missing or cannot be read, where the original panics.
    """

    def __init__(self, directory: Path) -> None:
        self._inotify = Inotify()
        try:
            self._inotify.add(directory, Mask.CREATE | Mask.MOVED_TO | Mask.DELETE)
        except OSError as error:
            self._inotify.close()
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
        self._inotify.close()

    async def device_ids(self) -> AsyncGenerator[tuple[DeviceID, ...], None]:
        """The devices now, then again after each thing that came or was removed."""
        yield tuple(sorted(self._devices))
        async for mask, path in self._inotify.events():
            if path is None:
                continue
            device_id = DeviceID(path.name)
            if mask & Mask.DELETE:
                self._devices.discard(device_id)
            else:
                self._devices.add(device_id)
            yield tuple(sorted(self._devices))
