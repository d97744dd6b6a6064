"""Register calls of every kind, and what they leave behind; each was seen on the device manager v1.34.4."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.model.version import version
from simkubelet.registration import registration
from simkubelet.registration.registration import RegistrationHandler, RegistrationServer
from tests.support.node import RESOURCE, FakePlugin, Node
from tests.support.patience import LIMIT_S

OPTIONS_FAILED = "failed to get device plugin options: rpc error: code = Internal desc = no options"


class OptionlessPlugin(FakePlugin):
    """A plugin whose options are an error, at once or when `may_answer` is set."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def GetDevicePluginOptions(self, request: api.Empty, context: Any) -> api.DevicePluginOptions:
        self.was_asked.set()
        await self.may_answer.wait()
        await context.abort(Code.INTERNAL, "no options")
        raise AssertionError


async def optionless(node: Node, *, answers: bool = True) -> OptionlessPlugin:
    plugin = OptionlessPlugin(node.folder, endpoint="optionless.sock")
    node.plugins.append(plugin)
    if answers:
        plugin.may_answer.set()
    await plugin.serve()
    return plugin


async def refusal(plugin: FakePlugin, **changes: Any) -> str:
    with pytest.raises(RpcError) as error:
        await plugin.register(**changes)
    assert error.value.code == Code.UNKNOWN
    return str(error.value.text)


async def test_endpoint_that_is_the_kubelets_own_socket_serves_no_plugin(node: Node) -> None:
    assert await refusal(FakePlugin(node.folder), endpoint="kubelet.sock") == (
        "failed to get device plugin options: rpc error: code = Unimplemented desc = unknown service "
        "v1beta1.DevicePlugin"
    )


async def test_error_of_the_options_is_reported_as_it_is(node: Node) -> None:
    assert await refusal(await optionless(node)) == OPTIONS_FAILED


@pytest.mark.parametrize(
    ("wrong", "begin"),
    [
        (("version", "resource_name", "endpoint"), "requested API version"),
        (("resource_name", "endpoint"), "the ResourceName"),
    ],
)
async def test_version_is_looked_at_before_the_name_and_the_name_before_the_endpoint(node: Node, wrong, begin) -> None:
    plugin = FakePlugin(node.folder)

    assert (await refusal(plugin, **dict.fromkeys(wrong, "wrong"))).startswith(begin)


@pytest.mark.parametrize("endpoint", ["../stub.sock", "sub/../../stub.sock", "/../stub.sock"])
async def test_endpoint_may_lead_out_of_the_folder(node: Node, endpoint: str) -> None:
    plugin = FakePlugin(node.folder.parent)
    node.plugins.append(plugin)
    plugin.list(["d0"])
    await plugin.serve()

    caller = FakePlugin(node.folder)
    await caller.register(endpoint=endpoint)
    await node.until(lambda: node.of("devices-listed"))
    await node.tick()

    assert node.status() == (1, 1)


async def test_options_of_the_register_call_are_not_read(node: Node) -> None:
    plugin = await node.plugin("d0")
    await plugin.register(options=api.DevicePluginOptions(pre_start_required=True))
    await node.until(lambda: len(node.of("devices-listed")) == 2)

    await node.settled_pod(1)

    assert "PreStartContainer" not in [call for call, _ in plugin.calls]


async def test_failed_register_makes_the_kubelet_blind_to_the_end_of_the_plugin_that_works(node: Node) -> None:
    plugin = await node.plugin("d0", "d1")
    await refusal(await optionless(node))

    await plugin.stop()
    await plugin.until_no_stream()
    await node.clock.advance(400)

    assert node.status() == (2, 2)
    assert not node.of("plugin-disconnected")
    name = await node.settled_pod(1)
    assert "rpc error: code = Unavailable desc = connection error" in node.message(name)


async def test_register_that_fails_late_makes_it_blind_to_a_plugin_that_registered_meanwhile(node: Node) -> None:
    late = await optionless(node, answers=False)
    registering = asyncio.create_task(refusal(late))
    await late.was_asked.wait()
    plugin = await node.plugin("d0")

    late.may_answer.set()
    assert await registering == OPTIONS_FAILED
    await plugin.stop()
    await plugin.until_no_stream()
    await node.tick()

    assert node.status() == (1, 1)


async def test_devices_stay_until_the_new_plugin_lists_and_it_is_the_one_that_is_asked(node: Node) -> None:
    await node.plugin("d0", "d1")
    silent = SilentLister(node.folder, endpoint="new.sock")
    node.plugins.append(silent)
    await silent.serve()
    await silent.register()
    await node.tick()

    name = await node.settled_pod(1)

    assert node.status() == (2, 2)
    assert ("Allocate", [list(node.devices(name))]) in silent.calls


