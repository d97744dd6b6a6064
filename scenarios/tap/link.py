"""A connection through the tap: one to the caller, one to the server, and the calls that go from one to the other."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

from simkubelet.apis.grpcwire.end import End
from simkubelet.apis.grpcwire.frames import PREFACE, Flag, Frame, Headers, Type
from simkubelet.host import found_without_links

from .answer import PATHS
from .call import Call, KnownCall, Supervisor

_CREDENTIALS: Final = struct.Struct("3i")
_ALL_STREAMS: Final = 2**31 - 1
_MOST_HELD_BYTES: Final = 256 << 20
"""Of the messages of all calls of a tap that are known and under way."""


class LinkSupervisor(Supervisor, Protocol):
    """Gets each link too."""

    def joined(self, server_socket: Path, process: int) -> None:
        """Somebody is connected with the process that listens on a socket."""

    def parted(self, server_socket: Path) -> None:
        """That connection has ended."""


@dataclass(slots=True)
class Held:
    """Bytes of the messages of calls under way, of all connections of a tap."""

    size: int = 0


class Link:
    """What ends one of its connections ends the other; `run` makes them.

    Args:
        supervisor: Is notified of it, and of the calls that the tap knows.
        paths: Those calls by their paths.
        held: What all connections of the tap hold.

    Attributes:
        known_calls: Those that are under way.
    """

    def __init__(
        self, supervisor: LinkSupervisor, paths: Mapping[bytes, StrEnum] = PATHS, held: Held | None = None
    ) -> None:
        self.caller = End(_FromCaller(self), begins=True)
        self.server = End(_FromServer(self), begins=False)
        self.known_calls: set[KnownCall] = set()
        self._supervisor = supervisor
        self._paths = paths
        self._held = held or Held()
        self._held_of: dict[Call, int] = {}
        self._by_source: dict[int, Call] = {}
        self._by_target: dict[int, Call] = {}
        self._next_target = 1
        self._is_changed = False
        self._has_ended = asyncio.Event()

    async def run(self, connection: socket.socket, server_socket: Path) -> None:
        """Connect the one who has come with the one who is meant; until either goes.

        Args:
            connection: Of the caller.
            server_socket: Where the one listens who is meant.
        """
        with contextlib.ExitStack() as unused:
            to_server = socket.socket(socket.AF_UNIX)
            to_server.setblocking(False)
            unused.callback(connection.close)
            unused.callback(to_server.close)
            try:
                with found_without_links(server_socket) as found:
                    to_server.connect(f"/proc/self/fd/{found}")
                await self._join(connection, to_server)
                unused.pop_all()
                await self._until_parted(server_socket, _listener(to_server))
            except OSError:
                # As a socket that nobody serves.
                return
            finally:
                self._close()

    async def _until_parted(self, server_socket: Path, process: int) -> None:
        self._supervisor.joined(server_socket, process)
        try:
            await self._has_ended.wait()
        finally:
            self._supervisor.parted(server_socket)

    async def _join(self, connection: socket.socket, to_server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.caller, connection)
        await loop.create_unix_connection(lambda: self.server, sock=to_server)

    def _close(self) -> None:
        self.caller.close()
        self.server.close()
        for call in self._by_source.values():
            call.close()
        self._held.size -= sum(self._held_of.values())
        self._held_of.clear()

    def lost(self) -> None:
        """One of the connections has ended."""
        self._has_ended.set()

    def began(self, source: int, headers: Headers) -> Call:
        """A stream of the caller begins."""
        rpc = self._paths.get(dict(headers).get(b":path", b""))
        if rpc is None:
            call = Call(self, source)
        else:
            call = KnownCall(self, source, rpc, self._supervisor)
            self.known_calls.add(call)
        self._by_source[source] = call
        self.caller.open(source)
        return call

    def opened(self, call: Call) -> int:
        """A new stream of the server's connection, in the place of the one that the call had; see `Route`."""
        self._forget_target(call)
        target, self._next_target = self._next_target, self._next_target + 2
        self._by_target[target] = call
        self.server.open(target)
        return target

    def ended(self, call: Call) -> None:
        """See `Route`."""
        self._by_source.pop(call.source, None)
        self.count(call)
        self.caller.finish(call.source)
        self._forget_target(call)
        self.known_calls -= {call}

    def changed(self) -> None:
        """See `Route`."""
        self._is_changed = True

    def count(self, call: Call) -> None:
        """Count what a call holds, and end it where all of them hold too much and it holds more than before."""
        before = self._held_of.pop(call, 0)
        held = call.held_bytes if self._by_source.get(call.source) is call else 0
        self._held.size += held - before
        if held:
            self._held_of[call] = held
        if self._held.size > _MOST_HELD_BYTES and held > before:
            call.refuse()

    def take_frame_of_caller(self, frame: Frame) -> None:
        """Pass on a frame that concerns the whole connection.

        A server takes it ill when a client of Go measures with pings how fast data come that it never sent.
        """
        if frame.type == Type.PING and self._is_changed and not frame.has(Flag.ACK):
            self.caller.send_frame(frame._replace(flags=Flag.ACK))
        else:
            self.server.send_frame(frame)

    def of_source(self, stream: int) -> Call | None:
        """The call on a stream of the caller."""
        return self._by_source.get(stream)

    def of_target(self, stream: int) -> Call | None:
        """The call on a stream of the server."""
        return self._by_target.get(stream)

    def take_frame_of_server(self, frame: Frame) -> None:
        """Pass on a frame that concerns the whole connection; GOAWAY names the last stream that is still served."""
        last = int.from_bytes(frame.payload[:4]) & _ALL_STREAMS
        if frame.type == Type.GOAWAY and last != _ALL_STREAMS:
            served = max((call.source for target, call in self._by_target.items() if target <= last), default=0)
            frame = frame._replace(payload=served.to_bytes(4) + frame.payload[4:])
        self.caller.send_frame(frame)

    def _forget_target(self, call: Call) -> None:
        if self._by_target.pop(call.target, None) is not None:
            self.server.finish(call.target)


def _listener(connection: socket.socket) -> int:
    """The id of the process that listened for a connection, see unix(7)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process: int = _CREDENTIALS.unpack(credentials)[0]
    return process


class _FromCaller:
    """What comes from the caller."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def raw(self, data: bytes) -> None:
        if data != PREFACE:
            self._link.server.be_raw()
        self._link.server.write(data)

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        call = self._link.of_source(stream) or self._link.began(stream, headers)
        call.asks(headers, is_last)

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        if call := self._link.of_source(stream):
            call.says(data, size, is_last)
            self._link.count(call)
        else:
            self._link.caller.credit(stream, size)

    def reset(self, stream: int, code: int) -> None:
        if call := self._link.of_source(stream):
            call.gives_up(code)

    def frame(self, frame: Frame) -> None:
        self._link.take_frame_of_caller(frame)

    def lost(self) -> None:
        self._link.lost()


class _FromServer:
    """What comes from the server."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def raw(self, data: bytes) -> None:
        # What the caller said already has gone to the server as it was.
        self._link.caller.be_raw()
        self._link.caller.write(data)

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        if call := self._link.of_target(stream):
            call.answers(headers, is_last)

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        if call := self._link.of_target(stream):
            call.brings(data, size, is_last)
            self._link.count(call)
        else:
            self._link.server.credit(stream, size)

    def reset(self, stream: int, code: int) -> None:
        if call := self._link.of_target(stream):
            call.breaks(code)

    def frame(self, frame: Frame) -> None:
        self._link.take_frame_of_server(frame)

    def lost(self) -> None:
        self._link.lost()
