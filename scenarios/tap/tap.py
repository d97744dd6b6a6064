"""Taps of a node: one between a plugin and the kubelet, one between the kubelet and its container runtime."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME
from simkubelet.runtime import CriCall

from ..trace.snapshot import Rpc
from .answer import Answer, Answers, devices_of, registration
from .contract import Breach, Contract, options_of
from .link import Held, Link
from .mirrored_sockets import BACKLOG, MirroredSockets, accept_on, files_of

FOUND: Final = "_found"
"""Ends the name of the folder that a plugin with a tap takes for ``plugins_registry``; that of the other one is the
plugin's, which has no such line."""
_LONGEST_DETAIL: Final = 1000
OnReport = Callable[[Mapping[str, Any]], None]
"""Called with ``{"called": RPC, "devices": […]}`` of each call of the kubelet, and with ``{"registered": RESOURCE,
"endpoint": …, "error": …}`` when a Register call is answered, as a stub reports them, see `plugin.stub.control`; with
``{"registers": true}`` when such a call is made; with ``{"process": PID}`` when the kubelet reaches another process of
the plugin than before, and ``{"connections": NUMBER}`` when it has more connections to the plugin, or fewer; with
``{"options": […]}`` when the plugin says which it has on, and with ``{"breach": RULE, "detail": …}`` when a message of
the plugin breaks its contract."""


class Tap:
    """Passes on all that plugin and kubelet say to each other, except for what `send_command` has ordered.

    Bytes of messages, metadata, codes, texts, limits of time and breaks pass unchanged, in both directions; so does
    what is not HTTP/2. It costs nothing while nobody speaks.

    No link is followed, as a plugin may make one in either folder and in the place of either.

    Args:
        plugin_folder: The plugin's folder of sockets, which it takes for the kubelet's; nobody else uses it.
        kubelet_folder: The kubelet's; like the other one by a path without links.
        on_report: Called with reports, in the event loop.
        found: The same two of ``plugins_registry``, where the kubelet finds plugins that do not register.
    """

    def __init__(
        self, plugin_folder: Path, kubelet_folder: Path, on_report: OnReport, found: tuple[Path, Path] | None = None
    ) -> None:
        self._on_report = on_report
        self._answers = Answers()
        self._contract = Contract()
        self._plugin_folder = plugin_folder
        folders = ((plugin_folder, kubelet_folder), *(() if found is None else (found,)))
        self._plugin_folders = tuple(of_plugin for of_plugin, _ in folders)
        self._sockets = tuple(MirroredSockets(one, other, self._accept) for one, other in folders)
        self._links: dict[Link, asyncio.Task[None]] = {}
        self._held = Held()
        self._process: int | None = None
        self._connections = 0

    @property
    def plugin_sockets(self) -> tuple[str, ...]:
        """The names of the sockets that the plugin has in its folders."""
        files = (file for folder in self._plugin_folders for file in files_of(folder))
        return tuple(file.name for file in files if _is_plugins(file) and _socket_mode(file) is not None)

    def start(self) -> None:
        """Start proxying.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        for sockets in self._sockets:
            sockets.start()

    async def close(self) -> None:
        """Remove the sockets and end all connections; may be called twice."""
        for sockets in self._sockets:
            sockets.close()
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
        if rpc is Rpc.REGISTER:
            self._on_report({"registers": True})
        else:
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
        return _socket_mode(self._plugin_folder / endpoint)

    def _report(self, breaches: Iterable[Breach]) -> None:
        for breach in breaches:
            detail = breach.detail
            if len(detail) > _LONGEST_DETAIL:
                detail = f"{detail[:_LONGEST_DETAIL]}… ({len(detail)} characters)"
            self._on_report({"breach": breach.rule.value, "detail": detail})

    def _count(self, change: int) -> None:
        self._connections += change
        self._on_report({"connections": self._connections})

    def _accept(self, connection: socket.socket, meant: Path) -> None:
        link = Link(self, held=self._held)
        self._links[link] = task = asyncio.create_task(link.run(connection, meant))
        task.add_done_callback(lambda _: self._links.pop(link, None))


def _is_plugins(socket_path: Path) -> bool:
    return socket_path.name != KUBELET_SOCKET_NAME


def _socket_mode(path: Path) -> int | None:
    # A name of the plugin's choice may be none of a file, or have a link that leads anywhere.
    with contextlib.suppress(OSError, ValueError):
        mode = path.stat().st_mode
        return stat.S_IMODE(mode) if stat.S_ISSOCK(mode) else None
    return None


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
        self._listener.listen(BACKLOG)
        accept_on(self._listener, self._accept)

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

    def _accept(self, connection: socket.socket) -> None:
        task = asyncio.create_task(Link(self, _CRI_PATHS).run(connection, self._runtime))
        self._links.add(task)
        task.add_done_callback(self._links.discard)
