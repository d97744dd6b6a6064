"""`simkubelet join` from the shell, to the cluster of `simkubelet up`; the session `join` plays it with a real one."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet.remote import ApiClient, read_kubeconfig
from tests.support.joined_nodes import PODS, any_cluster, eventually_so, is_running, joining, until_started
from tests.support.live_cluster import live_cluster


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with any_cluster() as path:
        yield path


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    async with ApiClient(read_kubeconfig(kubeconfig)) as client:
        yield client


async def nodes(client: ApiClient, prefix: str) -> list[dict[str, Any]]:
    """The nodes of a prefix."""
    found = await client.get("/api/v1/nodes")
    return [node for node in found["items"] if node["metadata"]["name"].startswith(prefix)]


async def test_pods_run_on_joined_nodes_until_ctrl_c(kubeconfig: Path, client: ApiClient) -> None:
    with joining(kubeconfig, "--nodes 2 --name-prefix alpha") as process:
        assert process.introduction.startswith("2 nodes joined https://127.0.0.1:")
        assert len(await nodes(client, "alpha-")) == 2
        container = {"name": "main", "image": "busybox"}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        for name in ("one", "two"):
            await client.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
            await eventually_so(lambda name=name: is_running(client, name))

        labels = [node["metadata"]["labels"]["simkubelet/joined"] for node in await nodes(client, "alpha-")]
        assert labels == ["alpha", "alpha"]
        said = process.interrupt()

    assert (process.process.returncode, said) == (130, "interrupted; everything was ended\n")
    assert await nodes(client, "alpha-") == []
    assert (await client.get(PODS))["items"] == []


async def test_killed_nodes_are_taken_over(kubeconfig: Path, client: ApiClient) -> None:
    with joining(kubeconfig, "--name-prefix beta") as first:
        spec = {"containers": [{"name": "main", "image": "busybox"}], "terminationGracePeriodSeconds": 1}
        pod = await client.call("POST", PODS, {"metadata": {"name": "pod"}, "spec": spec})
        await eventually_so(lambda: is_running(client, "pod"))
        await until_started(client, pod, 1)
        first.interrupt(signal.SIGKILL)
    assert len(await nodes(client, "beta-")) == 1

    with joining(kubeconfig, "--name-prefix beta") as second:
        await until_started(client, pod, 2)
        assert len(await nodes(client, "beta-")) == 1
        second.interrupt()

    assert await nodes(client, "beta-") == []


async def test_plugins_of_joined_nodes_give_devices(kubeconfig: Path, client: ApiClient) -> None:
    with joining(kubeconfig, "--name-prefix gamma --profile t4 --gpus 2") as process:
        limits = {"limits": {"nvidia.com/gpu": "2"}}
        container = {"name": "main", "image": "busybox", "resources": limits}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        await client.call("POST", PODS, {"metadata": {"name": "cuda"}, "spec": spec})

        await eventually_so(lambda: is_running(client, "cuda"))

        (node,) = await nodes(client, "gamma-")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
        process.interrupt()


async def test_node_of_another_kind_is_not_taken(kubeconfig: Path, client: ApiClient) -> None:
    await client.call("POST", "/api/v1/nodes", {"metadata": {"name": "real-1"}})
    try:
        said = refused("--kubeconfig", str(kubeconfig), "--name-prefix", "real")
        assert len(await nodes(client, "real-")) == 1
    finally:
        await client.call("DELETE", "/api/v1/nodes/real-1")

    assert said == "2: error: the cluster has a node 'real-1' of its own; choose another --name-prefix\n"


def refused(*options: str) -> str:
    """The one line with which a command that cannot be done ends, and its status."""
    done = subprocess.run(
        [sys.executable, "-m", "simkubelet", "join", *options], capture_output=True, text=True, check=False
    )
    assert done.stderr.count("\n") == 1, done.stderr
    return f"{done.returncode}: {done.stderr}"


def test_server_that_does_not_answer_is_one_clear_line(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )

    said = refused("--kubeconfig", str(config))

    assert said.startswith("3: error: http://127.0.0.1:1: the API server does not answer: ")
    assert said.endswith("; is the cluster up?\n")


def test_end_without_the_server_says_what_is_left() -> None:
    with live_cluster() as cluster, joining(cluster.kubeconfig, "--name-prefix delta") as process:
        cluster.process.kill()
        cluster.process.wait()

        said = process.interrupt().splitlines()

    assert process.process.returncode == 130
    assert [line for line in said if "are not drained: " in line]
    assert [line for line in said if "stay registered: " in line]
    assert said[-1] == "interrupted; everything was ended"


def test_missing_kubeconfig_is_one_clear_line(tmp_path: Path) -> None:
    assert refused("--kubeconfig", str(tmp_path / "none")).startswith("2: error: Invalid value for '--kubeconfig'")


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "localhost"])  # noqa: S104 - refused
def test_address_that_nodes_cannot_have_is_one_clear_line(tmp_path: Path, address: str) -> None:
    (tmp_path / "config").touch()

    said = refused("--kubeconfig", str(tmp_path / "config"), "--address", address)

    assert said.startswith(f"2: error: Invalid value for '--address': '{address}': expected one IP address")
