from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from simkubelet.cluster.controllers.garbage_collector import PodGarbageCollector
from simkubelet.cluster.objects.objects import JSON, Key, Written
from simkubelet.model.node import NodeStatus

from ..conftest import Cluster, manifest

NODE = Key("nodes", "", "n")


@pytest.fixture
async def collected(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with a node, a pod on it and the garbage collector of pods."""
    cluster.store.register_node("n", NodeStatus())
    cluster.store.bind(cluster.store.create_pod(manifest("p")).uid, "n")
    task = asyncio.create_task(PodGarbageCollector(cluster.store, cluster.clock).run())
    await cluster.clock.advance(0)
    yield cluster
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_pod_of_a_node_that_is_gone_fails_and_goes_after_the_quarantine(collected: Cluster) -> None:
    states: list[JSON] = []

    def note(written: Written) -> None:
        states.append(written.object["status"])

    collected.objects.subscribe("pods", note)
    collected.objects.remove(NODE)
    await collected.clock.advance(59)
    assert collected.store.pod_named("p") is not None

    await collected.clock.advance(1)

    assert collected.store.pod_named("p") is None
    assert states[0]["phase"] == "Failed"
    assert states[0]["conditions"][-1]["reason"] == "DeletionByPodGC"


async def test_pod_of_a_node_that_came_back_stays(collected: Cluster) -> None:
    collected.objects.remove(NODE)
    await collected.clock.advance(45)
    collected.store.register_node("n", NodeStatus())

    await collected.clock.advance(60)

    assert collected.store.pod_named("p") is not None


async def test_pods_of_nodes_that_are_there_stay(collected: Cluster) -> None:
    await collected.clock.advance(200)
    assert collected.store.pod_named("p") is not None
