"""A tap between a kubelet and the container runtime of its node, which refuses calls in the runtime's place."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Final

from simkubelet.runtime import CriCall

from ..story.tap_answer import Answer
from .link import Link

_PATHS: Final = {f"/runtime.v1.RuntimeService/{call}".encode(): call for call in CriCall}
_BACKLOG: Final = 128


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

    def answered(self, rpc: StrEnum, request: bytes, error: str) -> None:
        """See `Supervisor`."""

    def joined(self, server_socket: Path, process: int) -> None:
        """See `LinkSupervisor`."""

    def parted(self, server_socket: Path) -> None:
        """See `LinkSupervisor`."""

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            task = asyncio.create_task(Link(self, _PATHS).run(connection, self._runtime))
            self._links.add(task)
            task.add_done_callback(self._links.discard)
