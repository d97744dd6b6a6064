"""The sockets of a tap, which stand for those of a plugin and of its kubelet.

What appears in the folder of a plugin or of its kubelet appears in the other's folder as a socket of the tap, and what
vanishes on one side vanishes on the other. So a plugin notices a new kubelet, and a kubelet that clears its folder
removes the plugin's sockets. Sockets in folders of a plugin's folder are in folders of the same names for the kubelet,
whose plugin watcher looks there, too (pluginmanager/pluginwatcher/plugin_watcher.go, ``traversePluginDir``, kubernetes
v1.34.4).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME
from simkubelet.apis.inotify import Inotify, Mask, PathEvent
from simkubelet.host import folder_without_links, found_without_links

_LOG: Final = logging.getLogger(__name__)
_GONE: Final = Mask.DELETE | Mask.MOVED_FROM
_THERE: Final = Mask.CREATE | Mask.MOVED_TO
BACKLOG: Final = 128
"""Connections that wait to be accepted on a socket of a tap."""
_MOST_MIRRORS: Final = 1000
_MOST_FOLDERS: Final = 100
"""Of a plugin, that are watched, and that are looked into at a time."""
_PAUSE_S: Final = 0.1
"""Before the next try where no connection can be accepted, as all descriptors are in use."""
_Identity = tuple[int, int]
"""Number of a file and when it was made: a number alone is soon another file's."""
OnAccept = Callable[[socket.socket, Path], None]
"""Called with a connection to a socket of the tap, and of the socket in whose place that stands."""


@dataclass(frozen=True, slots=True)
class _Mirror:
    """A socket of the tap: where, which file, what listens there, and in whose place."""

    place: Path
    identity: _Identity | None
    listener: socket.socket
    original: _Identity | None


