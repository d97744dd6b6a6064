"""The kubelet's HTTP server for monitoring agents: /healthz with its checks, and /metrics.

It listens on the loopback interface or on a Unix socket, without TLS and without authentication, and only if the
settings ask for it. The HTTP library is loaded by the first server that starts, so nodes without one do not load it.

Source: k8s.io/apiserver, pkg/server/healthz/healthz.go (v0.34.4).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..model.errors import HostError
from ..model.version import Difference, Version

__all__ = ["HAS_DEVICE_PLUGIN_CHECK", "Answer", "Check", "answer_of_all", "answer_of_one", "checks_of"]

HAS_DEVICE_PLUGIN_CHECK: Final = Difference(
    "/healthz has the check ``device-plugin``",
    {"1.26": False, "1.32": True},
    "kubelet/server/server.go, ``InstallAuthNotRequiredHandlers``; devicemanager/manager.go, ``GetHealthChecker`` "
    "(kubernetes v1.31.14, v1.32.13)",
)

Check = Callable[[], str | None]
"""Why something is not healthy, None when it is."""
__all__ = ["KubeletHttp"]
_log = logging.getLogger(__name__)
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and body; `forbids_sniffing` stands for the header ``X-Content-Type-Options: nosniff``."""

    status: int
    text: str
    forbids_sniffing: bool = True


def checks_of(version: Version, *, sync_loop: Check, device_plugin: Check) -> dict[str, Check]:
    """The checks of a kubelet, in its order.

    Args:
        version: the minor.
        sync_loop: whether pods are looked at.
        device_plugin: whether plugins can register.

    Source: kubelet/server/server.go, ``InstallAuthNotRequiredHandlers`` (kubernetes v1.34.4).
    """
    checks: dict[str, Check] = {"ping": _well, "log": _well, "syncloop": sync_loop}
    return {**checks, "device-plugin": device_plugin} if HAS_DEVICE_PLUGIN_CHECK.at(version) else checks


def answer_of_all(checks: Mapping[str, Check], *, excluded: Collection[str] = (), is_verbose: bool = False) -> Answer:
    """What /healthz answers; a failed check is named without its reason."""
    lines: list[str] = []
    has_failed = False
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif check() is None:
            lines.append(f"[+]{name} ok")
        else:
            has_failed = True
            lines.append(f"[-]{name} failed: reason withheld")
    if unknown := sorted(set(excluded) - checks.keys()):
        names = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if has_failed:
        return Answer(500, "\n".join([*lines, "healthz check failed"]) + "\n")
    return Answer(200, "\n".join([*lines, "healthz check passed"]) + "\n" if is_verbose else "ok")


def answer_of_one(check: Check) -> Answer:
    """What /healthz/<name> answers, reason included."""
    reason = check()
    if reason is None:
        return Answer(200, "ok", forbids_sniffing=False)
    return Answer(500, f"internal server error: {reason}\n")


def _well() -> None:
    """The check of what cannot fail here."""


if TYPE_CHECKING:
    from aiohttp import web


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

        runner = web.AppRunner(self._application(), access_log=None, handle_signals=False, auto_decompress=False)
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
