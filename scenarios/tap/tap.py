"""Taps of a node: one between a plugin and the kubelet, one between the kubelet and its container runtime.

What appears in the folder of a plugin or of its kubelet appears in the other's folder as a socket of the tap, and what
vanishes on one side vanishes on the other. So a plugin notices a new kubelet, and a kubelet that clears its folder
removes the plugin's sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME
from simkubelet.apis.inotify import Inotify, Mask, PathEvent
from simkubelet.host import folder_without_links, found_without_links
from simkubelet.runtime import CriCall

from ..trace.snapshot import Rpc
from .answer import Answer, Answers, devices_of, registration
from .contract import Breach, Contract, options_of
from .link import Link

OnReport = Callable[[Mapping[str, Any]], None]
"""Called with ``{"called": RPC, "devices": […]}`` of each call of the kubelet, and with ``{"registered": RESOURCE,
"endpoint": …, "error": …}`` when a Register call is answered, as a stub reports them, see `plugin.stub.control`; with
``{"process": PID}`` when the kubelet reaches another process of the plugin than before, and ``{"connections": NUMBER}``
when it has more connections to the plugin, or fewer; with ``{"options": […]}`` when the plugin says which it has on,
and with ``{"breach": RULE, "detail": …}`` when a message of the plugin breaks its contract."""
_LOG: Final = logging.getLogger(__name__)
_GONE: Final = Mask.DELETE | Mask.MOVED_FROM
_THERE: Final = Mask.CREATE | Mask.MOVED_TO
_BACKLOG: Final = 128
_Identity = tuple[int, int]
"""Number of a file and when it was made: a number alone is soon another file's."""
OnAccept = Callable[[socket.socket, Path], None]
"""Called with a connection to a socket of the tap, and of the socket in whose place that stands."""


