"""Pods of thousands of containers: the work for each does not grow with their number, and others have their turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from cProfile import Profile
from typing import Any

import pytest

from simkubelet.pods import pod_worker
from tests.support.node import Node


def containers(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"c{i}", "image": "none", **fields} for i in range(count)]


async def calls_per_container(node: Node, count: int, modules: str = "", **spec: Any) -> float:
    """How many calls of functions the life of a pod takes, for each of its containers; of some modules, or of all."""
    with Profile() as profile:
        pod = node.pod(None, **spec or {"containers": containers(count)})
        await node.until(lambda: node.phase(pod) == "Running")
        await node.delete(pod)
    stats = profile.getstats()
    return sum(one.callcount for one in stats if modules in getattr(one.code, "co_filename", "")) / count


@pytest.mark.slow
async def test_containers_take_no_more_work_each_where_there_are_more(node):
    few, many = await calls_per_container(node, 100), await calls_per_container(node, 600)

    assert many < 1.5 * few


async def test_init_containers_have_what_has_not_changed_neither_written_nor_measured_again(node):
    """All but a few calls a container that has not changed: one for each of its steps that looks for it."""
    part = "simkubelet/cluster/objects"
    few = await calls_per_container(node, 20, part, initContainers=containers(20))
    many = await calls_per_container(node, 120, part, initContainers=containers(120))

    assert many - few < 100 * 5


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        pytest.param({"initContainers": containers(40, restartPolicy="Always")}, 40, id="sidecars"),
        pytest.param({"initContainers": containers(40)}, 40, id="init-containers"),
        pytest.param({"containers": containers(500)}, 5, id="containers"),
    ],
)
async def test_pod_that_begins_leaves_others_their_turns(node, spec, least):
    turns = Counter[int]()

    async def count_turns() -> None:
        while True:
            turns[len(node.of("container-started"))] += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    pod = node.pod(None, **spec)
    await node.until(lambda: node.phase(pod) == "Running")
    other.cancel()

    assert len(turns) >= least


async def test_states_of_a_pod_share_what_has_not_changed(node):
    pod = node.pod(None, containers=containers(3))
    await node.until(lambda: node.phase(pod) == "Running")
    stored = node.store.pod_named(pod)
    before = stored.manifest["status"]["containerStatuses"]

    await node.kill(pod, "c1")
    await node.until(lambda: node.container(pod, "c1").restart_count == 1)

    after = node.store.pod_named(pod).manifest["status"]["containerStatuses"]
    assert [one is other for one, other in zip(before, after, strict=True)] == [True, False, True]


async def test_pod_of_thousands_is_looked_at_once_for_each_pause(node, monkeypatch):
    monkeypatch.setattr(pod_worker, "_MANY", 10)
    monkeypatch.setattr(pod_worker, "_PAUSE_FOR_EACH_S", 0.05)
    pod = node.pod(None, initContainers=containers(19))
    await node.until(lambda: node.of("container-started"))
    started = []

    for _ in range(4):
        for _ in range(100):
            await asyncio.sleep(0)
        started.append(len(node.of("container-started")))
        await node.clock.advance(1.0)

    assert started == [1, 2, 3, 4]
    assert node.phase(pod) == "Pending"
    await node.delete(pod)
