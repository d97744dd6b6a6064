"""gRPC calls to a server on a Unix socket, with the errors that a client in Go sees.

A `ClientConnection` is one connection; a caller that needs another one after its end makes it. Messages are bytes.
Nothing here runs in the background: all that comes is taken in the event loop as it comes.

What the connection as a whole takes is given back at once, what a stream takes when its messages are read: so a
stream that nobody reads holds up no other call.

Source: google.golang.org/grpc v1.72.1, internal/transport/http2_client.go: ``newHTTP2Client``, ``reader``,
``handleRSTStream``, ``handleGoAway``.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple

from .client_call import CREDIT_FROM, WINDOW, Call, RpcError
from .end import BatchingEnd
from .frames import (
    CANCEL,
    INITIAL_WINDOW_SIZE,
    PREFACE,
    REFUSED_STREAM,
    WINDOW_BYTES,
    Flag,
    Frame,
    Headers,
    Type,
    header_block,
)
from .messages import MOST_MESSAGE_BYTES, Code, framed

__all__ = ["WINDOW", "ClientConnection", "ClientName", "ConnectionClosedError", "RpcError", "UnprocessedError"]

_GREETING: Final = Frame(Type.SETTINGS, 0, 0, INITIAL_WINDOW_SIZE.to_bytes(2) + WINDOW.to_bytes(4))
_LONGEST_TIMEOUT: Final = 99_999_999
_TIMEOUT_UNITS: Final = ((b"n", 1e9), (b"u", 1e6), (b"m", 1e3), (b"S", 1.0), (b"M", 1 / 60), (b"H", 1 / 3600))
_MOST_TOGETHER: Final = 50
"""Messages of a stream that are read in one turn of the event loop."""
_ALL_STREAMS: Final = 2**31 - 1
_RESET_CODES: Final = {
    3: Code.RESOURCE_EXHAUSTED,
    7: Code.UNAVAILABLE,
    8: Code.CANCELED,
    11: Code.RESOURCE_EXHAUSTED,
    12: Code.PERMISSION_DENIED,
}
_RESET_NAMES: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)


class ClientName(NamedTuple):
    """What a client says of itself and of its server with each call.

    Attributes:
        authority: the header ``:authority``.
        version: of Go's library, in the header ``user-agent``.
        takes_gzip: whether it says that answers may be compressed.
    """

    authority: str = "localhost"
    version: str = "1.72.1"
    takes_gzip: bool = True


class ConnectionClosedError(RpcError):
    """The caller's side closed the connection while a call was under way or before it began."""

    def __init__(self) -> None:
        super().__init__(Code.CANCELED, "grpc: the client connection is closing")


class UnprocessedError(RpcError):
    """The server has done nothing about a call, which can be made again on another connection."""


