"""One call that a gRPC server answers: a request on a stream, a task that answers it.

Errors have the codes and texts of a server in Go.

Source: google.golang.org/grpc v1.72.1, server.go: ``handleStream``, ``processUnaryRPC``; rpc_util.go: ``recvMsg``,
``checkRecvPayload``.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import DecodeError, Message

from .end import BatchingEnd
from .frames import Headers, header_block
from .messages import (
    ANSWER_BEGINS,
    EMPTY_MESSAGE,
    MOST_MESSAGE_BYTES,
    Code,
    framed,
    message_in,
    taken,
    timeout_s,
    trailers,
)

__all__ = ["CallError", "Method", "ServedCall", "StreamMethod", "UnaryMethod"]

_log = logging.getLogger(__name__)

_PREFIX_BYTES: Final = len(EMPTY_MESSAGE)
_BEGINS: Final = header_block(ANSWER_BEGINS)
_ENDS_WELL: Final = header_block(trailers(Code.OK))


class CallError(Exception):
    """A call is answered with an error."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class UnaryMethod(NamedTuple):
    """A method with one answer.

    Attributes:
        read: Reads a request; may raise DecodeError or `CallError`.
        answer: Answers it; may raise `CallError`.
    """

    read: Callable[[bytes], Any]
    answer: Callable[[Any], Awaitable[Message]]


class StreamMethod(NamedTuple):
    """A method with any number of answers; each is asked for when the one before has gone."""

    read: Callable[[bytes], Any]
    answers: Callable[[Any], AsyncGenerator[Message, None]]


Method: TypeAlias = UnaryMethod | StreamMethod


class ServedCall:
    """A call on a stream of a connection.

    Args:
        end: The connection.
        stream: The call's on it.
        on_answer: Called after each answer that was sent.
        on_over: Called with the stream when nothing more will be sent on it.

    Attributes:
        task: What answers; None until the request is there.
    """

    def __init__(
        self, end: BatchingEnd, stream: int, on_answer: Callable[[], None], on_over: Callable[[int], None]
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._end = end
        self._stream = stream
        self._on_answer = on_answer
        self._on_over = on_over
        self._path = self._encoding = ""
        self._received = bytearray()
        self._has_begun_to_answer = False
        self._method: Method | None = None
        self._timeout_s: float | None = None

    def begin(self, headers: Headers, methods: Mapping[str, Method]) -> None:
        """Take the headers; the answer may follow at once."""
        given = dict(headers)
        path = given.get(b":path", b"").decode(errors="replace")
        self._path = path
        self._encoding = given.get(b"grpc-encoding", b"identity").decode(errors="replace")
        self._method = methods.get(path)
        try:
            self._timeout_s = timeout_s(given.get(b"grpc-timeout"))
        except ValueError as error:
            malformed = str(error)
        else:
            malformed = ""
        if not given.get(b"content-type", b"").startswith(b"application/grpc"):
            self._end.send_headers(self._stream, [(b":status", b"415")], is_last=True)
            self._over()
        elif malformed:
            status = trailers(Code.INTERNAL, f"malformed grpc-timeout: {malformed}")
            self._end.send_headers(self._stream, [(b":status", b"400"), ANSWER_BEGINS[1], *status], is_last=True)
            self._over()
        elif self._method is None:
            self._finish(Code.UNIMPLEMENTED, _unknown(path, methods))

    def take(self, data: bytes, is_last: bool) -> None:
        """Take data of the request; what comes after its message does not count."""
        if self.task is not None:
            return
        self._received += data
        error = self._refusal()
        if error is not None:
            self._finish(error.code, str(error))
        elif request := next(taken(self._received), None):
            self.task = asyncio.create_task(self._answer(message_in(request)))
        elif is_last:
            self._finish(Code.INTERNAL, "unexpected EOF" if self._received else "EOF")

    @property
    def held_bytes(self) -> int:
        """What is kept of a request that is not complete, which its sender alone decides."""
        return 0 if self.task is not None else len(self._received) + len(self._path) + len(self._encoding)

    def refuse(self, code: Code, text: str) -> None:
        """Answer with an error, whatever has come of the request."""
        self._finish(code, text)

    def drop(self) -> None:
        """The caller waits for no answer any more."""
        if self.task is not None:
            self.task.cancel()

    def _refusal(self) -> CallError | None:
        """What is wrong with a message, as soon as its prefix has come."""
        if len(self._received) < _PREFIX_BYTES:
            return None
        length = int.from_bytes(self._received[1:_PREFIX_BYTES])
        if length > MOST_MESSAGE_BYTES:
            text = f"grpc: received message larger than max ({length} vs. {MOST_MESSAGE_BYTES})"
            return CallError(Code.RESOURCE_EXHAUSTED, text)
        if not self._received[0]:
            return None
        encoding = self._encoding
        if encoding == "identity":
            return CallError(Code.INTERNAL, "grpc: compressed flag set with identity or empty encoding")
        text = f'grpc: Decompressor is not installed for grpc-encoding "{encoding}"'
        return CallError(Code.UNIMPLEMENTED, text)

    async def _answer(self, request: bytes) -> None:
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                await self._call(request)
        except CallError as error:
            self._finish(error.code, str(error))
        except Exception as error:
            if limit.expired():
                self._finish(Code.DEADLINE_EXCEEDED, "context deadline exceeded")
                return
            _log.error("%s failed: %s", self._path, "".join(traceback.format_exception(error)))
            self._finish(Code.UNKNOWN, str(error))
        else:
            self._finish(Code.OK)

    async def _call(self, request: bytes) -> None:
        method = self._method
        assert method is not None  # noqa: S101  # a call without one is over
        try:
            asked = method.read(request)
        except DecodeError as error:
            raise CallError(Code.INTERNAL, f"grpc: error unmarshalling request: {error}") from error
        if isinstance(method, UnaryMethod):
            self._send(await method.answer(asked), lambda: None)
            return
        async with aclosing(method.answers(asked)) as answers:
            async for answer in answers:
                has_gone = asyncio.Event()
                self._send(answer, has_gone.set)
                self._end.flush()
                await has_gone.wait()

    def _send(self, answer: Message, on_sent: Callable[[], None]) -> None:
        if not self._has_begun_to_answer:
            self._has_begun_to_answer = True
            self._end.send_headers(self._stream, _BEGINS, is_last=False)
        self._end.send_data(self._stream, framed(answer.SerializeToString()), False, on_sent)
        self._on_answer()

    def _finish(self, code: Code, text: str = "") -> None:
        block = header_block(trailers(code, text)) if code else _ENDS_WELL
        self._end.send_headers(self._stream, block if self._has_begun_to_answer else _BEGINS + block, is_last=True)
        self._over()

    def _over(self) -> None:
        self._end.finish(self._stream)
        self._end.flush()
        self._on_over(self._stream)


def _unknown(path: str, methods: Mapping[str, Method]) -> str:
    service, slash, method = path.removeprefix("/").rpartition("/")
    if not slash:
        return f'malformed method name: "{path}"'
    if any(known.startswith(f"/{service}/") for known in methods):
        return f"unknown method {method} for service {service}"
    return f"unknown service {service}"
