"""A listener for HTTP on loopback that gives a client so much time for the head of its first request, and no more.

The time counts from the accepted connection on, with TLS' handshake. A connection without a next request is closed too.

Source: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go, ``Serve`` (kubernetes v1.34.4); net/http/server.go,
``tlsHandshakeTimeout`` (Go 1.24).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

__all__ = ["HOST", "HttpListener"]

HOST: Final = "127.0.0.1"
_HEAD_S: Final = 32.0
_IDLE_S: Final = 90.0

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Whether a line is about more than bytes that are not HTTP; their sender gets 400, and they are not logged."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


class HttpListener:
    """Has each request of its connections answered.

    Args:
        answer: answers a request.
        largest_body: of a request, in bytes.
        shutdown_s: how long requests may still take when it stops.
        log: gets what goes wrong with an answer.
        limits: others of aiohttp's server.
    """

    def __init__(
        self, answer: Answer, *, largest_body: int, shutdown_s: float, log: logging.Logger, **limits: Any
    ) -> None:
        app = web.Application(client_max_size=largest_body)
        app.router.add_route("*", "/{path:.*}", self._answer)
        log.addFilter(_is_of_the_server)
        self._answer_request = answer
        self._runner = web.AppRunner(
            app, access_log=None, logger=log, shutdown_timeout=shutdown_s, keepalive_timeout=_IDLE_S, **limits
        )
        self._server: asyncio.Server | None = None
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    async def start(self, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen; return the port, which is a free one where `port` is 0.

        Raises:
            OSError: the port is taken.
        """
        await self._runner.setup()
        handshake_s = None if context is None else _HEAD_S
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._connection, HOST, port, ssl=context, ssl_handshake_timeout=handshake_s
            )
        except OSError:
            await self._runner.cleanup()
            raise
        listens_at: int = self._server.sockets[0].getsockname()[1]
        return listens_at

    async def stop(self) -> None:
        """End all connections; may be called twice and from any state."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for timer in self._silent.values():
                timer.cancel()
            self._silent.clear()
            await self._runner.cleanup()

    def _connection(self) -> asyncio.BaseProtocol:
        connection = cast("web.Server", self._runner.server)()

        def close() -> None:
            del self._silent[connection]
            connection.force_close()

        self._silent[connection] = asyncio.get_running_loop().call_later(_HEAD_S, close)
        return connection

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if timer := self._silent.pop(request.protocol, None):
            timer.cancel()
        return await self._answer_request(request)