class Tap:
    """Passes on all that plugin and kubelet say to each other, except for what `send_command` has ordered.

    Bytes of messages, metadata, codes, texts, limits of time and breaks pass unchanged, in both directions; so does
    what is not HTTP/2. It costs nothing while nobody speaks.

    No link is followed, as a plugin may make one in either folder and in the place of either.

    Args:
        plugin_folder: The plugin's folder of sockets, which it takes for the kubelet's; nobody else uses it.
        kubelet_folder: The kubelet's; like the other one by a path without links.
        on_report: Called with reports, in the event loop.
    """

    def __init__(self, plugin_folder: Path, kubelet_folder: Path, on_report: OnReport) -> None:
        self._on_report = on_report
        self._answers = Answers()
        self._contract = Contract()
        self._plugin_folder = plugin_folder
        self._sockets = MirroredSockets(plugin_folder, kubelet_folder, self._accept)
        self._links: dict[Link, asyncio.Task[None]] = {}
        self._process: int | None = None
        self._connections = 0

    @property
    def plugin_sockets(self) -> tuple[str, ...]:
        """The names of the sockets that the plugin has in its folder."""
        try:
            files = sorted(self._plugin_folder.iterdir())
        except FileNotFoundError:
            return ()
        return tuple(file.name for file in files if file.is_socket() and file.name != KUBELET_SOCKET_NAME)

    def start(self) -> None:
        """Stand between them from now on.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        self._sockets.start()

    async def close(self) -> None:
        """Remove the sockets and end all connections; may be called twice."""
        self._sockets.close()
        tasks = list(self._links.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def send_command(self, command: Mapping[str, Any]) -> None:
        """Do as a story says.

        ``{"command": "answer", "rpc": …}`` with attributes of `Answer`, ``{"command": "endStream"}``, or ``{"command":
        "forget"}`` for all answers that were ordered.
        """
        given = dict(command)
        match given.pop("command"):
            case "answer":
                self._answers.order(Rpc(given.pop("rpc")), given)
            case "endStream":
                for link in self._links:
                    for call in list(link.known_calls):
                        call.end_stream()
            case "forget":
                self._answers.forget()

    def asked(self, rpc: StrEnum, request: bytes) -> Answer:
        """See `Supervisor`."""
        rpc = Rpc(rpc)
        answer = self._answers.next(rpc)
        if rpc is not Rpc.REGISTER:
            self._on_report({"called": rpc.value, "devices": sorted(devices_of(rpc, request))})
        self._report(self._contract.asked(rpc, request, self._mode_of))
        if answer.devices is not None:
            for link in self._links:
                for call in link.known_calls:
                    call.send_list(answer.devices)
        return answer

    def replied(self, rpc: StrEnum, request: bytes, message: bytes, before: bytes | None) -> None:
        """See `Supervisor`."""
        rpc = Rpc(rpc)
        if rpc is Rpc.GET_DEVICE_PLUGIN_OPTIONS:
            self._on_report({"options": list(options_of(message))})
        self._report(self._contract.answered(rpc, request, message, before))

    def answered(self, rpc: StrEnum, request: bytes, error: str) -> None:
        """See `Supervisor`."""
        if rpc is Rpc.REGISTER:
            resource, endpoint = registration(request)
            self._on_report({"registered": resource, "endpoint": endpoint, "error": error})

    def refused(self, rpc: StrEnum, error: str) -> None:
        """See `Supervisor`."""
        self._report(self._contract.refused(Rpc(rpc), error))

    def joined(self, server_socket: Path, process: int) -> None:
        """See `LinkSupervisor`."""
        if _is_plugins(server_socket):
            if process != self._process:
                self._process = process
                self._on_report({"process": process})
            self._count(+1)

    def parted(self, server_socket: Path) -> None:
        """See `LinkSupervisor`."""
        if _is_plugins(server_socket):
            self._count(-1)

    def _mode_of(self, endpoint: str) -> int | None:
        try:
            mode = (self._plugin_folder / endpoint).stat().st_mode
        except FileNotFoundError:
            return None
        return stat.S_IMODE(mode) if stat.S_ISSOCK(mode) else None

    def _report(self, breaches: Iterable[Breach]) -> None:
        for breach in breaches:
            self._on_report({"breach": breach.rule.value, "detail": breach.detail})

    def _count(self, change: int) -> None:
        self._connections += change
        self._on_report({"connections": self._connections})

    def _accept(self, connection: socket.socket, meant: Path) -> None:
        link = Link(self)
        self._links[link] = task = asyncio.create_task(link.run(connection, meant))
        task.add_done_callback(lambda _: self._links.pop(link, None))


def _is_plugins(socket_path: Path) -> bool:
    return socket_path.name != KUBELET_SOCKET_NAME


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
        self._events = Inotify(self._handle)

    def start(self) -> None:
        """Clear the plugin's folder of sockets and mirror the kubelet's.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        self._plugin_folder.mkdir(parents=True, exist_ok=True)
        for left in filter(_is_socket, self._plugin_folder.iterdir()):
            _unlink(left)
        for folder in (self._plugin_folder, self._kubelet_folder):
            self._events.add(folder, _GONE | _THERE | Mask.ONLYDIR)
        self._appeared(self._kubelet_folder / KUBELET_SOCKET_NAME)

    def close(self) -> None:
        """Remove all sockets that were made here; connections stay open."""
        self._events.close()
        for original in list(self._mirrors):
            self._vanished(original)

    def _handle(self, event: PathEvent) -> None:
        mask, path = event
        if path is None:
            return
        is_kubelets = path.name == KUBELET_SOCKET_NAME
        if mask & _THERE and is_kubelets == (path.parent == self._kubelet_folder):
            self._appeared(path)
        elif mask & _GONE:
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
                        with contextlib.suppress(OSError):
                            _unlink(original)

    def _appeared(self, original: Path) -> None:
        """Listen in the other folder in the place of a socket."""
        self._vanished(original)
        if not _is_socket(original):
            return
        is_kubelets = original.parent == self._kubelet_folder
        place = (self._plugin_folder if is_kubelets else self._kubelet_folder) / original.name
        listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        try:
            self._remove(place)
            with folder_without_links(place.parent) as folder:
                listener.bind(f"/proc/self/fd/{folder}/{place.name}")
        except OSError as error:
            listener.close()
            _LOG.warning("%s: no tap can be there: %s", place, error.strerror)
            return
        listener.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, original)
        self._mirrors[original] = _Mirror(place, _identity(place), listener, _identity(original))

    def _vanished(self, original: Path) -> None:
        """Listen no more in the place of a socket."""
        mirror = self._mirrors.pop(original, None)
        if mirror is None:
            return
        if _identity(mirror.place) == mirror.identity:
            with contextlib.suppress(OSError):
                self._remove(mirror.place)
        asyncio.get_running_loop().remove_reader(mirror.listener)
        mirror.listener.close()

    def _remove(self, place: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            _unlink(place)
            self._removed_here[place] += 1

    def _accept(self, listener: socket.socket, original: Path) -> None:
        with contextlib.suppress(BlockingIOError):
            connection, _ = listener.accept()
            connection.setblocking(False)
            self._on_accept(connection, original)


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
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_mtime_ns


_CRI_PATHS: Final = {f"/runtime.v1.RuntimeService/{call}".encode(): call for call in CriCall}


class CriTap:
    """Passes on all that a kubelet and its runtime say to each other, except for calls that are refused.

    Args:
        place: Where it listens, for the kubelet.
        runtime: Where the runtime listens.
    """

    def __init__(self, place: Path, runtime: Path) -> None:
        self._place = place
        self._runtime = runtime
        self._refused: frozenset[CriCall] = frozenset()
        self._listener = socket.socket(socket.AF_UNIX)
        self._links: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen, in the place of whatever has the name.

        Raises:
            OSError: The socket cannot be made.
        """
        self._place.unlink(missing_ok=True)
        self._listener.setblocking(False)
        self._listener.bind(str(self._place))
        self._listener.listen(_BACKLOG)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    async def close(self) -> None:
        """Listen no more and end all connections."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def refuse(self, calls: Collection[CriCall]) -> None:
        """Refuse these calls from now on, and no others."""
        self._refused = frozenset(calls)

    def asked(self, rpc: StrEnum, request: bytes) -> Answer:
        """See `Supervisor`."""
        return Answer(error="refused by the story") if rpc in self._refused else Answer()

    def replied(self, rpc: StrEnum, request: bytes, message: bytes, before: bytes | None) -> None:
        """See `Supervisor`."""

    def answered(self, rpc: StrEnum, request: bytes, error: str) -> None:
        """See `Supervisor`."""

    def refused(self, rpc: StrEnum, error: str) -> None:
        """See `Supervisor`."""

    def joined(self, server_socket: Path, process: int) -> None:
        """See `LinkSupervisor`."""

    def parted(self, server_socket: Path) -> None:
        """See `LinkSupervisor`."""

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            task = asyncio.create_task(Link(self, _CRI_PATHS).run(connection, self._runtime))
            self._links.add(task)
            task.add_done_callback(self._links.discard)