class SilentLister(FakePlugin):
    """A plugin that never lists."""

    async def ListAndWatch(self, request: api.Empty, context: Any) -> Any:
        await asyncio.Event().wait()
        yield api.ListAndWatchResponse()


async def test_list_of_an_older_stream_brings_devices_back_that_nobody_can_be_asked_for(node: Node) -> None:
    old = await node.plugin("d0", endpoint="old.sock")
    new = await node.plugin("d0", "d1", endpoint="new.sock")
    await new.stop()
    await node.until(lambda: node.of("plugin-disconnected"))

    old.list(["d0", "d1", "d2"])
    await node.until(lambda: len(node.of("devices-listed")) == 3)
    await node.tick()
    name = await node.settled_pod(1)

    assert node.status() == (3, 3)
    assert "Allocate failed due to endpoint &{" in node.message(name)
    assert "} has been stopped, which is unexpected" in node.message(name)


async def test_list_of_an_older_stream_after_the_grace_period_counts_until_the_next_look(node: Node) -> None:
    old = await node.plugin("d0", endpoint="old.sock")
    new = await node.plugin("d0", endpoint="new.sock")
    await new.stop()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.clock.advance(310)
    assert node.status() == (0, 0)

    old.list(["d0"])
    await node.until(lambda: len(node.of("devices-listed")) == 3)
    await node.tick()

    assert node.status() == (0, 0)


async def test_plugin_that_registers_twice_and_ends_has_no_devices(node: Node) -> None:
    plugin = await node.plugin("d0")
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    assert plugin.streams == 2

    await plugin.stop()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.tick()

    assert node.status() == (1, 0)


async def test_plugin_that_comes_back_within_the_grace_period_has_its_devices_again(node: Node) -> None:
    plugin = await node.plugin("d0")
    await node.tick()
    await plugin.stop()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.clock.advance(290)
    assert node.status() == (1, 0)

    await node.plugin("d0", endpoint="again.sock")
    await node.clock.advance(100)

    assert node.status() == (1, 1)


async def test_death_of_a_plugin_does_not_write_the_checkpoint_and_the_end_of_its_resource_does(node: Node) -> None:
    plugin = await node.plugin("d0")
    checkpoint = node.folder / "kubelet_internal_checkpoint"
    await plugin.stop()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.tick()

    assert f'"RegisteredDevices":{{"{RESOURCE}":["d0"]}}' in checkpoint.read_text()
    await node.clock.advance(310)
    assert '"RegisteredDevices":{}' in checkpoint.read_text()


async def test_resource_of_the_checkpoint_is_forgotten_five_minutes_after_the_start(node: Node) -> None:
    await node.plugin("d0")
    await node.tick()

    await node.kubelet.restart()
    await node.clock.advance(290)
    assert node.status() == (0, 0)
    assert f'"{RESOURCE}":[' in (node.folder / "kubelet_internal_checkpoint").read_text()
    await node.clock.advance(20)

    assert '"RegisteredDevices":{}' in (node.folder / "kubelet_internal_checkpoint").read_text()


async def test_plugins_without_end_are_refused_until_others_have_gone(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_MOST_CONNECTIONS", 2)
    first = await node.plugin("d0", endpoint="first.sock")
    silent = await optionless(node, answers=False)
    waiting = asyncio.create_task(refusal(silent, resource_name="example.com/silent"))
    await silent.was_asked.wait()
    other = FakePlugin(node.folder, endpoint="first.sock", resource="example.com/other")

    assert await refusal(other) == "failed to dial device plugin: there are 2 connections to plugins already"
    assert node.of("registration-refused")[-1].resource == "example.com/other"

    silent.may_answer.set()
    assert await waiting == OPTIONS_FAILED
    await first.stop()
    await node.until(lambda: node.of("plugin-disconnected"))
    await node.plugin("d0", endpoint="last.sock")


async def test_register_while_the_kubelet_ends_is_no_refusal_but_a_lost_connection(short_folder: Path) -> None:
    called = asyncio.Event()
    handler = Mock(spec=RegistrationHandler)
    handler.register_called.side_effect = lambda resource: called.set()
    async with asyncio.TaskGroup() as tasks:
        server = RegistrationServer(short_folder, handler, tasks, version("1.34"))
        server.start()
    # The group takes no task any more.
    registering = asyncio.create_task(FakePlugin(short_folder).register())
    await asyncio.wait_for(called.wait(), LIMIT_S)
    await server.stop()

    with pytest.raises(RpcError) as error:
        await asyncio.wait_for(registering, LIMIT_S)
    assert error.value.code == Code.UNAVAILABLE
    handler.registration_refused.assert_not_called()
