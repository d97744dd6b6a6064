from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

from tests.support.node import running_node

RESOURCE = "example.com/stub"


async def test_plugin_that_registers_gives_capacity_at_the_next_status(node: Any) -> None:
    await node.plugin("d0", "d1")
    assert node.status() == (None, None)

    await node.tick()

    assert node.status() == (2, 2)


async def test_restarted_kubelet_reports_zero_until_plugin_registers(node: Any) -> None:
    plugin = await node.plugin("d0", "d1")
    await node.tick()

    await node.kubelet.restart()
    assert node.status() == (0, 0)
    assert not (node.folder / "stub.sock").exists()

    await plugin.stop()
    await node.plugin("d0", "d1")
    await node.tick()
    assert node.status() == (2, 2)


async def test_pod_keeps_its_devices_over_a_restart_without_another_allocate(node: Any) -> None:
    plugin = await node.plugin("d0", "d1")
    pod = await node.settled_pod(1)
    held = node.devices(pod)

    await node.kubelet.restart()
    again = await node.plugin("d0", "d1")
    other = await node.settled_pod(1)

    assert node.phase(pod) == "Running"
    assert node.devices(pod) == held == ("d0",)
    assert node.devices(other) == ("d1",)
    assert [call for call, _ in again.calls].count("Allocate") == 1
    await plugin.stop()


async def test_resource_is_forgotten_five_minutes_after_its_plugin(node: Any) -> None:
    plugin = await node.plugin("d0", "d1")
    await node.tick()
    await plugin.stop()
    await node.until(lambda: node.of("plugin-disconnected"))

    await node.tick()
    assert node.status() == (2, 0)
    await node.clock.advance(290)
    assert node.status() == (2, 0)
    await node.clock.advance(10)

    # The name never leaves the node.
    assert node.status() == (0, 0)
    assert RESOURCE not in node.kubelet._instance.containers.devices.healthy


async def test_kubelet_that_is_stopped_before_its_loops_ran_leaves_none_behind(short_folder: Path) -> None:
    async with running_node(short_folder) as node:
        await node.kubelet.stop()

    # A coroutine that was never awaited says so when it is thrown away.
    gc.collect()