class ClientConnection:
    """A connection to the server on a socket; `open` makes it, `close` ends it with all calls.

    Args:
        path: Of the socket.
        largest_bytes: Of a message that is received.
        within: The only folder in which a socket is reached, wherever `path` leads by ``..`` and links; itself without
            links.
        address: What errors call the socket, where a driver on its node has another path for it; `path` by default.
        name: What the headers of its calls say.

    Attributes:
        is_usable: Whether new calls can be made.
    """

    def __init__(
        self,
        path: str,
        largest_bytes: int = MOST_MESSAGE_BYTES,
        within: Path | None = None,
        address: str = "",
        name: ClientName = ClientName(),  # noqa: B008  # it never changes
    ) -> None:
        self.is_usable = False
        self._name = name
        self._path = path
        self._address = address or path
        self._largest_bytes = largest_bytes
        self._within = within
        self._end = BatchingEnd(self, begins=False)
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_over = asyncio.Event()
        self._calls: dict[int, Call] = {}
        self._blocks: dict[str, bytes] = {}
        self._next_stream = 1
        self._to_credit = 0

    async def open(self) -> None:
        """Connect and wait, without limit, until the server speaks.

        Raises:
            RpcError: Nobody listens there, or it speaks something else; with the code Unavailable.
        """
        loop = asyncio.get_running_loop()
        try:
            with _found(self._path, self._within) as found:
                await loop.create_unix_connection(lambda: self._end, found)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            reason = f"transport: Error while dialing: dial unix {self._address}: connect: {reason}"
            raise RpcError(Code.UNAVAILABLE, f'connection error: desc = "{reason}"') from None
        self._end.write(PREFACE)
        self._end.send_frame(_GREETING)
        self._end.credit(0, WINDOW - WINDOW_BYTES)
        self._end.flush()
        await self._greeted

    async def call(self, path: str, request: bytes, timeout_s: float | None = None) -> bytes:
        """Make a call with one answer; `path` is as in ``/v1beta1.DevicePlugin/Allocate``.

        Raises:
            RpcError: It failed, or the time is over.
        """
        call = self._begin(path, request, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                while not call.is_over:
                    await call.news()
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, "context deadline exceeded") from None
        finally:
            self._cancel(call)
        return call.answer()

    async def stream(self, path: str, request: bytes) -> AsyncGenerator[bytes, None]:
        """Make a call with any number of answers, which ends well or raises `RpcError`."""
        call = self._begin(path, request, None)
        together = 0
        try:
            while True:
                while (message := call.read()) is None:
                    if call.is_over:
                        call.raise_error()
                        return
                    together = 0
                    await call.news()
                together += 1
                if together % _MOST_TOGETHER == 0:
                    # A server that sends without end leaves others their turn.
                    await asyncio.sleep(0)
                yield message
        finally:
            self._cancel(call)

    async def wait_end(self) -> None:
        """Wait until either side has ended the connection, or it has broken."""
        await self._is_over.wait()

    def close(self) -> None:
        """End the connection; calls under way raise `ConnectionClosedError`. May be called twice and at any time."""
        self._fail(ConnectionClosedError())
        self._end.abort()

    def _begin(self, path: str, request: bytes, timeout_s: float | None) -> Call:
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        call = self._calls[stream] = Call(self._end, stream, self._largest_bytes)
        self._end.open(stream)
        block = self._block(path)
        if timeout_s is not None:
            block += header_block([(b"grpc-timeout", _timeout(timeout_s))])
        self._end.send_headers(stream, block, is_last=False)
        self._end.send_data(stream, framed(request), is_last=True)
        self._end.flush()
        return call

    def _block(self, path: str) -> bytes:
        block = self._blocks.get(path)
        if block is None:
            block = self._blocks[path] = header_block(
                [
                    (b":method", b"POST"),
                    (b":scheme", b"http"),
                    (b":path", path.encode()),
                    (b":authority", os.fsencode(self._name.authority)),
                    (b"content-type", b"application/grpc"),
                    (b"user-agent", f"grpc-go/{self._name.version}".encode()),
                    (b"te", b"trailers"),
                    *([(b"grpc-accept-encoding", b"gzip")] if self._name.takes_gzip else []),
                ]
            )
        return block

    def _cancel(self, call: Call) -> None:
        """End a call at the server, too, where it has not ended."""
        if self._calls.pop(call.stream, None) is None:
            return
        if call.is_over:
            self._end.finish(call.stream)
        # Also where it is over before the whole request has gone.
        self._end.send_reset(call.stream, CANCEL)
        if not self.is_usable and not self._calls:
            # The server wants no more calls, and has answered all.
            self._end.close()

    def _fail(self, error: RpcError) -> None:
        """End all that waits with an error."""
        self.is_usable = False
        self._is_over.set()
        if not self._greeted.done():
            self._greeted.set_exception(error)
            # The caller that opened the connection may have gone.
            self._greeted.exception()
        for call in self._calls.values():
            call.over(error)

    # What comes; see `ConnectionListener`

    def raw(self, data: bytes) -> None:
        if data:
            reason = 'connection error: desc = "error reading server preface: http2: frame too large"'
            self._fail(RpcError(Code.UNAVAILABLE, reason))
            self._end.abort()

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        if call := self._calls.get(stream):
            call.headers(headers, is_last)

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        self._to_credit += size
        if self._to_credit >= CREDIT_FROM:
            self._end.credit(0, self._to_credit)
            self._to_credit = 0
        if call := self._calls.get(stream):
            call.data(data, size, is_last)

    def reset(self, stream: int, code: int) -> None:
        if call := self._calls.get(stream):
            name = _RESET_NAMES[code] if code < len(_RESET_NAMES) else f"unknown error code 0x{code:x}"
            kind = UnprocessedError if code == REFUSED_STREAM else RpcError
            text = f"stream terminated by RST_STREAM with error code: {name}"
            of_code = Code.INTERNAL if code < len(_RESET_NAMES) else Code.UNKNOWN
            call.over(kind(_RESET_CODES.get(code, of_code), text))

    def frame(self, frame: Frame) -> None:
        if frame.type == Type.GOAWAY:
            self._drain(int.from_bytes(frame.payload[:4]) & _ALL_STREAMS)
        elif frame.type in (Type.SETTINGS, Type.PING) and not frame.has(Flag.ACK):
            payload = frame.payload if frame.type == Type.PING else b""
            self._end.send_frame(Frame(frame.type, Flag.ACK, 0, payload))
        if frame.type == Type.SETTINGS and not self._greeted.done():
            self.is_usable = True
            self._greeted.set_result(None)

    def lost(self) -> None:
        error = self._end.error
        reason = "EOF" if error is None else f"read unix @->{self._address}: read: {_strerror(error)}"
        if self._greeted.done():
            self._fail(RpcError(Code.UNAVAILABLE, f"error reading from server: {reason}"))
        else:
            self._fail(RpcError(Code.UNAVAILABLE, f'connection error: desc = "error reading server preface: {reason}"'))

    def _drain(self, last: int) -> None:
        """Make no new calls here; those after the last stream that is served were for nothing."""
        self.is_usable = False
        for stream, call in self._calls.items():
            if stream > last:
                call.over(UnprocessedError(Code.UNAVAILABLE, "the connection is draining"))
        if not self._calls:
            self._end.close()


@contextmanager
def _found(path: str, within: Path | None) -> Iterator[str]:
    """A name of what is at a path now, which goes on meaning that, whatever the path's folders and links become.

    Raises:
        FileNotFoundError: it is not below `within`.
    """
    if within is None:
        yield path
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        name = f"/proc/self/fd/{descriptor}"
        if within not in Path(os.readlink(name)).parents:  # noqa: PTH115  # no path by itself
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        yield name
    finally:
        os.close(descriptor)


def _timeout(seconds: float) -> bytes:
    """The value of the header ``grpc-timeout``: at most eight digits, rounded up."""
    if seconds <= 0:
        return b"0n"
    counts = ((ceil(seconds * in_second), unit) for unit, in_second in _TIMEOUT_UNITS)
    count, unit = next((count, unit) for count, unit in counts if count <= _LONGEST_TIMEOUT)
    return b"%d%s" % (count, unit)


def _strerror(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
