"""A connection to a plugin's socket: dialling it, and calls whose answers are read as the kubelet reads them.

Messages cross gRPC as bytes and are read here, so that a plugin's nonsense becomes the kubelet's error. Limits are real
seconds, as plugins are real processes.

Source: devicemanager/plugin/v1beta1/client.go, ``dial``; pluginmanager/operationexecutor/operation_generator.go,
``dial`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from ..go.message import UnreadableMessageError, read_message
from ..go.rpc_error import UnreadableAnswerError, answer_to
from ..version import Version

__all__ = ["PluginChannel"]

M = TypeVar("M", bound=Message)

_DIAL_TIMEOUT_S: Final = 10.0
_BREAKS_WITHIN_S: Final = 1.0
"""How long calls may take to notice that their connection is gone."""
# What a client of Go takes, google.golang.org/grpc v1.72.1, internal/transport/defaults.go. The text of an error comes
# as such metadata, and a plugin may name all its devices in one.
_MAX_METADATA_BYTES: Final = 16 << 20


class PluginChannel:
    """A connection to whoever listens on a socket, of a kubelet of some version."""

    def __init__(self, socket: str | Path, version: Version) -> None:
        self._version = version
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_options())
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._under_way = 0
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()

    async def dial(self) -> None:
        """Wait until somebody speaks gRPC there.

        Raises:
            TimeoutError: nobody did for 10 s.
        """
        async with asyncio.timeout(_DIAL_TIMEOUT_S):
            await self._channel.channel_ready()

    async def call(self, method: str, request: Message, answer: type[M], *, timeout_s: float | None = None) -> M:
        """Ask the plugin; `method` is the full name, ``/service/method``.

        Raises:
            ConnectionClosedError: the connection was closed meanwhile.
            UnreadableAnswerError: it answered with something else than the `answer` of this method.
            grpc.aio.AioRpcError: it refused, died, or the time is over.
        """
        if (ask := self._methods.get(method)) is None:
            ask = self._methods[method] = self._channel.unary_unary(method)
        self._under_way += 1
        self._is_quiet.clear()
        try:
            received = await answer_to(lambda: ask(request.SerializeToString(), timeout=timeout_s))
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_quiet.set()
        try:
            return read_message(answer, received, self._version)
        except UnreadableMessageError as error:
            raise UnreadableAnswerError(error) from None

    def listen(self, method: str, request: Message) -> AsyncIterable[bytes]:
        """Ask for a stream of messages, which come unread; it ends as gRPC's do, also with grpc.aio.AioRpcError."""
        listen: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(method)
        return listen(request.SerializeToString())

    async def broken(self) -> None:
        """Wait until the calls under way have ended by the break of the connection, before anybody closes it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BREAKS_WITHIN_S):
                await self._is_quiet.wait()

    async def close(self) -> None:
        """Close the connection, which cancels streams and fails the calls that are under way."""
        await self._channel.close(None)


def _options() -> list[tuple[str, Any]]:
    return [
        # A plugin that restarts listens on the path of the last one: a connection shared by path would wait out the
        # back-off of the dead one.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.default_authority", "localhost"),
        ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
        # A connection that is still being made outlives its channel for so long, where nobody speaks at its other end.
        ("grpc.min_reconnect_backoff_ms", round(_DIAL_TIMEOUT_S * 1000)),
    ]
