"""Finds the sockets below ``plugins_registry/``, registers their plugins, and deregisters them when the sockets go.

Two books, as in the kubelet: the sockets that are there (desired) and the plugins that were registered (actual). Every
second the kubelet compares them and starts what is missing, one attempt at a time for each socket, with growing pauses
after failures. Here the comparison waits for the second that follows a change, a finished attempt or the end of a
pause, so that nothing wakes while nothing is to be done. The kubelet's end deregisters nobody.

Source: pluginmanager/reconciler/reconciler.go; pkg/util/goroutinemap (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import stat
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from .._internal.doors import Door
from .._internal.file_tree import is_within
from ..apis.inotify import Inotify, Mask, PathEvent
from ..model.clock import Clock
from ..model.errors import HostError
from ..model.version import Version
from .plugin_registration import (
    NameOnNode,
    PluginTypeHandler,
    RegisteredPlugin,
    RegistrationAttempt,
    RegistrationFailedError,
)

__all__ = ["PluginManager", "PluginWatcher"]

_PERIOD_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 122.0
_MOST_ATTEMPTS: Final = 1000
"""At a time; a kubelet has no bound."""
_MOST_PAUSES: Final = 1000
"""That are kept of sockets that are gone; a kubelet keeps all, so that a new socket of that name waits longer."""
_MOST_SOCKETS: Final = 1000
"""More are kept as long as they are there; a kubelet keeps all that were renamed away, and tries them for ever."""
_MOST_FOLDERS: Final = 1000
"""That are watched; a kubelet watches as many as its user may. So long everything else waits."""
_NAMES: Final = Mask.CREATE | Mask.MOVED_TO | Mask.DELETE | Mask.ONLYDIR

_ATTEMPT: Final = Door("registration of a plugin", RegistrationFailedError)
_COMPARISON: Final = Door("socket of a plugin")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Pause:
    """What follows a failed attempt: none for `duration_s` after `begin`."""

    begin: float
    duration_s: float

    def next(self, now: float) -> _Pause:
        return _Pause(now, min(2 * self.duration_s, _LONGEST_PAUSE_S))

    def is_over(self, now: float) -> bool:
        return now - self.begin > self.duration_s


class PluginManager:
    """Plugins of one folder, from `start` to `stop`.

    Args:
        directory: ``plugins_registry/``.
        handlers: plugin type -> what takes its plugins; a plugin of another type is notified that there is none.
        version: the minor it behaves as.
        clock: the node's time: the second between comparisons and the pauses.
        tasks: owns the loop and the attempts.
        on_found: called with each socket that is there or appears, relative to the folder.
        name_on_node: what calls say that their server is.
    """

    def __init__(
        self,
        directory: Path,
        handlers: Mapping[str, PluginTypeHandler],
        *,
        version: Version,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        on_found: Callable[[Path], None],
        name_on_node: NameOnNode = str,
    ) -> None:
        self._name_on_node = name_on_node
        self._handlers = handlers
        self._version = version
        self._clock = clock
        self._group = tasks
        self._directory = directory
        self._within = directory.parent.resolve()
        self._on_found = on_found
        self._watcher = PluginWatcher(directory, self._found, self._deleted)
        self._generations = count()
        self._desired: dict[Path, int] = {}
        self._room = _MOST_SOCKETS
        self._actual: dict[Path, RegisteredPlugin] = {}
        self._pauses: dict[Path, _Pause] = {}
        self._attempts: dict[Path, asyncio.Task[None]] = {}
        self._is_changed = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    @property
    def desired_sockets(self) -> frozenset[Path]:
        """Sockets that are there."""
        return frozenset(self._desired)

    @property
    def registered_sockets(self) -> frozenset[Path]:
        """Sockets whose plugins are in the books as registered, up to 1.35 also those whose registration failed."""
        return frozenset(self._actual)

    def start(self) -> None:
        """Find the sockets that are there, and watch for others.

        Raises:
            HostError: the folder cannot be made or watched.
        """
        self._watcher.start()
        self._loop = self._group.create_task(self._compare_on_change(), name="plugins found by the watcher")

    async def stop(self) -> None:
        """Watch no more and break off every attempt; may be called twice and from any state."""
        self._watcher.stop()
        loop, self._loop = self._loop, None
        tasks = [*self._attempts.values(), *([loop] if loop is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Books of a `RegistrationAttempt`

    def add(self, plugin: RegisteredPlugin) -> None:
        self._actual[plugin.socket] = plugin

    def remove(self, socket: Path) -> None:
        self._actual.pop(socket, None)

    def _found(self, socket: Path) -> None:
        self._desired[socket] = next(self._generations)
        if len(self._desired) > self._room:
            self._desired = {one: generation for one, generation in self._desired.items() if _is_socket(one)}
            # Many that are there are not looked at again with each that comes.
            self._room = max(_MOST_SOCKETS, 2 * len(self._desired))
        self._is_changed.set()
        self._on_found(socket.relative_to(self._directory))

    def _deleted(self, socket: Path) -> None:
        if self._desired.pop(socket, None) is not None:
            self._is_changed.set()

    async def _compare_on_change(self) -> None:
        start = self._clock.now()
        while True:
            self._is_changed.clear()
            self._compare()
            await self._changed_or_pause_over()
            passed = math.floor((self._clock.now() - start) / _PERIOD_S)
            await self._clock.sleep(start + (passed + 1) * _PERIOD_S - self._clock.now())

    def _compare(self) -> None:
        for plugin in list(self._actual.values()):
            with _COMPARISON(plugin.socket):
                self._deregister_old(plugin)
        for socket, generation in self._desired.items():
            with _COMPARISON(socket):
                self._register_new(socket, generation)

    def _deregister_old(self, plugin: RegisteredPlugin) -> None:
        if self._desired.get(plugin.socket) != plugin.generation and self._may_try(plugin.socket):
            self._try(plugin.socket, partial(self._deregister, plugin))

    def _register_new(self, socket: Path, generation: int) -> None:
        known = self._actual.get(socket)
        if (known is None or known.generation != generation) and self._may_try(socket):
            self._try(socket, partial(self._register, socket, generation))

    def _may_try(self, socket: Path) -> bool:
        pause = self._pauses.get(socket)
        has_room = socket not in self._attempts and len(self._attempts) < _MOST_ATTEMPTS
        return has_room and (pause is None or pause.is_over(self._clock.now()))

    def _try(self, socket: Path, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._attempts[socket] = self._group.create_task(self._attempt(socket, attempt))

    async def _attempt(self, socket: Path, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            with _ATTEMPT(socket) as passage:
                await attempt()
            if passage.error is None:
                self._pauses.pop(socket, None)
            else:
                self._pause(socket)
        except RegistrationFailedError as error:
            self._pause(socket)
            _log.error("%s", error)
        finally:
            del self._attempts[socket]
            self._is_changed.set()

    def _pause(self, socket: Path) -> None:
        now, last = self._clock.now(), self._pauses.get(socket)
        self._pauses[socket] = _Pause(now, _FIRST_PAUSE_S) if last is None else last.next(now)
        if len(self._pauses) > len(self._desired) + _MOST_PAUSES:
            kept = (
                (one, pause) for one, pause in self._pauses.items() if one in self._desired or not pause.is_over(now)
            )
            self._pauses = dict(kept)

    async def _register(self, socket: Path, generation: int) -> None:
        attempt = RegistrationAttempt(
            socket,
            generation,
            handlers=self._handlers,
            books=self,
            version=self._version,
            within=self._within,
            name_on_node=self._name_on_node,
        )
        await attempt.run()

    async def _deregister(self, plugin: RegisteredPlugin) -> None:
        # Out of the books first: a socket that comes meanwhile is a new plugin.
        self.remove(plugin.socket)
        await plugin.handler.deregister(plugin.name, plugin.endpoint)

    async def _changed_or_pause_over(self) -> None:
        """Wait until a comparison can find something to do."""
        ends = [pause.begin + pause.duration_s for socket, pause in self._pauses.items() if self._is_wanted(socket)]
        if not ends:
            await self._is_changed.wait()
            return
        waits = {
            asyncio.ensure_future(self._is_changed.wait()),
            asyncio.ensure_future(self._clock.sleep(max(0.0, min(ends) - self._clock.now()))),
        }
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _is_wanted(self, socket: Path) -> bool:
        """Whether a comparison would try something at this socket once its pause is over."""
        plugin = self._actual.get(socket)
        return socket not in self._attempts and self._desired.get(socket) != (plugin and plugin.generation)


class PluginWatcher:
    """Reports the sockets below one folder from `start` to `stop`; whatever is there at the start counts as new.

    Folders in folders are watched too. The kubelet's gaps are kept: a socket that is renamed away is not missed, and
    a socket with a leading dot is never found, though a folder with one is looked into when it is there from the start,
    and a socket in a linked folder is found only when it comes later, also where the watched folder itself is the link.
    A link that leads out of the folder above is left out, and so is, unlike there, a folder without permissions alone,
    and what is in more than a thousand folders.

    Source: pluginmanager/pluginwatcher/plugin_watcher.go (kubernetes v1.34.4; the same from v1.26.15 to v1.37.0).

    Args:
        directory: the folder, made when it is missing.
        on_found: called with each socket that is there or appears; again with one that is recreated at its path.
        on_deleted: called with each name that is deleted, socket or not.
    """

    def __init__(self, directory: Path, on_found: Callable[[Path], None], on_deleted: Callable[[Path], None]) -> None:
        self._directory = directory
        self._within = directory.parent.resolve()
        self._on_found = on_found
        self._on_deleted = on_deleted
        self._events = Inotify(self._take)

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
        """Watch a folder and those in it, and report their sockets; what cannot be looked at is left out.

        Raises:
            OSError: the folder itself cannot be watched.
        """
        pending = self._watched(folder)
        while pending:
            path = pending.pop()
            try:
                if stat.S_ISDIR(path.lstat().st_mode):
                    pending += self._watched(path)
                elif not path.name.startswith(".") and _is_socket(path):
                    self._on_found(path)
            except OSError as error:
                _log.error("Error accessing path %s: %s", path, error.strerror or error)

    def _watched(self, folder: Path) -> list[Path]:
        """Watch a folder; what is in it, in reverse order, where it is no link."""
        if len(self._events) >= _MOST_FOLDERS:
            raise OSError(errno.EMFILE, f"more than {_MOST_FOLDERS} folders")
        if not is_within(folder, self._within):
            raise OSError(errno.EXDEV, "leads out of the node's folder")
        # Watched before it is listed, so that no socket is missed between the two.
        self._events.add(folder, _NAMES)
        return [] if folder.is_symlink() else sorted(folder.iterdir(), reverse=True)

    def _take(self, event: PathEvent) -> None:
        mask, path = event
        if path is None:
            _log.error("FsWatcher received error: fsnotify: queue or buffer overflow")
        elif mask & Mask.DELETE:
            self._on_deleted(path)
        elif mask & (Mask.CREATE | Mask.MOVED_TO) and not path.name.startswith("."):
            try:
                if stat.S_ISDIR(path.stat().st_mode):
                    self._look_into(path)
                elif _is_socket(path):
                    self._on_found(path)
            except OSError as error:
                _log.error("Error when handling create event: stat file %s failed: %s", path, error.strerror or error)


def _is_socket(path: Path) -> bool:
    """Whether a path is a socket or a link to one."""
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
