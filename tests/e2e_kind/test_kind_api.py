"""The API server of a simulated cluster answers kubectl and client libraries as a real one does."""

from __future__ import annotations

import asyncio
import difflib
import re
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from scenarios.story.specs import NodeSpec
from scenarios.up.cluster import ClusterSpec, LiveCluster
from tests.support.api_worlds import Command, World, read_table
from tests.support.patience import LIMIT_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

TABLE = read_table(Path(__file__).with_name("api_commands.txt"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worlds(cluster: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[World, World]]:
    """The real cluster, and a simulated one whose nodes have the same names."""
    folder = tmp_path_factory.mktemp("api")
    kubectl, real, simulated = folder / "kubectl", folder / "real", folder / "simulated"
    _run("docker", "cp", "--follow-link", f"{cluster}-control-plane:/usr/bin/kubectl", str(kubectl))
    real.write_text(_run("kind", "get", "kubeconfig", "--name", cluster))
    nodes = sorted(_run("kind", "get", "nodes", "--name", cluster).split())
    pause = re.search(r"\S+/pause:\S+", _run("docker", "exec", nodes[0], "ctr", "-n", "k8s.io", "images", "ls", "-q"))
    assert pause is not None
    names = {"NODE": nodes[0], "IMAGE": pause[0]}
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        spec = ClusterSpec("api", tuple(NodeSpec(name=node) for node in nodes))
        live = await stack.enter_async_context(LiveCluster(spec, folder))
        simulated.write_text(yaml.safe_dump(live.api.kubeconfig()))
        if len(nodes) > 1:
            # kind's own, which stories take off and put back.
            taint = ("taint", "node", nodes[0], "node-role.kubernetes.io/control-plane:NoSchedule", "--overwrite")
            for config in (real, simulated):
                await asyncio.to_thread(_run, str(kubectl), f"--kubeconfig={config}", *taint)
        urls = [await stack.enter_async_context(_proxy(kubectl, config)) for config in (real, simulated)]
        yield (
            World(session, urls[0], real, kubectl, names),
            World(session, urls[1], simulated, kubectl, names),
        )


def _run(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout


@asynccontextmanager
async def _proxy(kubectl: Path, kubeconfig: Path) -> AsyncIterator[str]:
    """Where an API server is reached without its credentials."""
    argv = ("proxy", "--port=0", f"--kubeconfig={kubeconfig}")
    process = await asyncio.create_subprocess_exec(kubectl, *argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        yield f"http://{line.split()[-1]}"
    finally:
        process.terminate()
        await process.wait()


async def _both(worlds: tuple[World, World], command: Command, namespace: str) -> tuple[str, str]:
    deadline = asyncio.get_running_loop().time() + LIMIT_S
    while True:
        real, simulated = await asyncio.gather(*(world.answer(command, namespace) for world in worlds))
        if real == simulated or not command.is_awaited or asyncio.get_running_loop().time() > deadline:
            return real, simulated


def _difference(command: Command, real: str, simulated: str) -> str:
    lines = difflib.unified_diff(real.splitlines(), simulated.splitlines(), "real", "simulated", lineterm="")
    return "\n".join([command.line, *(f"    {line}" for line in lines)])


@pytest.mark.parametrize("topic", TABLE)
async def test_both_answer_alike(topic: str, worlds: tuple[World, World]) -> None:
    # A name of this try alone: a namespace takes its time to go.
    namespace = f"api-{topic}-{secrets.token_hex(4)}"
    prepared = [
        Command(f"create namespace {namespace}"),
        Command(f"wait serviceaccount/default configmap/kube-root-ca.crt --for=create --timeout={LIMIT_S}s"),
    ]
    different = []
    try:
        for command in (*prepared, *TABLE[topic]):
            real, simulated = await _both(worlds, command, namespace)
            if real != simulated:
                different.append(_difference(command, real, simulated))
    finally:
        await _both(worlds, Command(f"delete namespace {namespace} --wait=false"), namespace)

    assert not different, "\n".join([f"{len(different)} answers differ", *different])
