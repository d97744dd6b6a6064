"""The control socket of a cluster: what another terminal asks is done, and refused in one line."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.up import running
from scenarios.up.running import ask, serving
from simkubelet.model.errors import HostError, InputError


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


async def perform(step: Any) -> str:
    [(verb, given)] = step.items()
    if given["node"] == "lost":
        raise InputError("no node 'lost'")
    if given["node"] == "burning":
        raise HostError("no disk left")
    return f"{verb} {given['node']}"


def stop(node: str) -> dict[str, object]:
    return {"stopKubelet": {"node": node}}


async def test_request_is_done_and_reported() -> None:
    with running.claimed("one") as folder:
        async with serving(running.control_socket(folder), perform):
            assert await asyncio.to_thread(ask, None, {"rebootNode": {"node": "node-1"}}) == "rebootNode node-1"


@pytest.mark.parametrize(("node", "kind"), [("lost", InputError), ("burning", HostError)])
async def test_refusal_keeps_its_kind(node: str, kind: type[Exception]) -> None:
    with running.claimed("one") as folder:
        async with serving(running.control_socket(folder), perform):
            with pytest.raises(kind, match=r"no node 'lost'|no disk left"):
                await asyncio.to_thread(ask, "one", stop(node))


async def test_two_clusters_need_a_name() -> None:
    with running.claimed("one") as one, running.claimed("two") as two:
        async with serving(running.control_socket(one), perform), serving(running.control_socket(two), perform):
            with pytest.raises(InputError, match="2 clusters run: choose one with KUBECONFIG or --cluster: one, two"):
                await asyncio.to_thread(ask, None, stop("node-1"))
            assert await asyncio.to_thread(ask, "two", stop("node-1")) == "stopKubelet node-1"


def kubeconfig(folder: Path, cluster: str, current: str = "context") -> str:
    path = folder / cluster
    context = {"name": f"{cluster}-context", "context": {"cluster": cluster}}
    path.write_text(json.dumps({"contexts": [context], "current-context": f"{cluster}-{current}"}))
    return str(path)


async def test_kubeconfig_chooses_of_two_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two, other, lost = (kubeconfig(tmp_path, *of) for of in (("two",), ("other",), ("one", "gone")))
    (tmp_path / "broken").write_text("a: [")

    async def asked(*files: str) -> str:
        monkeypatch.setenv("KUBECONFIG", ":".join(files))
        return await asyncio.to_thread(ask, None, stop("node-1"))

    async def of_two(step: object) -> str:
        return "two"

    with running.claimed("one") as one, running.claimed("two") as second:
        async with serving(running.control_socket(one), perform), serving(running.control_socket(second), of_two):
            for files in ([other, two], [lost], [""]):
                with pytest.raises(InputError, match="2 clusters run"):
                    await asked(*files)
            assert await asked("/no/file", str(tmp_path / "broken"), two, other) == "two"


def test_no_cluster_is_reported() -> None:
    with pytest.raises(InputError, match="no cluster runs; start one with 'simkubelet up' in another terminal"):
        ask(None, stop("node-1"))
    with pytest.raises(InputError, match="no cluster 'one' runs; start it with 'simkubelet up --name one'"):
        ask("one", stop("node-1"))


async def test_nonsense_is_answered_and_the_next_request_is_done() -> None:
    with running.claimed("one") as folder:
        path = running.control_socket(folder)
        async with serving(path, perform):
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
        async with serving(running.control_socket(folder), never):
            asked = asyncio.ensure_future(asyncio.to_thread(ask, None, stop("node-1")))
            await begun.wait()
            with pytest.raises(HostError, match="cluster 'one' ended before it answered"):
                await asked
