"""A listener for HTTP on loopback that gives a client so much time for the head of its first request, and no more.

The time counts from the accepted connection on, with TLS' handshake. A connection without a next request is closed too,
and one that sends more than a body and the head of the next request, which aiohttp limits by their lines alone.

A body is taken as it comes: as with Go's server, what its ``Content-Encoding`` says is not undone.

Source: staging/src/k8s.io/apiserver/pkg/server/secure_serving.go, ``Serve`` (kubernetes v1.34.4); net/http/server.go,
``tlsHandshakeTimeout`` (Go 1.24).
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

__all__ = ["HOST", "Connections", "HttpListener"]

HOST: Final = "127.0.0.1"
_HEAD_S: Final = 32.0
_IDLE_S: Final = 90.0
_HEADS_BYTES: Final = 8 << 20
_SHARE_OF_FILES: Final = 4
"""The connections of a server have this part of the files that the process may open; nodes need the others."""

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _is_of_the_server(record: logging.LogRecord) -> bool:
    """Whether a line is about more than bytes that are not HTTP; their sender gets 400, and they are not logged."""
    return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


class _Connection(asyncio.Protocol):
    """A connection, until it has received too much; all else is aiohttp's, which has it once TLS' handshake is done."""

    def __init__(self, connections: Connections, new_handler: Callable[[], web.RequestHandler]) -> None:
        self.received = 0
        self._connections = connections
        self._new_handler = new_handler
        self._accepted_at = asyncio.get_running_loop().time()

    def begun(self) -> None:
        """A request is answered from now on."""
        self.received = 0
        self._silent.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._http = self._new_handler()
        self._silent = asyncio.get_running_loop().call_at(self._accepted_at + _HEAD_S, self._http.force_close)
        self._http.connection_made(transport)
        if not self._connections.has_room_for(self._http, self):
            self._abort()

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self.received <= self._connections.most_bytes:
            self._http.data_received(data)
        else:
            self._abort()

    def eof_received(self) -> None:
        self._http.eof_received()

    def pause_writing(self) -> None:
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._http.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._silent.cancel()
        self._connections.forget(self._http)
        self._http.connection_lost(error)

    def _abort(self) -> None:
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()


class Connections:
    """The connections of a server of aiohttp, with the limits of this module.

    Args:
        runner: of the server; it is set up before the first connection.
        largest_body: of a request, in bytes.

    Attributes:
        most_bytes: that a connection may send until a request is answered.
    """

    def __init__(self, runner: web.BaseRunner, largest_body: int) -> None:
        self.most_bytes = largest_body + _HEADS_BYTES
        self._runner = runner
        self._connections: dict[asyncio.BaseProtocol, _Connection] = {}
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most: float = math.inf if files == resource.RLIM_INFINITY else files // _SHARE_OF_FILES

    async def serve(self, context: ssl.SSLContext | None = None, **address: Any) -> asyncio.Server:
        """Listen at an address of `create_server`; the caller closes the server.

        Raises:
            OSError: the port is taken.
        """
        handshake_s = None if context is None else _HEAD_S
        return await asyncio.get_running_loop().create_server(
            self._new, ssl=context, ssl_handshake_timeout=handshake_s, **address
        )

    def begun(self, request: web.Request) -> None:
        """Note that the head of a request is there."""
        if connection := self._connections.get(request.protocol):
            connection.begun()

    def has_room_for(self, http: web.RequestHandler, connection: _Connection) -> bool:
        """Whether a connection is not one too many; both are known until `forget`."""
        self._connections[http] = connection
        return len(self._connections) <= self._most

    def forget(self, http: web.RequestHandler) -> None:
        """Note that a connection is lost."""
        self._connections.pop(http, None)

    def _new(self) -> asyncio.BaseProtocol:
        return _Connection(self, cast("web.Server", self._runner.server))


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
        def request(*parts: Any) -> Any:
            return cast("Any", web.Request)(*parts, asyncio.get_running_loop(), client_max_size=largest_body)

        log.addFilter(_is_of_the_server)
        self._answer_request = answer
        # Without the routes of an application, which are looked up once for each slash of a path.
        server = web.Server(
            cast("Any", self._answer),
            request_factory=request,
            access_log=None,
            logger=log,
            keepalive_timeout=_IDLE_S,
            auto_decompress=False,
            **limits,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=shutdown_s)
        self._connections = Connections(self._runner, largest_body)
        self._server: asyncio.Server | None = None

    async def start(self, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen; return the port, which is a free one where `port` is 0.

        Raises:
            OSError: the port is taken.
        """
        await self._runner.setup()
        try:
            self._server = await self._connections.serve(context, host=HOST, port=port)
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
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self._connections.begun(request)
        return await self._answer_request(request)
