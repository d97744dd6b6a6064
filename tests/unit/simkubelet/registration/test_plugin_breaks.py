"""A plugin that goes away, or changes its mind, while the kubelet is in the middle of a call to it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from tests.support.node import FakePlugin, env_of_ids
from tests.support.patience import LIMIT_S
from tests.support.silent_plugin import SilentPlugin, silent_plugin

CLOSING = "rpc error: code = Canceled desc = grpc: the client connection is closing"


class CutPlugin(SilentPlugin):
    """Sends one list; its stream is cut on request."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.is_cut = asyncio.Event()

    async def ListAndWatch(self, request: Any, context: Any) -> Any:
        yield api.ListAndWatchResponse(devices=self.devices)
        await self.is_cut.wait()


async def cut_plugin(node: Any, call: str = "Allocate", **settings: Any) -> CutPlugin:
    plugin = CutPlugin(node.folder, call, **settings)
    node.plugins.append(plugin)
    plugin.list(["d0"])
    await plugin.serve()
    return plugin


async def test_stream_that_ends_during_allocate_fails_that_pod_and_no_other(node: Any) -> None:
    plugin = await cut_plugin(node)
    await plugin.register()
    await node.until(lambda: node.of("devices-listed"))
    name = node.pod(1)
    await plugin.silence.until_asked()

    plugin.is_cut.set()
    await node.until(lambda: node.phase(name) == "Failed")
    other = await node.settled_pod(None)

    assert node.message(name) == f"Pod was rejected: Allocate failed due to {CLOSING}, which is unexpected"
    assert node.phase(other) == "Running"


async def test_old_stream_that_ends_while_the_options_are_asked_refuses_the_new_plugin(node: Any) -> None:
    old = await cut_plugin(node, endpoint="old.sock")
    await old.register()
    new = await silent_plugin(node, "GetDevicePluginOptions", endpoint="new.sock")
    registering = asyncio.create_task(new.register())
    await new.silence.until_asked()

    old.is_cut.set()
    with pytest.raises(RpcError) as refusal:
        await asyncio.wait_for(registering, LIMIT_S)

    assert refusal.value.text == f"failed to get device plugin options: {CLOSING}"


async def test_old_stream_that_ends_during_the_dial_lets_the_new_plugin_register(node: Any) -> None:
    old = await cut_plugin(node, endpoint="old.sock")
    await old.register()
    new = FakePlugin(node.folder, endpoint="new.sock")
    node.plugins.append(new)
    new.list(["d0", "d1"])
    registering = asyncio.create_task(new.register())
    await node.until(lambda: len(node.of("devices-listed")) == 1)

    old.is_cut.set()
    await node.until(lambda: node.of("plugin-disconnected"))
    await new.serve()
    await asyncio.wait_for(registering, LIMIT_S)
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    assert [event.endpoint for event in node.of("plugin-registered")] == ["old.sock", "new.sock"]


class VanishingPlugin(FakePlugin):
    """Takes the device off its list before it answers Allocate for it."""

    async def Allocate(self, request: Any, context: Any) -> api.AllocateResponse:
        self.list(["d1"])
        await self.may_answer.wait()
        return env_of_ids(request)


async def vanish_during_allocate(make_node: Any, minor: str) -> Any:
    node = await make_node(minor)
    plugin = VanishingPlugin(node.folder)
    plugin.may_answer = asyncio.Event()
    node.plugins.append(plugin)
    plugin.list(["d0"])
    await plugin.serve()
    await plugin.register()
    await node.until(lambda: node.of("devices-listed"))
    name = node.pod(1)
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    plugin.may_answer.set()
    return node, name


async def test_device_that_leaves_the_list_during_its_allocate_is_given_up_to_1_33(make_node: Any) -> None:
    node, name = await vanish_during_allocate(make_node, "1.33")

    await node.until(lambda: node.phase(name) == "Running")
    assert node.devices(name) == ("d0",)


async def test_device_that_leaves_the_list_during_its_allocate_ends_a_kubelet_of_1_34(make_node: Any) -> None:
    node, _ = await vanish_during_allocate(make_node, "1.34")

    await node.until(lambda: not node.kubelet.is_running)

    (crash,) = node.of("kubelet-crashed")
    assert crash.reason.startswith("runtime error: invalid memory address or nil pointer dereference")


async def test_pods_that_come_together_are_admitted_in_their_order(node: Any) -> None:
    await node.plugin("d0")
    await node.tick()

    first, second = node.pod(1), node.pod(1)
    await node.until(lambda: "Pending" not in (node.phase(first), node.phase(second)))

    assert (node.phase(first), node.phase(second)) == ("Running", "Failed")
