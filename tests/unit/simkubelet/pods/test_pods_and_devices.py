"""What topology and health of devices do to whole pods; the decisions themselves have tests of their own."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.model.config import PolicyName, TopologySettings

RESOURCE = "example.com/stub"


async def test_pod_that_cannot_be_aligned_is_rejected_word_for_word(make_node: Any) -> None:
    settings = TopologySettings(policy=PolicyName.SINGLE_NUMA_NODE, numa_nodes=(0, 1))
    node = await make_node(topology=settings)
    plugin = await node.plugin()
    plugin.list(["d0", "d1"], numa_node=0)
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    fits = await node.settled_pod(1)
    refused = await node.settled_pod(2)

    assert node.phase(fits) == "Running"
    status = node.pod_status(refused)
    message = "Resources cannot be allocated with Topology locality"
    assert (status.phase, status.reason) == ("Failed", "TopologyAffinityError")
    assert status.message == f"Pod was rejected: {message}"
    assert node.pod_events(refused) == [("TopologyAffinityError", message)]


@pytest.mark.parametrize("minor", ["1.31", "1.32"])
async def test_devices_of_a_pod_that_was_rejected_half_way_count_in_the_hints_for_the_next(
    make_node: Any, minor: str
) -> None:
    settings = TopologySettings(policy=PolicyName.SINGLE_NUMA_NODE, numa_nodes=(0, 1))
    node = await make_node(minor, topology=settings)
    plugin = await node.plugin()
    plugin.list(["d0", "d1"], numa_node=0)
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    containers = [
        {"name": name, "image": "none", "resources": {"limits": {RESOURCE: count}}}
        for name, count in (("c", 1), ("d", 3))
    ]

    refused = await node.settled_pod(None, containers=containers)
    fits = await node.settled_pod(2)

    assert node.phase(refused) == "Failed"
    assert node.phase(fits) == "Running"


async def test_health_of_held_devices_is_in_the_status_where_the_gate_is_on(make_node: Any) -> None:
    node = await make_node(feature_gates={"ResourceHealthStatus": True})
    plugin = await node.plugin("d0")
    name = await node.settled_pod(1)

    def health() -> list[tuple[str, str, str]]:
        told = node.container(name).resources
        return [(each.name, device.resource_id, device.health) for each in told for device in each.resources]

    assert health() == [(RESOURCE, "d0", "Healthy")]
    plugin.list(unhealthy=["d0"])
    await node.until(lambda: health() == [(RESOURCE, "d0", "Unhealthy")])


async def test_health_is_not_reported_where_the_gate_is_off(node: Any) -> None:
    await node.plugin("d0")

    name = await node.settled_pod(1)

    assert node.container(name).resources == ()
