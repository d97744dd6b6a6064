"""`simkubelet run --backend join`: a story on the cluster of `simkubelet up`, which it leaves as it was."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from simkubelet.remote import ApiClient, read_kubeconfig
from tests.support.joined_nodes import PODS, any_cluster, eventually_so
from tests.support.patience import LIMIT_S

CATALOG = Path(__file__).parents[3] / "scenarios" / "catalog"
STORY = """\
name: two-of-one
description: Two pods want the only device of a node.
nodes: [{name: story-node}]
plugins:
  - {name: stub, builtin: stub, serves: {resource: example.com/gpu, devices: [gpu-0]}}
steps:
  - expect: {node: story-node, allocatable: {example.com/gpu: 1}}
  - apply: &pod
      apiVersion: v1
      kind: Pod
      metadata: {name: first}
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: main, image: x, resources: {limits: {example.com/gpu: 1}}}]
  - expect: {pod: first, phase: Running}
  - apply: {<<: *pod, metadata: {name: second}}
  - expect: {pod: second, phase: Pending}
  - delete: {pod: first}
  - expect: {pod: second, phase: Running}
"""


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with any_cluster() as path:
        yield path


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[ApiClient]:
    async with ApiClient(read_kubeconfig(kubeconfig)) as client:
        yield client


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "two-of-one.yaml"
    path.write_text(STORY)
    return path


@pytest.fixture
def lasting(tmp_path: Path) -> Path:
    """The same story, which waits for long at its end."""
    path = tmp_path / "lasting" / "two-of-one.yaml"
    path.parent.mkdir()
    path.write_text(STORY + "  - expect: {pod: second, phase: Failed, within: 10m}\n")
    return path


def argv(story: Path, kubeconfig: Path) -> list[str]:
    command = [sys.executable, "-m", "simkubelet", "run", str(story)]
    return [*command, "--backend", "join", "--kubeconfig", str(kubeconfig)]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT_S, check=False)


async def nodes_of_stories(client: ApiClient) -> list[str]:
    found = await client.get("/api/v1/nodes", {"labelSelector": "simkubelet/story"})
    return [node["metadata"]["name"] for node in found["items"]]


async def test_story_passes_and_leaves_nothing(story: Path, kubeconfig: Path, client: ApiClient) -> None:
    done = run(*argv(story, kubeconfig))

    assert done.returncode == 0, done.stdout + done.stderr
    assert await nodes_of_stories(client) == []
    assert (await client.get(PODS))["items"] == []


async def test_claims_are_those_of_the_cluster_and_are_removed(
    tmp_path: Path, kubeconfig: Path, client: ApiClient
) -> None:
    stories = []
    for name in ("claim-is-shared-by-two-pods", "claims-from-a-template"):
        text = (CATALOG / "dra" / f"{name}.yaml").read_text().replace("node-1", "story-node")
        # What follows counts the nodes, of which this cluster has another one.
        text = text.partition(
            "  - apply:\n      apiVersion: v1\n      kind: Pod\n      metadata:\n        name: third"
        )[0]
        stories.append(tmp_path / f"{name}.yaml")
        stories[-1].write_text(text)
    (tmp_path / "driver.py").write_bytes((CATALOG / "dra" / "driver.py").read_bytes())

    options = ("--backend", "both", "--kubeconfig", str(kubeconfig))
    done = run(sys.executable, "-m", "simkubelet", "run", *map(str, stories), *options)

    assert done.returncode == 0, done.stdout + done.stderr
    for kind in ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"):
        assert (await client.get(f"/apis/resource.k8s.io/v1/{kind}"))["items"] == []


async def test_next_run_removes_what_a_killed_one_has_left(
    story: Path, lasting: Path, kubeconfig: Path, client: ApiClient
) -> None:
    async def has_a_pod() -> bool:
        return bool((await client.get(PODS))["items"])

    nowhere = asyncio.subprocess.DEVNULL
    first = await asyncio.create_subprocess_exec(*argv(lasting, kubeconfig), stdout=nowhere, stderr=nowhere)
    try:
        await eventually_so(has_a_pod)
    finally:
        first.kill()
        await first.wait()
    assert await nodes_of_stories(client) == ["story-node"]

    done = run(*argv(story, kubeconfig))

    assert done.returncode == 0, done.stdout + done.stderr
    assert await nodes_of_stories(client) == []
    assert (await client.get(PODS))["items"] == []


async def test_node_of_the_cluster_is_not_taken(story: Path, kubeconfig: Path, client: ApiClient) -> None:
    await client.call("POST", "/api/v1/nodes", {"metadata": {"name": "story-node"}})
    try:
        done = run(*argv(story, kubeconfig))
    finally:
        await client.call("DELETE", "/api/v1/nodes/story-node")

    assert done.returncode == 2
    assert "the cluster has a node 'story-node' of its own" in done.stdout
