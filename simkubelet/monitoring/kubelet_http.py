"""The kubelet's HTTP server for monitoring agents: /healthz with its checks, and /metrics.

It listens on the loopback interface, without TLS and without authentication, and only if the settings ask for it. A
connection has 32 s for the head of its first request; a kubelet's own has four hours. The HTTP library is loaded by the
first server that starts, so nodes without one do not load it.

Source: k8s.io/apiserver, pkg/server/healthz/healthz.go (v0.34.4); kubelet/server/server.go,
``ListenAndServeKubeletServer`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
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
_LARGEST_BODY: Final = 0
"""No request needs one."""
_SHUTDOWN_S: Final = 2.0


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

    from .._internal.http_listener import HttpListener


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
        self._listener: HttpListener | None = None
        self.port: int | None = None
        """The port, once it is served on the loopback interface."""

    async def start(self) -> None:
        """Serve on a free port of the loopback interface.

        Raises:
            HostError: it cannot listen there.
        """
        from .._internal.http_listener import HOST, HttpListener

        listener = HttpListener(self._answer, largest_body=_LARGEST_BODY, shutdown_s=_SHUTDOWN_S, log=_log)
        try:
            self.port = await listener.start(0)
        except OSError as error:
            raise HostError(f"{HOST}: cannot listen: {error.strerror or error}") from None
        self._listener = listener
        _log.info("Serving /healthz and /metrics on %s:%s", HOST, self.port)

    async def stop(self) -> None:
        """Stop listening; may be called twice and from any state."""
        listener, self._listener, self.port = self._listener, None, None
        if listener is not None:
            await listener.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        from aiohttp import web

        # Any method will do, as with the kubelet.
        path, query = request.path, request.query
        if path == "/metrics":
            return web.Response(body=self._metrics().encode(), headers={"Content-Type": self._metrics_type})
        if path == "/healthz":
            excluded = query.getall("exclude", [])
            return _response(answer_of_all(self._checks, excluded=excluded, is_verbose="verbose" in query))
        check = self._checks.get(path.removeprefix("/healthz/")) if path.startswith("/healthz/") else None
        return _response(Answer(404, "404 page not found\n") if check is None else answer_of_one(check))


def _response(answer: Answer) -> web.Response:
    from aiohttp import web

    headers = {"Content-Type": "text/plain; charset=utf-8"}
    if answer.forbids_sniffing:
        headers["X-Content-Type-Options"] = "nosniff"
    return web.Response(status=answer.status, body=answer.text.encode(), headers=headers)
