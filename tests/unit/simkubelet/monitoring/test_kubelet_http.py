from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest

from simkubelet._internal import http_listener
from simkubelet.model.version import version
from simkubelet.monitoring.exposition import content_type
from simkubelet.monitoring.kubelet_http import Check, KubeletHttp, answer_of_all, checks_of
from simkubelet.registration.registration import RegistrationHandler, RegistrationServer
from tests.support.patience import LIMIT_S


def well() -> None:
    return None


def ill() -> str:
    return "sync Loop took longer than expected"


def checks(minor: str = "1.34", sync_loop: Check = well) -> dict[str, Check]:
    return checks_of(version(minor), sync_loop=sync_loop, device_plugin=well)


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    """Gives a function that starts a server with some checks."""
    async with AsyncExitStack() as stack:

        async def start(sync_loop: Check = well) -> KubeletHttp:
            metrics_type = content_type(version("1.34"))
            server = KubeletHttp(checks(sync_loop=sync_loop), lambda: "kubelet_running_pods 0\n", metrics_type)
            await server.start()
            stack.push_async_callback(server.stop)
            return server

        yield start


@pytest.fixture
async def serve(start) -> AsyncIterator[Callable[..., Any]]:
    """Serves and gives a function that asks for a path: (status, content type, text)."""
    sniffing: list[str | None] = []
    async with aiohttp.ClientSession() as session:

        async def serve(sync_loop: Check = well) -> Callable[..., Any]:
            server = await start(sync_loop)

            async def ask(path: str) -> tuple[int, str, str]:
                async with session.get(f"http://127.0.0.1:{server.port}{path}") as response:
                    sniffing.append(response.headers.get("X-Content-Type-Options"))
                    return response.status, response.headers["Content-Type"], await response.text()

            return ask

        serve.sniffing = sniffing
        yield serve


async def test_healthy_kubelet_says_ok(serve):
    ask = await serve()

    assert await ask("/healthz") == (200, "text/plain; charset=utf-8", "ok")
    assert (await ask("/healthz/ping"))[2] == "ok"
    assert (await ask("/healthz/device-plugin"))[2] == "ok"
    assert (await ask("/healthz?verbose"))[2] == (
        "[+]ping ok\n[+]log ok\n[+]syncloop ok\n[+]device-plugin ok\nhealthz check passed\n"
    )


async def test_failed_check_is_named_with_its_reason_on_request(serve):
    ask = await serve(sync_loop=ill)

    status, _, text = await ask("/healthz")

    assert (status, text) == (
        500,
        "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\n[+]device-plugin ok\nhealthz check failed\n",
    )
    assert (await ask("/healthz/syncloop"))[::2] == (
        500,
        "internal server error: sync Loop took longer than expected\n",
    )
    assert (await ask("/healthz?exclude=syncloop"))[::2] == (200, "ok")


async def test_metrics_are_served_as_text(serve):
    ask = await serve()

    metrics_type = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
    assert await ask("/metrics") == (200, metrics_type, "kubelet_running_pods 0\n")


@pytest.mark.parametrize("path", ["/", "/readyz", "/healthz/none"])
async def test_other_paths_are_not_found(serve, path: str):
    ask = await serve()

    assert (await ask(path))[::2] == (404, "404 page not found\n")


async def test_headers_about_sniffing_are_those_of_the_kubelet(serve):
    ask = await serve()

    for path in ("/healthz", "/healthz?verbose", "/none", "/healthz/ping", "/metrics"):
        await ask(path)

    assert serve.sniffing == ["nosniff", "nosniff", "nosniff", None, None]


@pytest.mark.parametrize(
    ("minor", "expected"),
    [("1.30", "utf-8"), ("1.31", "utf-8; escaping=values"), ("1.33", "utf-8; escaping=underscores")],
)
def test_metrics_say_how_names_are_escaped_from_1_31_on(minor: str, expected: str):
    assert content_type(version(minor)) == f"text/plain; version=0.0.4; charset={expected}"


async def test_connection_without_a_whole_head_is_closed(start, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_listener, "_HEAD_S", 0.05)
    server = await start()
    for sent in (b"", b"GET /metrics HTTP/1.1\r\nHost: loc"):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)

        async with asyncio.timeout(LIMIT_S):
            assert await reader.read() == b""
        writer.close()


def test_device_plugin_check_came_with_1_32():
    assert list(checks("1.31")) == ["ping", "log", "syncloop"]
    assert list(checks("1.32")) == ["ping", "log", "syncloop", "device-plugin"]


LOST = "device plugin registration gRPC server failed and no device plugins can register"


@pytest.mark.parametrize(
    ("release", "begin", "end"),
    [
        ("1.32.10", LOST, "register"),
        ("1.32.11", f"device registration error: {LOST}: ", "use of closed network connection"),
        ("1.33.6", LOST, "register"),
        ("1.34.2", LOST, "register"),
        ("1.34.3", f"device registration error: {LOST}: ", "use of closed network connection"),
        ("1.35.0", f"device registration error: {LOST}: ", "use of closed network connection"),
    ],
)
async def test_lost_registration_socket_is_reported_until_the_kubelet_stops(
    short_folder: Path, release: str, begin: str, end: str
):
    async with asyncio.TaskGroup() as tasks:
        server = RegistrationServer(short_folder, Mock(spec=RegistrationHandler), tasks, version(release))
        server.start()
        assert server.failure is None

        await server.fail()

        assert server.failure is not None
        assert server.failure.startswith(begin)
        assert server.failure.endswith(end)
        await server.stop()
        assert server.failure is None


def test_exclusion_of_unknown_checks_is_warned_of():
    answer = answer_of_all(checks(), excluded=["ping", "b", "a"], is_verbose=True)

    assert answer.text == (
        "[+]ping excluded: ok\n[+]log ok\n[+]syncloop ok\n[+]device-plugin ok\n"
        'warn: some health checks cannot be excluded: no matches for "a","b"\n'
        "healthz check passed\n"
    )
