"""The kubelet's HTTP server, as far as a monitoring agent asks it about devices: /healthz and /metrics.

It stands on the loopback interface or on a Unix socket, without TLS and without authentication, and only where it was
asked for. The HTTP library is loaded by the first server that starts: nodes without one do not pay for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..model.errors import HostError
from .health import Answer, Check, answer_of_all, answer_of_one

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["KubeletHttp"]

_log = logging.getLogger(__name__)
_LOOPBACK: Final = "127.0.0.1"


class KubeletHttp:
    """Serves from `start` to `stop`.

    Args:
        checks: name -> check, see `health.checks_of`.
        metrics: gives the text of /metrics, see `exposition.exposition`.
        metrics_type: its content type.
    """

    def __init__(self, checks: Mapping[str, Check], metrics: Callable[[], str], metrics_type: str) -> None:
        self._checks = checks
        self._metrics = metrics
        self._metrics_type = metrics_type
        self._runner: web.AppRunner | None = None
        self.port: int | None = None
        """The port, once it is served on the loopback interface."""

    async def start(self, socket: Path | None = None) -> None:
        """Serve on a Unix socket, or on a free port of the loopback interface.

        Raises:
            HostError: it cannot listen there.
        """
        from aiohttp import web

        runner = web.AppRunner(self._application(), access_log=None, handle_signals=False)
        await runner.setup()
        site = web.TCPSite(runner, _LOOPBACK, 0) if socket is None else web.UnixSite(runner, socket)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise HostError(f"{socket or _LOOPBACK}: cannot listen: {error.strerror or error}") from None
        self._runner = runner
        self.port = runner.addresses[0][1] if socket is None else None
        _log.info("Serving /healthz and /metrics on %s", socket or f"{_LOOPBACK}:{self.port}")

    async def stop(self) -> None:
        """Stop listening; may be called twice and from any state."""
        runner, self._runner, self.port = self._runner, None, None
        if runner is not None:
            await runner.cleanup()

    def _application(self) -> web.Application:
        from aiohttp import web

        application = web.Application()
        # Any method will do, as with the kubelet.
        application.router.add_route("*", "/healthz", self._healthz)
        for name, check in self._checks.items():
            application.router.add_route("*", f"/healthz/{name}", _handler_of(check))
        application.router.add_route("*", "/metrics", self._exposition)
        application.router.add_route("*", "/{path:.*}", _not_found)
        return application

    async def _healthz(self, request: web.Request) -> web.Response:
        query = request.query
        excluded = query.getall("exclude", [])
        return _response(answer_of_all(self._checks, excluded=excluded, is_verbose="verbose" in query))

    async def _exposition(self, request: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(body=self._metrics().encode(), headers={"Content-Type": self._metrics_type})


def _handler_of(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return _response(answer_of_one(check))

    return handle


async def _not_found(request: web.Request) -> web.Response:
    return _response(Answer(404, "404 page not found\n"))


def _response(answer: Answer) -> web.Response:
    from aiohttp import web

    headers = {"Content-Type": "text/plain; charset=utf-8"}
    if answer.forbids_sniffing:
        headers["X-Content-Type-Options"] = "nosniff"
    return web.Response(status=answer.status, body=answer.text.encode(), headers=headers)
