"""A plugin that never answers one of its calls: who waits for it, who does not, and for how long.

The kubelet waits without limit for all but PreStartContainer (30 s), GetInfo (1 s) and NotifyRegistrationStatus (5 s).
Pods are admitted one after the other, so one that waits for its plugin keeps all later ones waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.devices import endpoint
from simkubelet.node_tree import PLUGINS_REGISTRY
from simkubelet.registration import plugin_registration
from tests.support.node import FakePlugin, Node
from tests.support.patience import LIMIT_S
from tests.support.silent_plugin import DEADLINE_TEXTS, SilentRegistrar, listed_silent_plugin, silent_plugin, until_true
from tests.support.watched_plugin import WatchedPlugin

OTHER = "example.com/other"


async def assert_others_are_listed(node: Node) -> None:
    """A plugin that comes now is registered, and its lists count."""
    other = await node.plugin("o0", endpoint="other.sock", resource=OTHER)
    await node.tick()
    assert node.status(OTHER) == (1, 1)
    listed = len(node.of("devices-listed"))
    other.list(["o0", "o1"])
    await node.until(lambda: len(node.of("devices-listed")) > listed)
    await node.tick()
    assert node.status(OTHER) == (2, 2)


def pod_of_other(node: Node) -> str:
    return node.pod(None, containers=[{"name": "c", "image": "none", "resources": {"limits": {OTHER: 1}}}])


async def assert_kubelet_restarts(node: Node) -> None:
    """A stop does not wait either, and the next kubelet serves all clients."""
    async with asyncio.timeout(LIMIT_S):
        await node.kubelet.restart()
    await node.plugin("d0", endpoint="next.sock")
    await node.tick()
    assert node.status() == (1, 1)


async def test_options_keep_nobody_but_the_caller_waiting(node: Node) -> None:
    plugin = await silent_plugin(node, "GetDevicePluginOptions")
    registering = asyncio.create_task(plugin.register())
    await plugin.silence.until_asked()

    await assert_others_are_listed(node)
    assert node.phase(await node.settled_pod(None)) == "Running"
    assert node.status() == (None, None)
    assert plugin.silence.time_left_s is None
    assert not registering.done()

    await assert_kubelet_restarts(node)
    await plugin.silence.until_given_up()
    with pytest.raises(RpcError) as failure:
        await registering
    assert failure.value.code == Code.UNAVAILABLE


async def test_plugin_without_list_has_no_resource(node: Node) -> None:
    plugin = await silent_plugin(node, "ListAndWatch")
    await plugin.register()
    await plugin.silence.until_asked()

    await assert_others_are_listed(node)
    name = await node.settled_pod(1)

    assert node.status() == (None, None)
    # What the node does not know is no reason to refuse a pod.
    assert (node.phase(name), node.devices(name)) == ("Running", ())
    assert plugin.silence.time_left_s is None
    assert not node.of("plugin-disconnected")
    await assert_kubelet_restarts(node)
    await plugin.silence.until_given_up()


@pytest.mark.parametrize("call", ["GetPreferredAllocation", "Allocate"])
async def test_pod_that_waits_for_its_plugin_keeps_later_pods_waiting_and_no_plugin(node: Node, call: str) -> None:
    plugin = await listed_silent_plugin(node, call, "d0", "d1")
    first = node.pod(1)
    await plugin.silence.until_asked()
    later = node.pod(None)

    await assert_others_are_listed(node)
    of_other = pod_of_other(node)
    plugin.list(["d0", "d1", "d2"])
    await node.until(lambda: ("d0", "d1", "d2") in [event.healthy for event in node.of("devices-listed")])
    await node.clock.advance(600)

    # The node continues to report, whatever its pods wait for.
    assert (node.status(), node.status(OTHER)) == ((3, 3), (2, 2))
    assert [node.phase(name) for name in (first, later, of_other)] == ["Pending"] * 3
    assert plugin.silence.time_left_s is None

    plugin.silence.may_answer.set()
    await node.until(lambda: "Pending" not in [node.phase(name) for name in (first, later, of_other)])
    assert [node.phase(name) for name in (first, later, of_other)] == ["Running"] * 3


@pytest.mark.parametrize("call", ["GetPreferredAllocation", "Allocate"])
async def test_kubelet_that_stops_gives_up_the_call_and_the_next_one_admits_the_pod(node: Node, call: str) -> None:
    plugin = await listed_silent_plugin(node, call)
    name = node.pod(1)
    await plugin.silence.until_asked()

    async with asyncio.timeout(LIMIT_S):
        await node.kubelet.stop()
    await plugin.silence.until_given_up()
    assert node.phase(name) == "Pending"

    await node.kubelet.start()
    await node.until(lambda: node.phase(name) == "Failed")
    # As after every restart, the pod comes before its plugin.
    assert node.message(name).startswith("Pod was rejected: ")


async def test_pre_start_keeps_its_own_pod_waiting_for_30_seconds(node: Node) -> None:
    plugin = await listed_silent_plugin(node, "PreStartContainer")
    waiting = node.pod(1)
    await plugin.silence.until_asked()

    assert plugin.silence.time_left_s == pytest.approx(30, rel=0.5)
    assert node.phase(await node.settled_pod(None)) == "Running"
    await assert_others_are_listed(node)
    assert node.phase(waiting) == "Pending"

    plugin.silence.may_answer.set()
    await node.until(lambda: node.phase(waiting) == "Running")


async def test_pre_start_that_takes_too_long_is_an_error_of_the_container(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PRE_START_CONTAINER_TIMEOUT_S", 0.05)
    plugin = await listed_silent_plugin(node, "PreStartContainer")

    name = node.pod(1)
    await node.until(lambda: any("PreStartContainer" in text for _, text in node.pod_events(name)))

    error = "Error: device plugin PreStartContainer rpc failed with err: rpc error: code = DeadlineExceeded desc = "
    messages = {f"{error}{text}" for text in DEADLINE_TEXTS}
    assert [reason for reason, message in node.pod_events(name) if message in messages] == ["Failed"]
    await plugin.silence.until_given_up()
    assert node.devices(name) == ("d0",)


async def test_kubelet_that_stops_gives_up_pre_start(node: Node) -> None:
    plugin = await listed_silent_plugin(node, "PreStartContainer")
    node.pod(1)
    await plugin.silence.until_asked()

    await assert_kubelet_restarts(node)
    await plugin.silence.until_given_up()


# The plugin watcher


@pytest.fixture
def watch(node: Node) -> Callable[..., Any]:
    """Serves a plugin and its registrar: ``await watch("x.sock", OTHER, call="GetInfo")``."""

    async def serve(name: str, resource: str, call: str | None = None) -> WatchedPlugin:
        service = FakePlugin(node.folder, endpoint=name, resource=resource)
        service.list(["d0"])
        await service.serve()
        socket = node.folder.parent / PLUGINS_REGISTRY / name
        info = {"name": resource, "endpoint": str(node.folder / name)}
        silent = call is not None
        plugin = (
            SilentRegistrar(socket, node.clock, call=call, **info)
            if silent
            else WatchedPlugin(socket, node.clock, **info)
        )
        await plugin.serve()
        node.plugins += [service, plugin]  # type: ignore[list-item] - both are stopped
        return plugin

    return serve


@pytest.mark.parametrize(("call", "limit_s"), [("GetInfo", 1.0), ("NotifyRegistrationStatus", 5.0)])
async def test_registrar_keeps_nobody_waiting(node: Node, watch: Callable[..., Any], call: str, limit_s: float) -> None:
    plugin = await watch("silent.sock", "example.com/stub", call)
    await until_true(node, lambda: plugin.silence.is_asked)
    other = await watch("other.sock", OTHER)
    await until_true(node, lambda: other.verdicts)

    assert other.verdicts == [(True, "")]
    # gRPC rounds the time up on its way.
    assert plugin.silence.time_left_s == pytest.approx(limit_s, rel=0.5)
    await assert_kubelet_restarts(node)


async def test_registrar_that_is_silent_to_get_info_is_asked_again(
    node: Node, watch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin_registration, "_GET_INFO_TIMEOUT_S", 0.05)
    plugin = await watch("silent.sock", "example.com/stub", "GetInfo")
    await until_true(node, lambda: plugin.silence.is_given_up)

    plugin.silence.may_answer.set()
    await until_true(node, lambda: plugin.verdicts)

    assert plugin.verdicts == [(True, "")]
    error = (
        f"RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket {plugin.socket}, "
        "err: rpc error: code = DeadlineExceeded desc = "
    )
    assert any(f"{error}{text}" in caplog.text for text in DEADLINE_TEXTS)


async def test_registrar_that_is_silent_to_its_verdict_is_registered(
    node: Node, watch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(plugin_registration, "_NOTIFY_TIMEOUT_S", 0.05)
    plugin = await watch("silent.sock", "example.com/stub", "NotifyRegistrationStatus")
    await until_true(node, lambda: plugin.silence.is_given_up)
    await until_true(node, lambda: node.status() == (1, 1))

    error = (
        f"failed to send registration status at socket {plugin.socket}, err: : "
        "rpc error: code = DeadlineExceeded desc = "
    )
    await until_true(node, lambda: any(f"{error}{text}" in caplog.text for text in DEADLINE_TEXTS))
