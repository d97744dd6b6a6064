"""Which gopher devices a set of files makes; pure, nothing here touches a disk."""

from __future__ import annotations

from pathlib import PurePath

from ..framework.device import DeviceID

__all__ = ["DeviceFiles"]


class DeviceFiles:
    """The files below a directory. A device is a base name: files of one name in several folders are one device."""

    def __init__(self) -> None:
        self._files: set[PurePath] = set()

    def add(self, path: PurePath) -> None:
        """A file is there; telling it twice changes nothing."""
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
