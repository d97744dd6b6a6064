"""A gRPC server on a Unix socket: as much of one as kubelets and plugins need.

gRPC's own for Python takes three threads for each call, 20 MiB and half of a plugin's start.

A client that pings too often is sent away as by a server in Go. What clients can make a server keep is bounded, where
one in Go has no bound: connections, streams of each, the bytes of requests that are not complete, and those of
answers that nobody reads.

Source: google.golang.org/grpc v1.72.1, internal/transport/http2_server.go, ``handlePing``, and defaults.go.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .end import BatchingEnd
from .frames import ENHANCE_YOUR_CALM, FRAME_BYTES, PREFACE, REFUSED_STREAM, Flag, Frame, Headers, Type
from .messages import Code
from .served_call import Method, ServedCall

__all__ = ["GrpcServer"]

_log = logging.getLogger(__name__)

_MOST_CONNECTIONS: Final = 1000
_MOST_STREAMS: Final = 1000
"""Of one connection."""
_MOST_HELD_BYTES: Final = 64 << 20
"""Of all requests of a server that are not complete."""
_MOST_UNREAD_BYTES: Final = 64 << 20
"""Of all answers of a server."""
_PING_S: Final = 300.0
_IDLE_PING_S: Final = 7200.0
"""The time between two pings where no call is under way."""
_MOST_STRIKES: Final = 2
_PAUSE_S: Final = 0.1
"""Before the next try where no connection can be accepted, as all descriptors are in use."""


class GrpcServer:
    """Serves methods by their paths, as in ``/v1beta1.DevicePlugin/Allocate``.

    `listen` begins it, `stop` ends it with all its calls; the socket's file is the caller's to remove.
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._connections: set[_Connection] = set()
        self._held = _Held()
        self._is_full = False
        self._socket: socket.socket | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def listen(self, path: Path) -> None:
        """Make the socket and serve on it.

        Raises:
            OSError: it cannot be made.
        """
        listener = socket.socket(socket.AF_UNIX)
        listener.setblocking(False)
        try:
            listener.bind(str(path))
            listener.listen()
        except OSError:
            listener.close()
            raise
        self._socket = listener
        self._listen_on(listener)

    async def stop(self, grace_s: float = 0.0) -> None:
        """Accept nobody any more and break off all calls; those that end by themselves get `grace_s` for that.

        Also where this is cancelled, the sockets are closed.
        """
        try:
            await self._end_accepting()
            calls = [call for connection in self._connections for call in connection.calls]
            if calls and grace_s:
                await asyncio.wait(calls, timeout=grace_s)
        finally:
            for connection in list(self._connections):
                connection.close()
        await asyncio.gather(*calls, return_exceptions=True)
        # The sockets are closed in the next turn of the event loop.
        await asyncio.sleep(0)

    async def _end_accepting(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        listener, self._socket = self._socket, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        # Not cancelled: a task that never began would leave its socket open.
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _listen_on(self, listener: socket.socket) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        if len(self._connections) >= _MOST_CONNECTIONS:
            # The next ones wait for the end of one of these.
            loop.remove_reader(listener)
            self._is_full = True
            return
        try:
            accepted, _ = listener.accept()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            _log.error("Cannot accept a connection: %s", error.strerror)
            loop.remove_reader(listener)
            self._pause = loop.call_later(_PAUSE_S, self._listen_on, listener)
            return
        accepted.setblocking(False)
        task = loop.create_task(self._connect(accepted))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        _, end = await asyncio.get_running_loop().connect_accepted_socket(self._new_end, accepted)
        if self._socket is None:
            end.close()

    def _new_end(self) -> BatchingEnd:
        connection = _Connection(self._methods, self._lost, self._held)
        self._connections.add(connection)
        return connection.end

    def _lost(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        if self._is_full and self._socket is not None:
            self._is_full = False
            self._listen_on(self._socket)


@dataclass(slots=True)
class _Held:
    """What the clients of a server make it keep.

    Attributes:
        size: Bytes of the requests of all connections that are not complete.
        ends: The connections, which keep what their clients do not read.
    """

    size: int = 0
    ends: set[BatchingEnd] = field(default_factory=set)

    def bound_unread(self) -> None:
        """Where too much is not read, end the connection of the client that reads least."""
        unread = {end: end.unread_bytes for end in self.ends}
        if sum(unread.values()) > _MOST_UNREAD_BYTES:
            max(unread, key=unread.__getitem__).abort()


class _Connection:
    """What comes on one connection, and the calls that are under way on it."""

    def __init__(self, methods: Mapping[str, Method], on_lost: Callable[[_Connection], None], held: _Held) -> None:
        self.end = BatchingEnd(self, begins=True)
        # A server sends its settings to every client.
        self.end.send_frame(Frame(Type.SETTINGS, 0, 0, b""))
        self._methods = methods
        self._on_lost = on_lost
        self._held = held
        held.ends.add(self.end)
        self._last_stream = 0
        self._pinged_at: float | None = None
        self._strikes = 0
        self._calls: dict[int, ServedCall] = {}
        self._to_credit = 0

    @property
    def calls(self) -> list[asyncio.Task[None]]:
        """The calls that are being answered."""
        return [call.task for call in self._calls.values() if call.task is not None]

    def close(self) -> None:
        """End the connection and break off its calls."""
        self._drop_calls()
        self.end.close()

    def raw(self, data: bytes) -> None:
        if data != PREFACE:
            self.end.close()

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        call = self._calls.get(stream)
        if call is None:
            self._last_stream = max(stream, self._last_stream)
            if self.end.streams >= _MOST_STREAMS:
                self.end.refuse(stream, REFUSED_STREAM)
                return
            self.end.open(stream)
            call = self._calls[stream] = ServedCall(self.end, stream, self._held.bound_unread, self._over)
            call.begin(headers, self._methods)
            self._held.size += call.held_bytes
        if is_last:
            self.data(stream, b"", 0, is_last)

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        if is_last:
            self._credit_later(size)
        else:
            self.end.credit(stream, size)
        if call := self._calls.get(stream):
            held = call.held_bytes
            call.take(data, is_last)
            self._held.size += call.held_bytes - held
            if self._held.size > _MOST_HELD_BYTES and call.held_bytes and stream in self._calls:
                call.refuse(Code.RESOURCE_EXHAUSTED, "too many requests that are not complete")

    def _credit_later(self, size: int) -> None:
        """Give back what an ended stream took of the connection's window, when it is worth a frame."""
        self._to_credit += size
        if self._to_credit > FRAME_BYTES:
            self.end.credit(0, self._to_credit)
            self._to_credit = 0

    def reset(self, stream: int, code: int) -> None:
        if call := self._pop(stream):
            call.drop()

    def frame(self, frame: Frame) -> None:
        if frame.type in (Type.SETTINGS, Type.PING) and not frame.has(Flag.ACK):
            payload = frame.payload if frame.type == Type.PING else b""
            self.end.send_frame(Frame(frame.type, Flag.ACK, 0, payload))
            if frame.type == Type.PING:
                self._pinged()

    def lost(self) -> None:
        self._drop_calls()
        self._held.ends.discard(self.end)
        self._on_lost(self)

    def _pinged(self) -> None:
        """End the connection of a client that has pinged too often since something was sent to it."""
        now, before = asyncio.get_running_loop().time(), self._pinged_at
        self._pinged_at = now
        if self.end.has_sent:
            self.end.has_sent, self._strikes = False, 0
            return
        self._strikes += before is not None and now < before + (_PING_S if self._calls else _IDLE_PING_S)
        if self._strikes > _MOST_STRIKES:
            payload = self._last_stream.to_bytes(4) + ENHANCE_YOUR_CALM.to_bytes(4) + b"too_many_pings"
            self.end.send_frame(Frame(Type.GOAWAY, 0, 0, payload))
            self.close()

    def _drop_calls(self) -> None:
        for stream in list(self._calls):
            if call := self._pop(stream):
                call.drop()

    def _pop(self, stream: int) -> ServedCall | None:
        call = self._calls.pop(stream, None)
        if call is not None:
            self._held.size -= call.held_bytes
        return call

    def _over(self, stream: int) -> None:
        self._pop(stream)