class MirroredSockets:
    """Mirrors from `start` until `close`.

    Args:
        plugin_folder: What the plugin takes for the kubelet's folder.
        kubelet_folder: The kubelet's.
        on_accept: Called with connections.
    """

    def __init__(self, plugin_folder: Path, kubelet_folder: Path, on_accept: OnAccept) -> None:
        self._plugin_folder = plugin_folder
        self._kubelet_folder = kubelet_folder
        self._on_accept = on_accept
        self._mirrors: dict[Path, _Mirror] = {}
        self._removed_here = Counter[Path]()
        self._folders: set[Path] = set()
        """Of the plugin, that are watched."""
        self._made: set[Path] = set()
        """Folders of the kubelet's that stand for some of the plugin's."""
        self._was_full = False
        self._events = Inotify(self._handle)

    def start(self) -> None:
        """Clear the plugin's folder of sockets and mirror the kubelet's.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        self._plugin_folder.mkdir(parents=True, exist_ok=True)
        for left in filter(_is_socket, files_of(self._plugin_folder)):
            with contextlib.suppress(OSError):
                _unlink(left)
        for folder in (self._plugin_folder, self._kubelet_folder):
            self._events.add(folder, _GONE | _THERE | Mask.ONLYDIR)
        self._look_into(self._plugin_folder)
        self._appeared(self._kubelet_folder / KUBELET_SOCKET_NAME)

    def close(self) -> None:
        """Remove all sockets that were made here; connections stay open."""
        self._events.close()
        for original in list(self._mirrors):
            self._vanished(original)

    def _handle(self, event: PathEvent) -> None:
        mask, path = event
        if path is None:
            self._look_again()
            return
        is_kubelets = path.name == KUBELET_SOCKET_NAME
        if mask & Mask.ISDIR:
            if path.is_relative_to(self._plugin_folder):
                self._changed(path, is_there=bool(mask & _THERE))
        elif mask & _THERE and is_kubelets == (path.parent == self._kubelet_folder):
            self._appeared(path)
        elif mask & _GONE:
            self._gone(path)

    def _look_again(self) -> None:
        """Compare both folders with what is known of them: events were lost."""
        self._removed_here.clear()
        for original, mirror in list(self._mirrors.items()):
            if _identity(original) != mirror.original:
                self._vanished(original)
            elif _identity(mirror.place) != mirror.identity:
                self._gone(mirror.place)
        if self._kubelet_folder / KUBELET_SOCKET_NAME not in self._mirrors:
            self._appeared(self._kubelet_folder / KUBELET_SOCKET_NAME)
        self._look_into(self._plugin_folder)

    def _look_into(self, folder: Path) -> None:
        """Watch a plugin's folder and those in it, and mirror the sockets there that are not mirrored yet."""
        for path in files_of(folder, self._watch):
            if path.name != KUBELET_SOCKET_NAME and path not in self._mirrors:
                self._appeared(path)

    def _changed(self, folder: Path, *, is_there: bool) -> None:
        """A folder of the plugin's has come, or gone with all that is in it."""
        if folder in self._folders:
            self._events.remove(folder)
            self._folders = {one for one in self._folders if not one.is_relative_to(folder)}
            for original in [path for path in self._mirrors if path.is_relative_to(folder)]:
                self._vanished(original)
        if is_there:
            self._look_into(folder)

    def _watch(self, folder: Path) -> None:
        if folder in self._folders or len(self._folders) >= _MOST_FOLDERS:
            return
        with contextlib.suppress(OSError), found_without_links(folder):
            self._folders.add(folder)
            self._events.add(folder, _GONE | _THERE | Mask.ONLYDIR | Mask.DONT_FOLLOW)

    def _gone(self, path: Path) -> None:
        if path in self._mirrors:
            self._vanished(path)
        elif self._removed_here[path]:
            self._removed_here -= Counter([path])
        else:
            for original, mirror in list(self._mirrors.items()):
                if mirror.place == path:
                    self._vanished(original)
                    if _identity(original) == mirror.original:
                        with contextlib.suppress(OSError):
                            _unlink(original)

    def _appeared(self, original: Path) -> None:
        """Listen in the other folder in the place of a socket."""
        self._vanished(original)
        if not _is_socket(original):
            return
        if original.parent == self._kubelet_folder:
            place = self._plugin_folder / original.name
        else:
            place = self._kubelet_folder / original.relative_to(self._plugin_folder)
        if len(self._mirrors) >= _MOST_MIRRORS:
            if not self._was_full:
                _LOG.warning("%s: no tap is there: the plugin has %d sockets already", place, _MOST_MIRRORS)
            self._was_full = True
            return
        try:
            listener = self._listening(place)
        except OSError as error:
            _LOG.warning("%s: no tap can be there: %s", place, error.strerror)
            return
        accept_on(listener, lambda connection: self._on_accept(connection, original))
        self._mirrors[original] = _Mirror(place, _identity(place), listener, _identity(original))

    def _listening(self, place: Path) -> socket.socket:
        """Make a socket, in the place of whatever has the name.

        Raises:
            OSError: It cannot be made.
        """
        with contextlib.ExitStack() as unused:
            listener = unused.enter_context(socket.socket(socket.AF_UNIX))
            listener.setblocking(False)
            self._make_above(place)
            self._remove(place)
            with folder_without_links(place.parent) as folder:
                listener.bind(f"/proc/self/fd/{folder}/{place.name}")
            listener.listen(BACKLOG)
            unused.pop_all()
        return listener

    def _vanished(self, original: Path) -> None:
        """Listen no more in the place of a socket."""
        mirror = self._mirrors.pop(original, None)
        if mirror is None:
            return
        if _identity(mirror.place) == mirror.identity:
            with contextlib.suppress(OSError):
                self._remove(mirror.place)
        for folder in mirror.place.parents:
            # Another one may have something there.
            with contextlib.suppress(OSError):
                if folder in self._made:
                    with folder_without_links(folder.parent) as above:
                        os.rmdir(folder.name, dir_fd=above)
                    self._made.discard(folder)
        asyncio.get_running_loop().remove_reader(mirror.listener)
        mirror.listener.close()

    def _make_above(self, place: Path) -> None:
        """Make the folders of a socket that are not there.

        Raises:
            OSError: One cannot be made, or is a link.
        """
        for folder in [one for one in reversed(place.parents) if one.is_relative_to(self._kubelet_folder)][1:]:
            with contextlib.suppress(FileExistsError), folder_without_links(folder.parent) as above:
                os.mkdir(folder.name, dir_fd=above)
                self._made.add(folder)

    def _remove(self, place: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            _unlink(place)
            if place.parent in (self._plugin_folder, self._kubelet_folder):
                self._removed_here[place] += 1


def _unlink(place: Path) -> None:
    """Remove a name from a folder; a plugin may have put a link in the folder's place."""
    with folder_without_links(place.parent) as folder:
        os.unlink(place.name, dir_fd=folder)


def _is_socket(path: Path) -> bool:
    """Whether a socket is there, and no link to one: that may be anybody's."""
    with contextlib.suppress(OSError), found_without_links(path) as found:
        return stat.S_ISSOCK(os.fstat(found).st_mode)
    return False


def _identity(path: Path) -> _Identity | None:
    with contextlib.suppress(OSError):
        state = path.lstat()
        return state.st_ino, state.st_mtime_ns
    return None


def accept_on(listener: socket.socket, take: Callable[[socket.socket], None]) -> None:
    """Give what connects to a socket, until it is closed; its reader of the event loop is the caller's to remove."""
    loop = asyncio.get_running_loop()

    def accept() -> None:
        try:
            connection, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            _LOG.error("Cannot accept a connection: %s", error.strerror)
            loop.remove_reader(listener)
            loop.call_later(_PAUSE_S, listen)
            return
        connection.setblocking(False)
        take(connection)

    def listen() -> None:
        is_closed = listener.fileno() < 0
        if not is_closed:
            loop.add_reader(listener, accept)

    listen()


def files_of(folder: Path, enter: Callable[[Path], None] = lambda _: None) -> Iterator[Path]:
    """The files of a plugin's folder and of those in it; none where the plugin lets nobody look into one.

    Args:
        folder: The outermost; no link is followed from there on.
        enter: Called with each folder before it is looked into.
    """
    pending, left = [folder], _MOST_FOLDERS
    while pending and left:
        here, left = pending.pop(), left - 1
        enter(here)
        with contextlib.suppress(OSError), os.scandir(here) as found:
            entries = sorted(found, key=lambda entry: entry.name)
            pending += [here / one.name for one in reversed(entries) if one.is_dir(follow_symlinks=False)]
            yield from (here / one.name for one in entries if not one.is_dir(follow_symlinks=False))
