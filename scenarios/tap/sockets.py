"""The sockets of two folders, each seen in the other: the kubelet's for the plugin, the plugin's for the kubelet.

What appears on one side appears on the other as a socket of the tap, and what vanishes on one side vanishes on the
other. So a plugin notices a new kubelet, and a kubelet that clears its folder takes the plugin's sockets away.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet._internal.folder_events import FolderEvent, FolderEvents
from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME

_GONE: Final = (FolderEvent.DELETED, FolderEvent.MOVED_OUT)
_THERE: Final = (FolderEvent.CREATED, FolderEvent.MOVED_IN)
_BACKLOG: Final = 128


_Identity = tuple[int, int]
"""Number of a file and when it was made: a number alone is soon another file's."""


@dataclass(frozen=True, slots=True)
class _Mirror:
    """A socket of the tap: where, which file, what listens there, and in whose place."""

    place: Path
    identity: _Identity | None
    listener: socket.socket
    original: _Identity | None


OnAccept = Callable[[socket.socket, Path], None]
"""Told of a connection to a socket of the tap, and of the socket in whose place that stands."""


class MirroredSockets:
    """Mirrors from `start` until `close`.

    Args:
        plugin_folder: What the plugin takes for the kubelet's folder.
        kubelet_folder: The kubelet's.
        on_accept: Told of connections.
    """

    def __init__(self, plugin_folder: Path, kubelet_folder: Path, on_accept: OnAccept) -> None:
        self._plugin_folder = plugin_folder
        self._kubelet_folder = kubelet_folder
        self._on_accept = on_accept
        self._mirrors: dict[Path, _Mirror] = {}
        self._removed_here = Counter[Path]()
        self._events = FolderEvents(self._heed)

    def start(self) -> None:
        """Clear the plugin's folder of sockets and mirror the kubelet's.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        self._plugin_folder.mkdir(parents=True, exist_ok=True)
        for left in filter(Path.is_socket, self._plugin_folder.iterdir()):
            left.unlink()
        for folder in (self._plugin_folder, self._kubelet_folder):
            self._events.add(folder)
        self._appeared(self._kubelet_folder / KUBELET_SOCKET_NAME)

    def close(self) -> None:
        """Take away all sockets that were made here; connections go on."""
        self._events.close()
        for original in list(self._mirrors):
            self._vanished(original)

    def _heed(self, path: Path, event: FolderEvent) -> None:
        is_kubelets = path.name == KUBELET_SOCKET_NAME
        if event in _THERE and is_kubelets == (path.parent == self._kubelet_folder):
            self._appeared(path)
        elif event in _GONE:
            self._gone(path)

    def _gone(self, path: Path) -> None:
        if path in self._mirrors:
            self._vanished(path)
        elif self._removed_here[path]:
            self._removed_here[path] -= 1
        else:
            for original, mirror in list(self._mirrors.items()):
                if mirror.place == path:
                    self._vanished(original)
                    if _identity(original) == mirror.original:
                        original.unlink()

    def _appeared(self, original: Path) -> None:
        """Listen in the other folder in the place of a socket."""
        self._vanished(original)
        if not original.is_socket():
            return
        is_kubelets = original.parent == self._kubelet_folder
        place = (self._plugin_folder if is_kubelets else self._kubelet_folder) / original.name
        self._remove(place)
        listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        listener.bind(str(place))
        listener.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, original)
        self._mirrors[original] = _Mirror(place, _identity(place), listener, _identity(original))

    def _vanished(self, original: Path) -> None:
        """Listen no more in the place of a socket."""
        mirror = self._mirrors.pop(original, None)
        if mirror is None:
            return
        if _identity(mirror.place) == mirror.identity:
            self._remove(mirror.place)
        asyncio.get_running_loop().remove_reader(mirror.listener)
        mirror.listener.close()

    def _remove(self, place: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
            self._removed_here[place] += 1

    def _accept(self, listener: socket.socket, original: Path) -> None:
        with contextlib.suppress(BlockingIOError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            self._on_accept(connection, original)


def _identity(path: Path) -> _Identity | None:
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_mtime_ns
