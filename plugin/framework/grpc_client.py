"""One gRPC call to a server on a Unix socket, as a client in Go makes it that waits for its connection.

Source: google.golang.org/grpc v1.72.1, internal/transport/http2_client.go: ``handleRSTStream``, ``operateHeaders``,
``reader``; http_util.go: ``http2ErrConvTab``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from simkubelet.apis.grpc_wire.end import End
from simkubelet.apis.grpc_wire.frames import PREFACE, Flag, Frame, Headers, Type
from simkubelet.apis.grpc_wire.messages import Code, error_in, error_text, framed, message_in, taken

__all__ = ["CallFailedError", "DialError", "call_once"]

_STREAM: Final = 1
_PAUSE_S: Final = 0.1
"""Between two tries to connect: a socket may be seen a moment before it accepts."""
_RESET_CODES: Final = {
    0x3: Code.RESOURCE_EXHAUSTED,
    0x7: Code.UNAVAILABLE,
    0x8: Code.CANCELED,
    0xB: Code.RESOURCE_EXHAUSTED,
    0xC: Code.PERMISSION_DENIED,
}


class DialError(Exception):
    """Nobody accepted a connection in time."""


class CallFailedError(Exception):
    """The call ended with an error; the message is as Go prints it."""


async def call_once(server_socket: Path, path: str, request: bytes, dial_timeout_s: float) -> bytes:
    """Call a method, given as in ``/v1beta1.Registration/Register``; the call itself has no time limit.

    Raises:
        DialError: no connection in time.
        CallFailedError: the server refused, or was lost.
    """
    async with _dialled(server_socket, dial_timeout_s) as connection:
        return await connection.call(path, request)


@asynccontextmanager
async def _dialled(server_socket: Path, timeout_s: float) -> AsyncGenerator[_Connection, None]:
    connection = _Connection()
    try:
        async with asyncio.timeout(timeout_s):
            while not await connection.connect(server_socket):
                await asyncio.sleep(_PAUSE_S)
                connection = _Connection()
        yield connection
    except TimeoutError:
        raise DialError(f"{server_socket}: nobody accepts a connection") from None
    finally:
        connection.end.close()
        # The socket is closed in the next turn of the event loop.
        await asyncio.sleep(0)


class _Connection:
    """A connection for one call; what comes is told to it by its end."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.end = End(self, begins=False)
        self._is_ready: asyncio.Future[bool] = loop.create_future()
        self._error: asyncio.Future[str] = loop.create_future()
        self._received = bytearray()

    async def connect(self, server_socket: Path) -> bool:
        """Connect and wait for the server's greeting; whether it came."""
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: self.end, str(server_socket))
        except OSError:
            return False
        self.end.write(PREFACE)
        self.end.send_frame(Frame(Type.SETTINGS, 0, 0, b""))
        return await self._is_ready

    async def call(self, path: str, request: bytes) -> bytes:
        """The answer to a request.

        Raises:
            CallFailedError: there is none.
        """
        self.end.open(_STREAM)
        self.end.send_headers(
            _STREAM,
            [
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", path.encode()),
                (b":authority", b"localhost"),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
            ],
            is_last=False,
        )
        self.end.send_data(_STREAM, framed(request), is_last=True)
        if error := await self._error:
            raise CallFailedError(error)
        return b"".join(map(message_in, taken(self._received)))

    def raw(self, data: bytes) -> None:
        if data:
            self.end.close()

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        if is_last:
            error = error_in(headers)
            self._over(error_text(Code.UNKNOWN, "no status in the trailers") if error is None else error)

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        self._received += data
        self.end.credit(stream, size)
        if is_last:
            self._over(error_text(Code.INTERNAL, "server closed the stream without sending trailers"))

    def reset(self, stream: int, code: int) -> None:
        text = f"stream terminated by RST_STREAM with error code: {code}"
        self._over(error_text(_RESET_CODES.get(code, Code.INTERNAL), text))

    def frame(self, frame: Frame) -> None:
        if frame.type in (Type.SETTINGS, Type.PING) and not frame.has(Flag.ACK):
            payload = frame.payload if frame.type == Type.PING else b""
            self.end.send_frame(Frame(frame.type, Flag.ACK, 0, payload))
        if frame.type == Type.SETTINGS and not self._is_ready.done():
            self._is_ready.set_result(True)

    def lost(self) -> None:
        if not self._is_ready.done():
            self._is_ready.set_result(False)
        self._over(error_text(Code.UNAVAILABLE, "error reading from server: EOF"))

    def _over(self, error: str) -> None:
        if not self._error.done():
            self._error.set_result(error)
