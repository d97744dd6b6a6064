"""Kubeconfigs, service accounts and calls: fed in are files and a real API server, observed is who comes in."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plugin import apiserver
from plugin.apiserver import AccessError, ApiClient, ApiError, ServerAccess, access_from_environment, unverified
from simkubelet.cluster import Objects, WallTime
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from tests.support.gpu_memory_world import NoLogs


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """With TLS, and a token that it asks for."""
    objects = Objects(WallTime(ManualClock()))
    one = ApiServer(objects, all_strategies(objects), logs=NoLogs())
    await one.start()
    yield one
    await one.stop()


def written(folder: Path, config: Any) -> dict[str, str]:
    path = folder / "config"
    path.write_text(json.dumps(config))
    return {"KUBECONFIG": str(path)}


async def nodes(found: ServerAccess) -> int:
    async with ApiClient(found) as client:
        return len((await client.get("/api/v1/nodes"))["items"])


async def test_a_kubeconfig_lets_in(server: ApiServer, tmp_path: Path) -> None:
    assert await nodes(access_from_environment(written(tmp_path, server.kubeconfig()))) == 0


async def test_files_beside_a_kubeconfig_are_read(server: ApiServer, tmp_path: Path) -> None:
    config = server.kubeconfig()
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    (tmp_path / "ca").write_bytes(base64.b64decode(cluster.pop("certificate-authority-data")))
    (tmp_path / "token").write_text(user.pop("token") + "\n")
    cluster["certificate-authority"], user["tokenFile"] = "ca", "token"

    assert await nodes(access_from_environment(written(tmp_path, config))) == 0


async def test_a_pods_service_account_lets_in(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_text(server.authority)
    (tmp_path / "token").write_text(server.kubeconfig()["users"][0]["user"]["token"])
    monkeypatch.setattr(apiserver, "SERVICE_ACCOUNT", tmp_path)
    host, _, port = server.url.removeprefix("https://").partition(":")

    found = access_from_environment({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})

    assert await nodes(found) == 0


async def test_a_certificate_of_nobody_knows_whom_is_refused_unless_it_does_not_matter(
    server: ApiServer, tmp_path: Path
) -> None:
    config = server.kubeconfig()
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    with pytest.raises(ApiError) as raised:
        await nodes(access_from_environment(written(tmp_path, config)))
    assert raised.value.status is None

    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    assert await nodes(access_from_environment(written(tmp_path, config))) == 0
    assert await nodes(unverified(f"{server.url}/", config["users"][0]["user"]["token"])) == 0


async def test_without_a_token_nobody_comes_in(server: ApiServer) -> None:
    with pytest.raises(ApiError) as raised:
        await nodes(unverified(server.url, ""))
    assert raised.value.status == 403


async def test_errors_carry_the_servers_words(server: ApiServer, tmp_path: Path) -> None:
    async with ApiClient(access_from_environment(written(tmp_path, server.kubeconfig()))) as client:
        with pytest.raises(ApiError, match=r'^nodes "n" not found$') as raised:
            await client.get("/api/v1/nodes/n")
    assert raised.value.status == 404


async def test_a_server_that_is_not_there_is_an_error_too() -> None:
    with pytest.raises(ApiError) as raised:
        await nodes(ServerAccess("http://127.0.0.1:1"))
    assert raised.value.status is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("{", "no kubeconfig", id="no YAML"),
        pytest.param("[]", "invalid configuration", id="a list"),
        pytest.param("{}", "invalid configuration: no 'current-context'", id="empty"),
        pytest.param(
            '{"current-context": "c", "contexts": []}', "invalid configuration: no \"context 'c'\"", id="no context"
        ),
        pytest.param(
            '{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}], '
            '"clusters": [{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "none"}}]}',
            "invalid configuration: .*No such file",
            id="no file",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)

    with pytest.raises(AccessError, match=text) as raised:
        access_from_environment({"KUBECONFIG": str(path)})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        pytest.param({}, "^unable to load in-cluster configuration, ", id="nothing"),
        pytest.param({"KUBECONFIG": "/nonexistent"}, "^stat /nonexistent: No such file", id="no file"),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"},
            "^open /nonexistent/ca.crt",
            id="no account",
        ),
    ],
)
def test_no_way_to_the_server(environment: dict[str, str], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apiserver, "SERVICE_ACCOUNT", Path("/nonexistent"))

    with pytest.raises(AccessError, match=text):
        access_from_environment(environment)
