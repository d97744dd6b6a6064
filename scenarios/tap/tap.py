"""A tap between one plugin and the kubelet of its node."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME

from ..story.tap_answer import Answer, Answers, Rpc
from .link import Link
from .messages import devices_of, registration
from .sockets import MirroredSockets

OnReport = Callable[[Mapping[str, Any]], None]
"""Told ``{"called": RPC, "devices": […]}`` of each call of the kubelet, and ``{"registered": RESOURCE, "endpoint": …,
"error": …}`` when a Register call is answered: the stub's own words, see `plugin.stub.control`. Told, too,
``{"process": PID}`` when the kubelet reaches another process of the plugin than before, and ``{"connections": NUMBER}``
when it has more connections to the plugin, or fewer."""


class Tap:
    """Passes on all that plugin and kubelet say to each other, but for what `tell` has ordered.

    Bytes of messages, metadata, codes, texts, limits of time and breaks pass unchanged, in both directions; what is no
    HTTP/2 does too. It costs nothing while nobody speaks.

    Args:
        plugin_folder: The plugin's folder of sockets, which it takes for the kubelet's; nobody else uses it.
        kubelet_folder: The kubelet's.
        on_report: Told of calls, in the event loop.
    """

    def __init__(self, plugin_folder: Path, kubelet_folder: Path, on_report: OnReport) -> None:
        self._on_report = on_report
        self._answers = Answers()
        self._sockets = MirroredSockets(plugin_folder, kubelet_folder, self._accept)
        self._links: dict[Link, asyncio.Task[None]] = {}
        self._process: int | None = None
        self._connections = 0

    def start(self) -> None:
        """Stand between them from now on.

        Raises:
            OSError: A folder or a socket cannot be made.
        """
        self._sockets.start()

    async def close(self) -> None:
        """Take away the sockets and end all connections; may be called twice."""
        self._sockets.close()
        tasks = list(self._links.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tell(self, command: Mapping[str, Any]) -> None:
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
        if answer.devices is not None:
            for link in self._links:
                for call in link.known_calls:
                    call.send_list(answer.devices)
        return answer

    def answered(self, rpc: StrEnum, request: bytes, error: str) -> None:
        """See `Supervisor`."""
        if rpc is Rpc.REGISTER:
            resource, endpoint = registration(request)
            self._on_report({"registered": resource, "endpoint": endpoint, "error": error})

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

    def _count(self, change: int) -> None:
        self._connections += change
        self._on_report({"connections": self._connections})

    def _accept(self, connection: socket.socket, meant: Path) -> None:
        link = Link(self)
        self._links[link] = task = asyncio.create_task(link.run(connection, meant))
        task.add_done_callback(lambda _: self._links.pop(link, None))


def _is_plugins(socket_path: Path) -> bool:
    return socket_path.name != KUBELET_SOCKET_NAME
