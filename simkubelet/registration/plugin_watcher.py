"""Finds plugin sockets below ``plugins_registry/``, as the kubelet's plugin watcher does.

Folders in folders are watched too. The kubelet's gaps are kept: a socket that is renamed away is never missed, and a
socket with a leading dot is never found, though a folder with one is looked into when it is there from the start, and
a socket in a linked folder is found only when it comes later, also where the watched folder itself is the link.

Source: pluginmanager/pluginwatcher/plugin_watcher.go (kubernetes v1.34.4; the same from v1.26.15 to v1.37.0).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

from .._internal.folder_events import FolderEvent, FolderEvents
from ..model.errors import HostError

__all__ = ["PluginWatcher"]

_log = logging.getLogger(__name__)


class PluginWatcher:
    """Reports the sockets of one folder from `start` to `stop`; whatever is there at the start counts as new.

    Args:
        directory: the folder, made when it is missing.
        on_found: called with each socket that is there or appears; again with one that is recreated at its path.
        on_deleted: called with each name that is deleted, socket or not.
    """

    def __init__(self, directory: Path, on_found: Callable[[Path], None], on_deleted: Callable[[Path], None]) -> None:
        self._directory = directory
        self._on_found = on_found
        self._on_deleted = on_deleted
        self._events = FolderEvents(self._take)

    def start(self) -> None:
        """Look at the folder and watch it.

        Raises:
            HostError: it cannot be made or watched.
        """
        try:
            self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._look_into(self._directory)
        except OSError as error:
            self._events.close()
            raise HostError(
                f"{self._directory}: cannot be watched: {error.strerror or error}; "
                "check its permissions and the limits of inotify"
            ) from None

    def stop(self) -> None:
        """Watch no more; may be called twice and from any state."""
        self._events.close()

    def _look_into(self, folder: Path) -> None:
        # Watched before it is listed, so that no socket is missed between the two.
        self._events.add(folder)
        if folder.is_symlink():
            return
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                self._look_into_if_possible(path)
            elif not entry.name.startswith(".") and _is_socket(path):
                self._on_found(path)

    def _look_into_if_possible(self, folder: Path) -> None:
        try:
            self._look_into(folder)
        except OSError as error:
            _log.error("%s: cannot be watched: %s", folder, error.strerror or error)

    def _take(self, path: Path, event: FolderEvent) -> None:
        if event is FolderEvent.DELETED:
            self._on_deleted(path)
        elif event in (FolderEvent.CREATED, FolderEvent.MOVED_IN) and not path.name.startswith("."):
            if path.is_dir():
                self._look_into_if_possible(path)
            elif _is_socket(path):
                self._on_found(path)


def _is_socket(path: Path) -> bool:
    """Whether a path is a socket or a link to one."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
