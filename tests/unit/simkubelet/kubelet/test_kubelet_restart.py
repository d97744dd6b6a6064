from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from simkubelet.model.errors import InputError, KubeletPanicError
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


async def test_plugin_that_registers_before_the_first_status_is_never_missed(node: Any) -> None:
    plugin = await node.plugin("d0", "d1")
    await node.tick()
    await plugin.stop()
    await node.kubelet.stop()
    early = node.pod(1)

    async def register_again() -> None:
        assert node.of("kubelet-started")[-1] is node.events[-1]
        assert node.phase(early) == "Pending"
        await node.plugin("d0", "d1")

    await node.kubelet.start(register_again)
    await node.until(lambda: node.phase(early) == "Running")
    await node.tick()

    published = [event.capacity.get(RESOURCE) for event in node.of("node-status")]
    assert set(published[published.index(2) :]) == {2}


async def test_kubelet_that_is_ended_before_its_first_status_leaves_nothing(node: Any) -> None:
    await node.kubelet.stop()
    never = asyncio.create_task(node.kubelet.start(asyncio.Event().wait))
    await node.until(lambda: len(node.of("kubelet-started")) == 2)

    never.cancel()
    await asyncio.gather(never, return_exceptions=True)
    assert not node.kubelet.is_running

    await node.kubelet.start()
    await node.plugin("d0")


async def test_kubelet_that_crashes_before_its_first_status_publishes_none(node: Any) -> None:
    await node.kubelet.stop()
    published = len(node.of("node-status"))
    name = node.pod(None)

    async def crash() -> None:
        node.kubelet._crash(KubeletPanicError("panic: test"))

    await node.kubelet.start(crash)

    assert not node.kubelet.is_running
    assert (len(node.of("node-status")), node.phase(name)) == (published, "Pending")


async def test_crashed_kubelet_takes_and_writes_no_list_any_more(node: Any) -> None:
    plugin = await node.plugin("d0", "d1")
    checkpoint = node.folder / "kubelet_internal_checkpoint"
    listed, written = len(node.of("devices-listed")), checkpoint.read_text()

    plugin.list(healthy=["d0"])
    node.kubelet._crash(KubeletPanicError("panic: test"))
    await plugin.until_no_stream()

    assert len(node.of("devices-listed")) == listed
    assert checkpoint.read_text() == written


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


async def test_node_is_published_out_of_turn_by_a_kubelet_that_runs(node: Any) -> None:
    await node.plugin("d0")
    before = node.status()

    node.kubelet.publish()

    assert (before, node.status()) == ((None, None), (1, 1))
    await node.kubelet.stop()
    with pytest.raises(InputError, match="the kubelet of node 'node-1' does not run; start it first"):
        node.kubelet.publish()
