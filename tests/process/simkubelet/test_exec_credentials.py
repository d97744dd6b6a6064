"""A program that gives credentials for an API server: when it is run, what it is told, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkubelet.model.errors import InputError
from simkubelet.remote import ApiClient, ApiError, ServerAccess, read_kubeconfig
from tests.support.patience import LIMIT_S, until

V1 = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, script: str, **user_exec: Any) -> Path:
    """Write a kubeconfig whose user has a shell script for credentials, which knows how often it was run."""
    program = folder / "credentials"
    program.write_text(f'#!/bin/sh\ncd "$(dirname "$0")"; echo run >> runs; n=$(wc -l < runs)\n{script}\n')
    program.chmod(0o755)
    config = {"apiVersion": V1, "command": "./credentials", "interactiveMode": "Never", **user_exec}
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": config}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def gives(status: str) -> str:
    return f"""echo "{{\\"apiVersion\\": \\"{V1}\\", \\"kind\\": \\"ExecCredential\\", \\"status\\": {{{status}}}}}" """


TOKEN = gives(r"\"token\": \"token-$n\"")


async def header(access: ServerAccess) -> str:
    assert access.credentials is not None
    return await access.credentials.authorization()


async def test_program_is_run_once_for_many_calls(tmp_path: Path) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, TOKEN))

    assert [await header(access) for _ in range(3)] == ["Bearer token-1"] * 3


async def test_program_is_run_again_once_the_token_has_expired(tmp_path: Path) -> None:
    expired = gives(r"\"token\": \"token-$n\", \"expirationTimestamp\": \"2020-01-01T00:00:00Z\"")
    access = read_kubeconfig(kubeconfig(tmp_path, expired))

    assert [await header(access) for _ in range(2)] == ["Bearer token-1", "Bearer token-2"]


async def test_program_is_run_again_after_a_refusal_of_the_latest_token(tmp_path: Path) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, TOKEN))
    assert access.credentials is not None

    refused = await header(access)
    access.credentials.forget(refused)
    assert await header(access) == "Bearer token-2"
    access.credentials.forget(refused)
    assert await header(access) == "Bearer token-2"


async def test_program_is_told_of_the_cluster_where_it_asks_for_that(tmp_path: Path) -> None:
    script = f'echo "$KUBERNETES_EXEC_INFO" > info; echo "$REGION $1" > given\n{TOKEN}'
    given = {"provideClusterInfo": True, "args": ["login"], "env": [{"name": "REGION", "value": "here"}]}

    await header(read_kubeconfig(kubeconfig(tmp_path, script, **given)))

    spec = {"interactive": False, "cluster": {"server": "http://127.0.0.1:1"}}
    info = {"kind": "ExecCredential", "apiVersion": V1, "spec": spec}
    assert json.loads((tmp_path / "info").read_text()) == info
    assert (tmp_path / "given").read_text() == "here login\n"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("echo no account >&2; exit 7", "ended with status 7: no account", id="failure"),
        pytest.param("echo hello", "wrote no ExecCredential", id="no JSON"),
        pytest.param(TOKEN.replace("/v1", "/v1beta1"), "it wrote client.authentication.k8s.io/v1beta1", id="version"),
        pytest.param(gives(""), "neither a token nor a certificate", id="nothing"),
        pytest.param(gives(r"\"clientKeyData\": \"x\""), "only a certificate or a key", id="half a pair"),
        pytest.param(gives(r"\"token\": \"t\", \"expirationTimestamp\": \"2020-01-01\""), "no ExecCred", id="no zone"),
        pytest.param("while :; do echo yes; done", "it writes more than 1048576 bytes", id="endless"),
        pytest.param("while :; do echo yes; done >&2 & sleep 1; kill $!; exit 7", "status 7: yes", id="endless error"),
    ],
)
async def test_program_without_credentials_is_one_clear_line(tmp_path: Path, script: str, words: str) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, script))

    async with ApiClient(access) as client:
        with pytest.raises(ApiError, match=words) as error:
            await client.get("/version")
    assert error.value.status == 401
    assert "\n" not in str(error.value)


async def test_program_that_cannot_be_run_is_one_clear_line(tmp_path: Path) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, TOKEN))
    (tmp_path / "credentials").write_text("no program")

    async with ApiClient(access) as client:
        with pytest.raises(ApiError, match=r"credentials cannot be run: Exec format error$") as error:
            await client.get("/version")
    assert error.value.status == 401


async def test_program_of_a_kubeconfig_in_the_working_directory_is_not_looked_up_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, token in ((own, "own"), (other, "other")):
        folder.mkdir()
        kubeconfig(folder, gives(rf"\"token\": \"{token}\""))
    monkeypatch.chdir(own)
    monkeypatch.setenv("PATH", f"{other}:{os.environ['PATH']}")

    assert await header(read_kubeconfig(Path("config"))) == "Bearer own"


async def test_call_that_is_given_up_does_not_wait_for_children_of_the_program(tmp_path: Path) -> None:
    access = read_kubeconfig(kubeconfig(tmp_path, "sleep 300 & echo $$ $! > pids; wait"))

    call = asyncio.create_task(header(access))
    pids = tmp_path / "pids"
    await until(lambda: pids.exists() and pids.read_text())
    shell, child = map(int, pids.read_text().split())
    call.cancel()
    await asyncio.wait([call], timeout=LIMIT_S)
    os.kill(child, signal.SIGKILL)

    assert call.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(shell, 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(
            {"command": "no-such-program", "installHint": "install\nit"}, "'no-such-program'; install it", id="missing"
        ),
        pytest.param(
            {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1' is not supported", id="version"
        ),
        pytest.param({"interactiveMode": "Always"}, "needs a terminal", id="terminal"),
        pytest.param({"interactiveMode": None}, "interactiveMode '' is none", id="no mode"),
    ],
)
def test_unusable_program_is_found_when_the_kubeconfig_is_read(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        read_kubeconfig(kubeconfig(tmp_path, TOKEN, **given))
    assert "\n" not in str(error.value)


def test_token_of_the_kubeconfig_takes_the_place_of_the_program(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, TOKEN)
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"]["token"] = "own"  # noqa: S105
    path.write_text(yaml.safe_dump(document))

    access = read_kubeconfig(path)

    assert (access.authorization, access.credentials) == ("Bearer own", None)
