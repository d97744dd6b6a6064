"""The control socket of a cluster: what another terminal asks is done, and refused in one line."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scenarios.up import running
from scenarios.up.control_socket import Perform, ask, serving
from scenarios.up.running import About, Server
from simkubelet.model.errors import HostError, InputError

ABOUT = About(Server(""), ())


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.delenv("KUBECONFIG", raising=False)
        yield


async def perform(step: Any) -> str:
    [(verb, given)] = step.items()
    if given["node"] == "lost":
        raise InputError("no node 'lost'")
    if given["node"] == "burning":
        raise HostError("no disk left")
    return f"{verb} {given['node']}"


@asynccontextmanager
async def taking_commands(folder: Path, perform: Perform, about: About = ABOUT) -> AsyncIterator[None]:
    async with serving(running.control_socket(folder), perform):
        running.introduce(folder, about)
        yield


def stop(node: str) -> dict[str, object]:
    return {"stopKubelet": {"node": node}}


async def test_request_is_done_and_reported() -> None:
    with running.claimed("one") as folder:
        async with taking_commands(folder, perform):
            assert await asyncio.to_thread(ask, None, {"rebootNode": {"node": "node-1"}}) == "rebootNode node-1"


@pytest.mark.parametrize(("node", "kind"), [("lost", InputError), ("burning", HostError)])
async def test_refusal_keeps_its_kind(node: str, kind: type[Exception]) -> None:
    with running.claimed("one") as folder:
        async with taking_commands(folder, perform):
            with pytest.raises(kind, match=r"no node 'lost'|no disk left"):
                await asyncio.to_thread(ask, "one", stop(node))


def test_end_of_a_cluster_that_answers_prints_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def perform(step: object) -> str:
        begun.set()
        await asyncio.get_running_loop().create_future()
        return ""

    async def ended() -> None:
        with running.claimed("one") as folder:
            async with taking_commands(folder, perform):
                _, writer = await asyncio.open_unix_connection(running.control_socket(folder))
                writer.write(b"{}\n")
                await begun.wait()
        writer.close()

    begun = asyncio.Event()
    asyncio.run(ended())

    assert caplog.text == ""


async def test_two_clusters_need_a_name() -> None:
    with running.claimed("one") as one, running.claimed("two") as two:
        async with taking_commands(one, perform), taking_commands(two, perform):
            with pytest.raises(InputError, match="2 clusters run: choose one with KUBECONFIG or --cluster: one, two"):
                await asyncio.to_thread(ask, None, stop("node-1"))
            assert await asyncio.to_thread(ask, "two", stop("node-1")) == "stopKubelet node-1"


@asynccontextmanager
async def cluster(name: str, port: int, *nodes: str, authority: str = "") -> AsyncIterator[None]:
    """A cluster, or joined nodes, at the API server of a port; it answers with its name."""

    async def say(step: object) -> str:
        return name

    with running.claimed(name) as folder:
        async with taking_commands(folder, say, About(Server(f"https://127.0.0.1:{port}", authority), nodes)):
            yield


async def asked(monkeypatch: pytest.MonkeyPatch, kubeconfig: object, name: str | None = None, node: str = "a") -> str:
    """The cluster that is meant, or why none is."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    try:
        return await asyncio.to_thread(ask, name, stop(node))
    except InputError as error:
        return str(error)


def kubeconfig(file: Path, port: int, name: str = "one", **cluster: str) -> Path:
    file.write_text(
        json.dumps(
            {
                "clusters": [{"name": name, "cluster": {"server": f"https://127.0.0.1:{port}", **cluster}}],
                "contexts": [{"name": name, "context": {"cluster": name}}],
                "current-context": name,
            }
        )
    )
    return file


async def test_kubeconfig_leads_to_the_cluster_of_its_server_whatever_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster("one", 1), cluster("two", 2):
        assert await asked(monkeypatch, kubeconfig(tmp_path / "2", 2, "one")) == "two"
        assert await asked(monkeypatch, kubeconfig(tmp_path / "1", 1, "mine")) == "one"
        assert await asked(monkeypatch, tmp_path / "2", "one") == "one"


