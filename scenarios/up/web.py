"""The live page of a cluster: what happens on its nodes, and buttons for faults, for browsers on this machine.

It has a listener of its own beside the API server, whose certificate authority browsers do not know, and a token of
its own, which opens nothing but the page. The token is the first part of each path: the page's relative addresses have
it, and no cookie is needed. A request is answered if it has the token and names this server as its Host. A foreign page
in a browser on this machine does not know the token and is named as Origin; if its own name leads to this machine, that
name is the Host.

A stream sends the whole timeline that is kept each time it has changed, at most every `_PAUSE_S`. So nothing grows with
time, and a slow reader or a lost connection misses nothing.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiohttp import web

from simkubelet.apis.documents import load_json
from simkubelet.cluster import HOST, HttpListener
from simkubelet.host import visible
from simkubelet.model.errors import InputError, PluginError, SimkubeletError

from ..report.history import History
from ..report.timeline import of
from ..trace.trace import Entry
from .cards import Shown
from .control_socket import Perform

MOST_MESSAGES: Final = 300
"""Messages that the page shows."""
MOST_STREAMS: Final = 32
"""Pages that are open at a time."""
_PAUSE_S: Final = 0.25
_IDLE_S: Final = 5.0
"""After this time a stream sends an empty line, which shows whether its reader is still there."""
_LARGEST_STEP: Final = 16 * 1024
_BODY_S: Final = 32.0
_SHUTDOWN_S: Final = 0.1
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_REFUSED: Final = "forbidden: open the address that 'simkubelet up --web' printed\n"
_LOG: Final = logging.getLogger(__name__)


class LivePage:
    """Serves the page on loopback; its `take` follows the record of the cluster.

    Args:
        name: Of what the timeline is of.
        html: The page.
        perform: Does the steps that its buttons send.
        shown: What it shows of nodes and devices.
    """

    def __init__(self, name: str, html: str, perform: Perform, shown: Shown | None = None) -> None:
        self._name = name
        self._html = html
        self._perform = perform
        self._shown = shown or Shown()
        self._token = secrets.token_urlsafe(32)
        self._history = History(None, MOST_MESSAGES)
        self._event = b""
        self._streams: set[asyncio.Event] = set()
        self._places: tuple[str, ...] = ()

    def take(self, entry: Entry) -> None:
        """Show what was recorded."""
        self._history.take(entry)
        self._event = b""
        for changed in self._streams:
            changed.set()

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[str]:
        """Serve until the end of the block, and give the page's address.

        Args:
            port: Where to listen; a free one where it is 0.

        Raises:
            InputError: The port cannot be used.
        """
        listener = HttpListener(self._answer, largest_body=_LARGEST_STEP, shutdown_s=_SHUTDOWN_S, log=_LOG)
        try:
            listens_at = await listener.start(port)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise InputError(f"--web {port}: cannot be used: {reason}; choose another port") from None
        try:
            self._places = (f"{HOST}:{listens_at}", f"localhost:{listens_at}")
            yield f"http://{self._places[0]}/{self._token}/"
        finally:
            await listener.stop()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token, _, path = request.path.removeprefix("/").partition("/")
        # Both are looked at in any case: an answer tells nobody which of the two was wrong.
        has_token = hmac.compare_digest(token.encode(errors="surrogateescape"), self._token.encode())
        if not (self._is_from_here(request) & has_token):
            return web.Response(text=_REFUSED, status=403, headers=_HEADERS)
        match request.method, path:
            case "GET", "":
                return web.Response(text=self._html, content_type="text/html", headers=_HEADERS)
            case "GET", "events":
                return await self._stream(request)
            case "POST", "steps":
                return await self._step(request)
        return web.Response(text="404 page not found\n", status=404, headers=_HEADERS)

    def _is_from_here(self, request: web.Request) -> bool:
        """Whether a request names this server, and if it has an Origin, the page of this server."""
        hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
        return len(hosts) == 1 and {*hosts, *(one.removeprefix("http://") for one in origins)} <= {*self._places}

    async def _step(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return web.Response(text="expected application/json\n", status=415, headers=_HEADERS)
        try:
            async with asyncio.timeout(_BODY_S):
                body = await request.read()
            text, status = await self._perform(load_json(body)), 200
        except web.HTTPRequestEntityTooLarge:
            text, status = f"a step has at most {_LARGEST_STEP} bytes", 413
        except TimeoutError:
            text, status = f"expected a step within {_BODY_S:.0f} s", 408
        except ValueError:
            text, status = "expected a step as JSON", 400
        except SimkubeletError as error:
            status = {InputError: 400, PluginError: 409}.get(type(error), 500)
            text = str(error)
        return web.Response(text=f"{visible(text)}\n", status=status, headers=_HEADERS)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if len(self._streams) >= MOST_STREAMS:
            return web.Response(text=f"{MOST_STREAMS} pages are open already\n", status=503, headers=_HEADERS)
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        changed = asyncio.Event()
        changed.set()
        self._streams.add(changed)
        try:
            await response.prepare(request)
            # A connection that is lost ends the stream at the next write.
            with suppress(ConnectionError):
                while True:
                    await response.write(await self._next(changed))
        finally:
            self._streams.discard(changed)
        return response

    async def _next(self, changed: asyncio.Event) -> bytes:
        """Wait for a change, but not for long; return what a stream sends."""
        try:
            async with asyncio.timeout(_IDLE_S):
                await changed.wait()
        except TimeoutError:
            return b":\n\n"
        # What happens at once is sent at once.
        await asyncio.sleep(_PAUSE_S)
        changed.clear()
        self._event = self._event or b"data: %s\n\n" % json.dumps(self._data(), separators=(",", ":")).encode()
        return self._event

    def _data(self) -> dict[str, Any]:
        timeline = of(self._name, self._history).grouped(self._shown.device_name)
        return {**timeline, "nodes": self._shown.cards(self._history.lasting())}
