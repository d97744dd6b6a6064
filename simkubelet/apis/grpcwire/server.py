"""A gRPC server on a Unix socket: as much of one as kubelets and plugins need.

gRPC's own for Python takes three threads for each call, 20 MiB and half of a plugin's start.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .end import BatchingEnd
from .frames import FRAME_BYTES, PREFACE, Flag, Frame, Headers, Type
from .served_call import Method, ServedCall

__all__ = ["GrpcServer"]

_log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.1
"""Before the next try where no connection can be accepted, as all descriptors are in use."""


class GrpcServer:
    """Serves methods by their paths, as in ``/v1beta1.DevicePlugin/Allocate``.

    `listen` begins it, `stop` ends it with all its calls; the socket's file is the caller's to remove.
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._connections: set[_Connection] = set()
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
        connection = _Connection(self._methods, self._connections.discard)
        self._connections.add(connection)
        return connection.end


class _Connection:
    """What comes on one connection, and the calls that are under way on it."""

    def __init__(self, methods: Mapping[str, Method], on_lost: Callable[[_Connection], None]) -> None:
        self.end = BatchingEnd(self, begins=True)
        # A server sends its settings to every client.
        self.end.send_frame(Frame(Type.SETTINGS, 0, 0, b""))
        self._methods = methods
        self._on_lost = on_lost
        self._calls: dict[int, ServedCall] = {}
        self._to_credit = 0

    @property
    def calls(self) -> list[asyncio.Task[None]]:
        """The calls that are being answered."""
        return [call.task for call in self._calls.values() if call.task is not None]

    def close(self) -> None:
        """End the connection and break off its calls."""
        for call in self._calls.values():
            call.drop()
        self.end.close()

    def raw(self, data: bytes) -> None:
        if data != PREFACE:
            self.end.close()

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        call = self._calls.get(stream)
        if call is None:
            self.end.open(stream)
            call = self._calls[stream] = ServedCall(self.end, stream, self._over)
            call.begin(headers, self._methods)
        if is_last:
            self.data(stream, b"", 0, is_last)

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        if is_last:
            self._credit_later(size)
        else:
            self.end.credit(stream, size)
        if call := self._calls.get(stream):
            call.take(data, is_last)

    def _credit_later(self, size: int) -> None:
        """Give back what an ended stream took of the connection's window, when it is worth a frame."""
        self._to_credit += size
        if self._to_credit > FRAME_BYTES:
            self.end.credit(0, self._to_credit)
            self._to_credit = 0

    def reset(self, stream: int, code: int) -> None:
        if call := self._calls.pop(stream, None):
            call.drop()

    def frame(self, frame: Frame) -> None:
        if frame.type in (Type.SETTINGS, Type.PING) and not frame.has(Flag.ACK):
            payload = frame.payload if frame.type == Type.PING else b""
            self.end.send_frame(Frame(frame.type, Flag.ACK, 0, payload))

    def lost(self) -> None:
        for call in self._calls.values():
            call.drop()
        self._on_lost(self)

    def _over(self, stream: int) -> None:
        self._calls.pop(stream, None)
