"""The node's object and its lease, as its kubelet keeps them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from simkubelet.cluster.objects.objects import Key
from simkubelet.node import NodeContext, NodeLease
from tests.support.node import Node, running_node

LEASE = Key("leases.coordination.k8s.io", "kube-node-lease", "node-1")


async def test_capacity_of_a_user_becomes_allocatable(node: Node) -> None:
    key = Key("nodes", "", "node-1")
    stored = node.store.objects.get(key)
    assert stored is not None
    capacity = {**stored["status"]["capacity"], "example.com/dongle": "4"}
    node.store.objects.replace(key, {**stored, "status": {**stored["status"], "capacity": capacity}})
    await node.tick()
    assert node.status("example.com/dongle") == (4, 4)


async def test_node_that_was_removed_comes_back_with_the_next_kubelet(node: Node) -> None:
    node.store.objects.remove(Key("nodes", "", "node-1"))
    name = node.pod(None)
    await node.until(lambda: node.phase(name) == "Running")
    await node.tick()
    assert "node-1" not in node.store.nodes
    await node.kubelet.restart()
    assert "node-1" in node.store.nodes


async def test_lease_is_renewed_every_ten_seconds(node: Node) -> None:
    def spec() -> dict[str, Any]:
        stored = node.store.objects.get(LEASE)
        assert stored is not None
        return dict(stored["spec"])

    async with asyncio.TaskGroup() as tasks:
        context = NodeContext(node.clock, node.store, lambda event: None, tasks)
        renewing = tasks.create_task(NodeLease("node-1", context).run())
        await node.clock.advance(0)
        first = spec()
        assert (first["holderIdentity"], first["leaseDurationSeconds"]) == ("node-1", 40)
        await node.clock.advance(10)
        assert spec()["renewTime"] > first["renewTime"]
        node.store.objects.remove(LEASE)
        await node.clock.advance(10)
        assert spec()["holderIdentity"] == "node-1"
        renewing.cancel()


async def test_lease_names_its_node_as_owner(node: Node) -> None:
    node.store.renew_lease("node-1", 40)
    stored, own = node.store.objects.get(LEASE), node.store.node("node-1")
    assert stored is not None
    assert own is not None
    (owner,) = stored["metadata"]["ownerReferences"]
    assert owner["uid"] == own.manifest["metadata"]["uid"]


async def test_story_has_no_leases(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        await node.tick()
        assert node.store.objects.all_of(LEASE.kind) == []


def _node_events(node: Node) -> list[str]:
    events = node.store.objects.all_of("events")
    return [event["reason"] for event in events if event["involvedObject"]["kind"] == "Node"]


async def test_kubelet_reports_its_start_and_its_nodes_conditions(node: Node) -> None:
    await node.tick()
    assert sorted(_node_events(node)) == [
        "NodeAllocatableEnforced",
        "NodeHasNoDiskPressure",
        "NodeHasSufficientMemory",
        "NodeHasSufficientPID",
        "Starting",
    ]


async def test_kubelet_tells_when_its_node_is_ready_again(node: Node) -> None:
    key = Key("nodes", "", "node-1")
    stored = node.store.objects.get(key)
    assert stored is not None
    conditions = [{**each, "status": "Unknown"} for each in stored["status"]["conditions"]]
    node.store.objects.replace(key, {**stored, "status": {**stored["status"], "conditions": conditions}})
    await node.tick()
    assert "NodeReady" in _node_events(node)
