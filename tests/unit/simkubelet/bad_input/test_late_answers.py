"""Plugins that answer when nobody, or somebody else, is waiting: their socket replaced, the kubelet restarted.

Each was asked of the device manager of kubernetes v1.34.4 too.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.devices import endpoint
from tests.support.node import Node
from tests.support.silent_plugin import listed_silent_plugin, silent_plugin, until_true


@pytest.mark.parametrize("socket", ["stub.sock", "new.sock"], ids=["the-same", "another"])
async def test_allocate_answered_after_a_new_plugin_took_over_is_taken(node: Node, socket: str) -> None:
    old = await listed_silent_plugin(node, "Allocate")
    name = node.pod(1)
    await old.silence.until_asked()

    (node.folder / "stub.sock").unlink()
    new = await node.plugin("d0", "d1", endpoint=socket)
    old.silence.may_answer.set()
    await node.until(lambda: node.phase(name) == "Running")

    assert node.devices(name) == ("d0",)
    assert "Allocate" not in [call for call, _ in new.calls]
    second = await node.settled_pod(1)
    assert node.devices(second) == ("d1",)
    assert ("Allocate", [["d1"]]) in new.calls


async def test_options_answered_after_a_new_plugin_registered_make_the_late_one_the_newest(node: Node) -> None:
    late = await silent_plugin(node, "GetDevicePluginOptions", "late", endpoint="late.sock")
    registering = asyncio.create_task(late.register())
    await late.silence.until_asked()
    await node.plugin("early", endpoint="early.sock")

    late.silence.may_answer.set()
    await registering
    await node.until(lambda: ("late",) in [event.healthy for event in node.of("devices-listed")])
    await node.tick()
    name = await node.settled_pod(1)

    assert node.devices(name) == ("late",)
    assert ("Allocate", [["late"]]) in late.calls


async def test_list_of_a_replaced_plugin_counts_as_the_last_one(node: Node) -> None:
    old = await node.plugin("old", endpoint="old.sock")
    new = await node.plugin("new", "newer", endpoint="new.sock")

    old.list(["old", "older", "oldest"])
    await node.until(lambda: len(node.of("devices-listed")) == 3)
    await node.tick()
    name = await node.settled_pod(1)

    assert node.status() == (3, 3)
    # It is the new plugin that is asked for them.
    assert ("Allocate", [list(node.devices(name))]) in new.calls


@pytest.mark.parametrize("call", ["GetPreferredAllocation", "Allocate"])
async def test_answer_after_the_plugin_was_disconnected_does_not_count(node: Node, call: str) -> None:
    plugin = await listed_silent_plugin(node, call)
    name = node.pod(1)
    await plugin.silence.until_asked()
    replaced = await node.plugin("d0", endpoint="new.sock")
    await replaced.stop()

    # Two streams had the resource, and the end of either disconnects the newest: here the silent one lives on.
    await node.until(lambda: node.of("plugin-disconnected"))
    await plugin.stop()
    await node.until(lambda: node.phase(name) == "Failed")
    plugin.silence.may_answer.set()

    assert node.message(name).startswith("Pod was rejected: Allocate failed due to ")
    assert "rpc error: code = " in node.message(name)
    assert node.devices(name) == ()


@pytest.mark.parametrize("call", ["GetPreferredAllocation", "Allocate"])
async def test_answer_for_the_last_kubelet_is_lost_on_the_next_one(node: Node, call: str) -> None:
    plugin = await listed_silent_plugin(node, call)
    name = node.pod(1)
    await plugin.silence.until_asked()

    await node.kubelet.stop()
    plugin.silence.may_answer.set()
    await plugin.stop()
    await plugin.serve()
    await node.kubelet.start()
    await node.until(lambda: node.phase(name) == "Failed")

    await plugin.stop()
    await plugin.serve()
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()
    assert node.status() == (1, 1)
    second = await node.settled_pod(1)
    assert (node.phase(second), node.devices(second)) == ("Running", ("d0",))


async def test_options_for_the_last_kubelet_register_nobody_at_the_next_one(node: Node) -> None:
    plugin = await silent_plugin(node, "GetDevicePluginOptions")
    registering = asyncio.create_task(plugin.register())
    await plugin.silence.until_asked()

    await node.kubelet.restart()
    plugin.silence.may_answer.set()
    with pytest.raises(RpcError):
        await registering
    await node.tick()

    assert node.status() == (None, None)
    assert not node.of("plugin-registered")
    assert not (node.folder / "stub.sock").exists()


@pytest.mark.parametrize(("minor", "is_registered"), [("1.34", True), ("1.35", False)])
async def test_options_after_the_caller_has_gone_register_the_plugin_up_to_1_34(
    make_node: Any, minor: str, is_registered: bool
) -> None:
    node = await make_node(minor)
    plugin = await silent_plugin(node, "GetDevicePluginOptions")
    registering = asyncio.create_task(plugin.register())
    await plugin.silence.until_asked()
    registering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await registering

    if is_registered:
        plugin.silence.may_answer.set()
        await node.until(lambda: node.of("devices-listed"))
    else:
        await plugin.silence.until_given_up()
    await node.tick()

    assert node.status() == ((1, 1) if is_registered else (None, None))


async def test_pre_start_answered_after_its_time_does_not_start_the_container(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PRE_START_CONTAINER_TIMEOUT_S", 0.05)
    plugin = await listed_silent_plugin(node, "PreStartContainer")
    name = node.pod(1)
    await node.until(lambda: any("DeadlineExceeded" in text for _, text in node.pod_events(name)))
    assert node.phase(name) == "Pending"

    # The kubelet asks again, and this time it is answered.
    plugin.silence.may_answer.set()
    monkeypatch.undo()
    await until_true(node, lambda: node.phase(name) == "Running")
