"""The scheduler beside a kubelet, on a node with a plugin."""

from __future__ import annotations

from typing import Any


async def test_pending_pod_is_scheduled_when_the_other_is_deleted(make_node: Any):
    node = await make_node(scheduler=True)
    await node.plugin("d0")
    await node.tick()
    first = node.pod(1, bound=False)
    await node.until(lambda: node.phase(first) == "Running")
    second = node.pod(1, bound=False)
    await node.until(lambda: node.pod_events(second))

    await node.delete(first)
    await node.clock.advance(1)
    await node.until(lambda: node.phase(second) == "Running")

    assert node.devices(second) == ("d0",)
    assert [reason for reason, _ in node.pod_events(second)] == ["FailedScheduling", "Scheduled", "Created", "Started"]


async def test_pod_is_tried_again_after_five_minutes_if_nothing_changes(make_node: Any):
    node = await make_node(scheduler=True)
    name = node.pod(1, bound=False)
    await node.until(lambda: node.pod_events(name))

    await node.clock.advance(299)
    assert len(node.pod_events(name)) == 1

    await node.clock.advance(31)
    await node.until(lambda: len(node.pod_events(name)) == 2)


async def test_pod_waits_until_the_plugin_has_registered(make_node: Any):
    node = await make_node(scheduler=True)
    name = node.pod(1, bound=False)
    await node.until(lambda: node.pod_events(name))

    await node.plugin("d0")
    await node.tick()
    await node.until(lambda: node.phase(name) == "Running")

    assert node.devices(name) == ("d0",)
