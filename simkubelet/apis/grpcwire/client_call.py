"""One call that a gRPC client makes: its answers as they come, and the error with which it ends.

Errors have the codes and texts of a client in Go.

Source: google.golang.org/grpc v1.72.1, internal/transport/http2_client.go: ``operateHeaders``; http_util.go; stream.go:
``recvMsg``; rpc_util.go: ``recvMsg``, ``checkRecvPayload``, ``decompress``.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from http import HTTPStatus
from typing import Final

from ..integers import parse_int
from .end import BatchingEnd
from .frames import CANCEL, FLOW_CONTROL_ERROR, Headers
from .messages import EMPTY_MESSAGE, Code, error_text, status_in

__all__ = ["CREDIT_FROM", "WINDOW", "Call", "EndOfStreamError", "RpcError"]

WINDOW: Final = 4 << 20
"""What is taken of a connection, and of each of its streams, before it is given back."""
CREDIT_FROM: Final = WINDOW // 4
"""What is given back is worth a frame from so much on."""
_PREFIX_BYTES: Final = len(EMPTY_MESSAGE)
_GZIP: Final = 16 + zlib.MAX_WBITS
_HTTP_CODES: Final = {
    400: Code.INTERNAL,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.UNIMPLEMENTED,
    **dict.fromkeys((429, 502, 503, 504), Code.UNAVAILABLE),
}


class RpcError(Exception):
    """A call failed; the message is as Go prints it.

    Attributes:
        code: With which it ended.
        text: What the server said of it.
    """

    def __init__(self, code: Code | int, text: str) -> None:
        super().__init__(error_text(code, text))
        self.code = code
        self.text = text


class Call:
    """A call that is under way: its answers as they come, and its end.

    Args:
        end: The connection's.
        stream: Its number.
        largest_bytes: Of an answer; a longer one fails the call.

    Attributes:
        is_over: Whether nothing more comes.
    """

    def __init__(self, end: BatchingEnd, stream: int, largest_bytes: int) -> None:
        self.stream = stream
        self.is_over = False
        self._largest_bytes = largest_bytes
        self._end = end
        self._has_begun = False
        self._encoding = "identity"
        self._received = bytearray()
        self._messages = deque[bytes]()
        self._error: RpcError | None = None
        self._to_credit = 0
        self._news: asyncio.Future[None] | None = None

    async def news(self) -> None:
        """Wait for a message or the end."""
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def read(self) -> bytes | None:
        """The next message; None where there is none yet, or no more."""
        if not self._messages:
            return None
        message = self._messages.popleft()
        if not self._messages:
            self._credit(0)
        return message

    def answer(self) -> bytes:
        """The one message of a call that is over.

        Raises:
            RpcError: The call failed.
        """
        self.raise_error()
        if not self._messages:
            raise EndOfStreamError
        if len(self._messages) > 1:
            raise RpcError(Code.UNKNOWN, "grpc: client streaming protocol violation: get <nil>, want <EOF>")
        return self._messages[0]

    def raise_error(self) -> None:
        """Raise the error with which the call has ended, if any."""
        if self._error is not None:
            raise self._error

    def headers(self, headers: Headers, is_last: bool) -> None:
        """Headers of the server: the first, or how the call ends."""
        values = dict(headers)
        if not is_last and self._has_begun:
            self._break(RpcError(Code.INTERNAL, "a HEADERS frame cannot appear in the middle of a stream"))
        elif not self._has_begun and (error := _no_grpc(values)) is not None:
            self._break(error)
        elif is_last:
            code, text = status_in(values)
            if code == Code.OK:
                self.over(RpcError(Code.INTERNAL, "unexpected EOF") if self._received else None)
            else:
                self.over(RpcError(code, text))
        self._has_begun = True
        self._encoding = values.get(b"grpc-encoding", b"identity").decode(errors="replace")

    def data(self, data: bytes, size: int, is_last: bool) -> None:
        """Data of the server."""
        if self.is_over:
            return
        if (pending := self._to_credit + size) > WINDOW:
            text = f"received {pending}-bytes data exceeding the limit {WINDOW} bytes"
            self._break(RpcError(Code.INTERNAL, text), FLOW_CONTROL_ERROR)
            return
        self._received += data
        while (message := self._next()) is not None:
            self._messages.append(message)
            self._notify()
        self._credit(size)
        if is_last:
            self.over(RpcError(Code.INTERNAL, "server closed the stream without sending trailers"))

    def over(self, error: RpcError | None) -> None:
        """Nothing more comes; the first end counts."""
        if not self.is_over:
            self.is_over = True
            self._error = error
            self._notify()

    def _next(self) -> bytes | None:
        """Take the next message; None while it is not complete, or where it is none."""
        received = self._received
        if len(received) < _PREFIX_BYTES:
            return None
        length = int.from_bytes(received[1:_PREFIX_BYTES])
        if length > self._largest_bytes:
            text = f"grpc: received message larger than max ({length} vs. {self._largest_bytes})"
            self._break(RpcError(Code.RESOURCE_EXHAUSTED, text))
            return None
        if len(received) < _PREFIX_BYTES + length:
            return None
        message = bytes(received[_PREFIX_BYTES : _PREFIX_BYTES + length])
        if received[0]:
            try:
                message = self._plain(received[0], message)
            except RpcError as error:
                self._break(error)
                return None
        del received[: _PREFIX_BYTES + length]
        return message

    def _plain(self, flag: int, message: bytes) -> bytes:
        """A message that its prefix says is compressed; raises RpcError where it cannot be read."""
        if flag != 1 or self._encoding != "gzip":
            raise RpcError(Code.INTERNAL, _unreadable(flag, self._encoding))
        if not message:
            raise RpcError(Code.INTERNAL, "grpc: failed to decompress the message: EOF")
        inflate = zlib.decompressobj(_GZIP)
        try:
            plain = inflate.decompress(message, self._largest_bytes + 1)
        except zlib.error:
            raise RpcError(Code.INTERNAL, "grpc: failed to decompress the message: gzip: invalid header") from None
        if len(plain) > self._largest_bytes:
            text = f"grpc: received message after decompression larger than max {self._largest_bytes}"
            raise RpcError(Code.RESOURCE_EXHAUSTED, text)
        if not inflate.eof:
            raise RpcError(Code.INTERNAL, "grpc: failed to read decompressed data: unexpected EOF")
        return plain

    def _break(self, error: RpcError, code: int = CANCEL) -> None:
        self._received.clear()
        if not self.is_over:
            self._end.send_reset(self.stream, code)
        self.over(error)

    def _credit(self, size: int) -> None:
        """Let the server send more, but while messages wait to be read."""
        self._to_credit += size
        if self._to_credit >= CREDIT_FROM and not self._messages and not self.is_over:
            self._end.credit_stream(self.stream, self._to_credit)
            self._to_credit = 0

    def _notify(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class EndOfStreamError(RpcError):
    """A call that has one answer ended well without it."""

    def __init__(self) -> None:
        super().__init__(Code.OK, "")
        self.args = ("EOF",)


def _no_grpc(headers: dict[bytes, bytes]) -> RpcError | None:
    """Why the first headers of an answer are not gRPC's, None where they are."""
    status = headers.get(b":status", b"").decode(errors="replace")
    content = headers.get(b"content-type", b"").decode(errors="replace")
    errors = []
    if not status:
        errors.append("malformed header: missing HTTP status")
    elif status != "200":
        try:
            number = parse_int(status, bits=32)
        except ValueError as error:
            return RpcError(Code.INTERNAL, f"transport: malformed http-status: {error}")
        phrase = next((one.phrase for one in HTTPStatus if one.value == number), "")
        errors.append(f"unexpected HTTP status code received from server: {number} ({phrase})")
    is_grpc = content == "application/grpc" or content.startswith(("application/grpc+", "application/grpc;"))
    if is_grpc and not errors:
        return None
    if not content:
        errors.append("malformed header: missing HTTP content-type")
    elif not is_grpc:
        errors.append(f'transport: received unexpected content-type "{content}"')
    code = _HTTP_CODES.get(parse_int(status), Code.UNKNOWN) if status else Code.INTERNAL
    return RpcError(code, "; ".join(errors))


def _unreadable(flag: int, encoding: str) -> str:
    if flag != 1:
        return f"grpc: received unexpected payload format {flag}"
    if encoding == "identity":
        return "grpc: compressed flag set with identity or empty encoding"
    return f'grpc: Decompressor is not installed for grpc-encoding "{encoding}"'
