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
from pathlib import Path
from typing import Final

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME
from simkubelet.plugins.folder_events import FolderEvent, FolderEvents

_GONE: Final = (FolderEvent.DELETED, FolderEvent.MOVED_OUT)
_THERE: Final = (FolderEvent.CREATED, FolderEvent.MOVED_IN)
_BACKLOG: Final = 128

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
        self._mirrored: dict[Path, tuple[Path, socket.socket]] = {}
        self._removed_here = Counter[Path]()
        self._events = FolderEvents(self._heed)

    def start(self) -> None:
        """Clear the plugin's folder and mirror the kubelet's socket.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        self._plugin_folder.mkdir(parents=True, exist_ok=True)
        for left in self._plugin_folder.iterdir():
            left.unlink()
        for folder in (self._plugin_folder, self._kubelet_folder):
            self._events.add(folder)
        self._appeared(self._kubelet_folder / KUBELET_SOCKET_NAME)

    def close(self) -> None:
        """Take away all sockets that were made here; connections go on."""
        self._events.close()
        for original in list(self._mirrored):
            self._vanished(original)

    def _heed(self, path: Path, event: FolderEvent) -> None:
        is_kubelets = path.name == KUBELET_SOCKET_NAME
        if event in _THERE and is_kubelets == (path.parent == self._kubelet_folder):
            self._appeared(path)
        elif event in _GONE:
            self._gone(path)

    def _gone(self, path: Path) -> None:
        if path in self._mirrored:
            self._vanished(path)
        elif self._removed_here[path]:
            self._removed_here[path] -= 1
        else:
            for original, (mirror, _) in list(self._mirrored.items()):
                if mirror == path:
                    self._vanished(original)
                    original.unlink(missing_ok=True)

    def _appeared(self, original: Path) -> None:
        """Listen in the other folder in the place of a socket."""
        self._vanished(original)
        if not original.is_socket():
            return
        is_kubelets = original.parent == self._kubelet_folder
        mirror = (self._plugin_folder if is_kubelets else self._kubelet_folder) / original.name
        mirror.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        listener.bind(str(mirror))
        listener.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, original)
        self._mirrored[original] = mirror, listener

    def _vanished(self, original: Path) -> None:
        """Listen no more in the place of a socket."""
        mirror, listener = self._mirrored.pop(original, (None, None))
        if mirror is None or listener is None:
            return
        asyncio.get_running_loop().remove_reader(listener)
        listener.close()
        with contextlib.suppress(FileNotFoundError):
            mirror.unlink()
            self._removed_here[mirror] += 1

    def _accept(self, listener: socket.socket, original: Path) -> None:
        with contextlib.suppress(BlockingIOError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            self._on_accept(connection, original)
