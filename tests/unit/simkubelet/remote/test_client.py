from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from simkubelet.remote import ApiClient, ApiError, ServerAccess, read_kubeconfig
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