async def test_kubeconfig_of_no_running_cluster_is_refused_though_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kubeconfig(tmp_path / "file", 3)
    refused = f"KUBECONFIG: {file} names https://127.0.0.1:3, which no running cluster has; "

    assert await asked(monkeypatch, file) == "no cluster runs; start one with 'simkubelet up' in another terminal"
    async with cluster("one", 1):
        assert await asked(monkeypatch, file) == f"{refused}choose one with --cluster: one"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        pytest.param(None, "'FILE' does not exist; unset it, name another file, or choose one", id="missing"),
        pytest.param("a: [", "'FILE' is no kubeconfig; name another file, or choose one", id="no YAML"),
        pytest.param("- a", "'FILE' is no kubeconfig; name another file, or choose one", id="a list"),
        pytest.param("\x00", "'FILE' is no kubeconfig; name another file, or choose one", id="bytes"),
        pytest.param("contexts: [{name: a}]", "'FILE' is no kubeconfig; name another file, or choose", id="half"),
        pytest.param("", "FILE has no current-context; name another file, or choose one", id="empty"),
        pytest.param("current-context: a", "FILE has no cluster of the context 'a'; name another", id="no context"),
        pytest.param(
            "{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters: [{name: b, cluster: {}}]}",
            "FILE: the cluster of the context 'a' has no server; choose one",
            id="no server",
        ),
    ],
)
async def test_kubeconfig_that_names_no_server_is_refused_though_a_cluster_runs(
    document: str | None, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    if document is not None:
        file.write_text(document)

    async with cluster("one", 1):
        answer = await asked(monkeypatch, file)
        assert await asked(monkeypatch, file, "one") == "one"

    assert answer.startswith(f"KUBECONFIG: {why.replace('FILE', str(file))}")
    assert answer.endswith("choose one with --cluster")


async def test_kubeconfig_that_is_a_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster("one", 1):
        assert await asked(monkeypatch, tmp_path) == (
            f"KUBECONFIG: '{tmp_path}' cannot be read: Is a directory; choose one with --cluster"
        )


async def test_first_file_with_a_context_counts_and_missing_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = kubeconfig(tmp_path / "first", 1, "a"), kubeconfig(tmp_path / "second", 2, "b")

    async with cluster("one", 1), cluster("two", 2):
        assert await asked(monkeypatch, f"/no/file:{second}:{first}") == "two"
        assert await asked(monkeypatch, f":{first}:{second}:") == "one"


async def test_empty_kubeconfig_is_none_and_the_only_cluster_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster("one", 1):
        assert await asked(monkeypatch, "") == "one"


async def test_other_cluster_on_the_port_of_a_killed_one_is_not_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("old")
    inline = kubeconfig(tmp_path / "inline", 1, **{"certificate-authority-data": base64.b64encode(b"old").decode()})
    in_file = kubeconfig(tmp_path / "in file", 1, **{"certificate-authority": "ca.pem"})

    async with cluster("one", 1, authority="new\n"):
        for file in (inline, in_file):
            assert "which no running cluster has" in await asked(monkeypatch, file)
        (tmp_path / "ca.pem").write_text("new")
        assert await asked(monkeypatch, in_file) == "one"
        (tmp_path / "ca.pem").unlink()
        assert await asked(monkeypatch, in_file) == (
            f"KUBECONFIG: '{tmp_path / 'ca.pem'}' cannot be read: No such file or directory; choose one with --cluster"
        )


async def test_certificates_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kubeconfig(tmp_path / "mine", 1, **{"certificate-authority": "/dev/zero"})

    async with cluster("one", 1):
        assert await asked(monkeypatch, file) == (
            "KUBECONFIG: '/dev/zero' cannot be read: it is larger than 10 MiB; choose one with --cluster"
        )


async def test_of_several_at_one_server_the_one_with_the_node_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kubeconfig(tmp_path / "file", 1)

    async with cluster("one", 1, "node-1"), cluster("sim", 1, "sim-1", "sim-2"), cluster("else", 2, "sim-3"):
        assert await asked(monkeypatch, file, node="node-1") == "one"
        assert await asked(monkeypatch, file, node="sim-2") == "sim"
        assert await asked(monkeypatch, file, node="sim-3") == (
            f"KUBECONFIG: {file} names https://127.0.0.1:1, which several run nodes of; "
            "choose one with --cluster: one, sim"
        )


def test_no_cluster_is_reported() -> None:
    with pytest.raises(InputError, match="no cluster runs; start one with 'simkubelet up' in another terminal"):
        ask(None, stop("node-1"))
    with pytest.raises(InputError, match="no cluster 'one' runs; start it with 'simkubelet up --name one'"):
        ask("one", stop("node-1"))


async def test_nonsense_is_answered_and_the_next_request_is_done() -> None:
    with running.claimed("one") as folder:
        path = running.control_socket(folder)
        async with taking_commands(folder, perform):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"explode\n")
            assert b'"error": "no request: ' in await reader.readline()
            writer.close()
            assert await asyncio.to_thread(ask, None, stop("node-1")) == "stopKubelet node-1"


async def test_cluster_that_ends_in_the_middle_is_reported() -> None:
    begun = asyncio.Event()

    async def never(step: object) -> str:
        begun.set()
        raise asyncio.CancelledError

    with running.claimed("one") as folder:
        async with taking_commands(folder, never):
            asked = asyncio.ensure_future(asyncio.to_thread(ask, None, stop("node-1")))
            await begun.wait()
            with pytest.raises(HostError, match="cluster 'one' ended before it answered"):
                await asked
