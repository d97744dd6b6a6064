"""A connection to a plugin's socket: dialling it, and calls whose answers are read as the kubelet reads them.

Limits are real seconds, as plugins are real processes. A connection that breaks is made again by the next call; one
that cannot be made fails the calls until the back-off is over.

Source: devicemanager/plugin/v1beta1/client.go, ``dial``; pluginmanager/operationexecutor/operation_generator.go,
``dial`` (kubernetes v1.34.4); google.golang.org/grpc v1.72.1, clientconn.go, ``resetTransportAndUnlock``;
internal/backoff/backoff.go.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import Message

from ..apis.grpcwire.client import ClientConnection, ConnectionClosedError, RpcError, UnprocessedError
from ..apis.grpcwire.messages import Code
from ..golang.message import UnreadableMessageError, read_message
from ..model.version import Version

__all__ = ["PluginChannel", "UnreadableAnswerError"]

M = TypeVar("M", bound=Message)

_DIAL_TIMEOUT_S: Final = 10.0
_CONNECT_TIMEOUT_S: Final = 20.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 120.0
_PAUSE_FACTOR: Final = 1.6
_PAUSE_JITTER: Final = 0.2


class UnreadableAnswerError(RpcError):
    """A plugin answered with bytes that are not the message they should be."""

    def __init__(self, reason: UnreadableMessageError) -> None:
        super().__init__(Code.INTERNAL, f"grpc: failed to unmarshal the received message: {reason}")


class PluginChannel:
    """Makes the calls of a kubelet of some version to the server on a socket."""

    def __init__(self, socket: str | Path, version: Version) -> None:
        self._socket = str(socket)
        self._version = version
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._is_closed = False
        self._failures = 0
        self._error: RpcError | None = None
        self._retry_at = 0.0

    async def dial(self) -> None:
        """Wait until somebody speaks gRPC there.

        Raises:
            TimeoutError: nobody did for 10 s.
            ConnectionClosedError: the connection was closed meanwhile.
        """
        async with asyncio.timeout(_DIAL_TIMEOUT_S):
            while True:
                try:
                    await self._connected()
                except ConnectionClosedError:
                    raise
                except RpcError:
                    await asyncio.sleep(self._retry_at - asyncio.get_running_loop().time())
                else:
                    return

    async def call(self, method: str, request: Message, answer: type[M], *, timeout_s: float | None = None) -> M:
        """Ask the plugin; `method` is the full name, ``/service/method``.

        Raises:
            RpcError: it refused, died, or the time is over; a ConnectionClosedError where the connection was closed
                meanwhile, an UnreadableAnswerError where the answer is no message of this kind.
        """
        content = request.SerializeToString()
        try:
            received = await (await self._connected()).call(method, content, timeout_s)
        except UnprocessedError:
            # Once, as in Go.
            received = await (await self._connected()).call(method, content, timeout_s)
        try:
            return read_message(answer, received, self._version)
        except UnreadableMessageError as error:
            raise UnreadableAnswerError(error) from None

    async def listen(self, method: str, request: Message) -> AsyncGenerator[bytes, None]:
        """Ask for a stream of messages, which come unread; raises as `call`."""
        connection = await self._connected()
        async with aclosing(connection.stream(method, request.SerializeToString())) as messages:
            async for message in messages:
                yield message

    async def close(self) -> None:
        """Close the connection, which cancels streams and fails the calls that are under way."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
            # The socket is closed in the next turn of the event loop.
            await asyncio.sleep(0)

    async def _connected(self) -> ClientConnection:
        """The connection, made where there is none that can be used; one caller makes it, the others wait."""
        async with self._connecting:
            if self._is_closed:
                raise ConnectionClosedError
            if self._connection is not None and self._connection.is_usable:
                return self._connection
            return await self._connect()

    async def _connect(self) -> ClientConnection:
        now = asyncio.get_running_loop().time
        if self._error is not None and now() < self._retry_at:
            raise self._error
        connection = self._connection = ClientConnection(self._socket)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connection.open()
        except (RpcError, TimeoutError, asyncio.CancelledError) as error:
            connection.close()
            if isinstance(error, asyncio.CancelledError | ConnectionClosedError):
                raise
            self._retry_at = now() + self._pause_s()
            self._failures += 1
            self._error = _silent(self._socket) if isinstance(error, TimeoutError) else error
            raise self._error from None
        self._failures = 0
        return connection

    def _pause_s(self) -> float:
        if not self._failures:
            return _FIRST_PAUSE_S
        pause_s = min(_FIRST_PAUSE_S * _PAUSE_FACTOR**self._failures, _LONGEST_PAUSE_S)
        return pause_s * random.uniform(1 - _PAUSE_JITTER, 1 + _PAUSE_JITTER)  # noqa: S311  # no secret


def _silent(socket: str) -> RpcError:
    reason = f"error reading server preface: read unix @->{socket}: use of closed network connection"
    return RpcError(Code.UNAVAILABLE, f'connection error: desc = "{reason}"')
