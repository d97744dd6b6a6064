from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from simkubelet.remote import ApiClient, ApiError, ServerAccess, client, read_kubeconfig
from tests.support.patience import LIMIT_S
from tests.support.remote import Joined, Server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_refusal_has_the_reason_of_the_server(joined: Joined) -> None:
    with pytest.raises(ApiError, match='configmaps "none" not found') as refused:
        await joined.client.get(f"{CONFIG_MAPS}/none")

    assert (refused.value.status, refused.value.reason, refused.value.may_pass) == (404, "NotFound", False)


async def test_missing_object_is_none(joined: Joined) -> None:
    assert await joined.client.find(f"{CONFIG_MAPS}/none") is None


async def test_watch_takes_objects_of_any_size(joined: Joined) -> None:
    await joined.create("configmaps", {"metadata": {"name": "large"}, "data": {"key": "x" * 500_000}})

    async with aclosing(joined.client.watch(CONFIG_MAPS, {}, LIMIT_S)) as events:
        sizes = {}
        async for event in events:
            sizes[event["object"]["metadata"]["name"]] = len(event["object"]["data"].get("key", ""))
            if "large" in sizes:
                break

    assert sizes["large"] == 500_000


async def test_server_that_comes_and_goes_is_noted_once_each(server: Server) -> None:
    noted: list[bool] = []
    async with ApiClient(server.access, on_change=lambda reason: noted.append(reason is None)) as client:
        await client.get("/version")
        await server.api.stop()
        for _ in range(2):
            with pytest.raises(ApiError) as lost:
                await client.get("/version")
            assert (lost.value.status, lost.value.may_pass) == (0, True)
        await server.api.start()
        await client.get("/version")

    assert noted == [False, True]


@pytest.mark.parametrize("token", [b"a\nb", b"\x1b[2J", b"a\x7f"])
async def test_token_that_no_header_can_have_is_refused(tmp_path: Path, token: bytes) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: one\ncontexts: [{name: one, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {tokenFile: token}}]\n"
    )
    (tmp_path / "token").write_bytes(token)

    async with ApiClient(read_kubeconfig(config)) as client:
        with pytest.raises(ApiError, match="the user's token has a control character") as refused:
            await client.call("GET", "/api")
    assert refused.value.status == 401


async def test_token_file_is_read_for_each_call(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {tokenFile: token}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
    )
    access: ServerAccess = read_kubeconfig(tmp_path / "config")
    async with ApiClient(access) as client:
        with pytest.raises(ApiError, match="token"):
            await client.get("/version")
        (tmp_path / "token").write_text("secret\n")
        with pytest.raises(ApiError, match="connect"):
            await client.get("/version")


@asynccontextmanager
async def answered(handle: Callable[[web.Request], object]) -> AsyncIterator[ApiClient]:
    """A client of a server that answers everything in one way."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)  # type: ignore[arg-type]
    async with TestServer(app) as server:
        # Cookies of addresses are never kept.
        url = server.make_url("").with_host("localhost")
        async with ApiClient(ServerAccess(str(url).rstrip("/"))) as made:
            yield made


@pytest.mark.parametrize("status", [200, 500])
async def test_answer_without_an_end_is_given_up(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LARGEST_ANSWER", 1 << 20)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b" " * 65_536)

    async with answered(endless) as asked:
        with pytest.raises(ApiError, match="an answer is larger than 1 MiB") as refused:
            await asked.get("/api/v1/pods")

    assert refused.value.may_pass


async def test_answer_that_is_large_when_inflated_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LARGEST_ANSWER", 1 << 20)

    async def deflated(request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b" " * (2 << 20)), headers={"Content-Encoding": "gzip"})

    async with answered(deflated) as asked:
        with pytest.raises(ApiError, match="an answer is larger than 1 MiB"):
            await asked.get("/api/v1/pods")


async def test_event_without_an_end_ends_its_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LARGEST_EVENT", 1 << 20)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "BOOKMARK"}\n')
        while True:
            await response.write(b" " * 65_536)

    async with answered(endless) as asked, aclosing(asked.watch("/api/v1/pods", {}, LIMIT_S)) as watch:
        assert await anext(watch) == {"type": "BOOKMARK"}
        with pytest.raises(ApiError, match="an event of a watch is larger than 1 MiB"):
            await anext(watch)


@pytest.mark.parametrize("text", ["5", "null", "[]", '"text"'])
async def test_answer_that_is_no_object_is_as_none(text: str) -> None:
    async def odd(request: web.Request) -> web.Response:
        return web.Response(text=text)

    async with answered(odd) as asked:
        with pytest.raises(ApiError, match="an answer is no JSON object"):
            await asked.get("/api/v1/pods")


async def test_pause_that_a_server_asks_for_is_bounded() -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "4000000000000000000"})

    async with answered(busy) as asked:
        with pytest.raises(ApiError) as refused:
            await asked.get("/api/v1/pods")

    assert refused.value.retry_after_s == 300


async def test_cookies_of_a_server_are_not_kept() -> None:
    cookies: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        cookies.append(request.headers.get("Cookie"))
        return web.json_response({}, headers={"Set-Cookie": f"{len(cookies)}=x"})

    async with answered(answer) as asked:
        for _ in range(2):
            await asked.get("/version")

    assert cookies == [None, None]


async def test_refusal_without_a_word_has_its_status() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=599, reason="")

    async with answered(answer) as asked:
        with pytest.raises(ApiError, match=r"^status 599$"):
            await asked.get("/version")
