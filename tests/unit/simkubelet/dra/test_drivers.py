"""Drivers register, are called by the right instance and service, and lose their slices when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simkubelet.apis.dra import NodePrepareResourcesRequest, NodePrepareResourcesResponse
from simkubelet.stdio.dra_node import ObjectBook
from tests.support.dra_node import DRIVER, DraWorld, pod_object
from tests.support.patience import LIMIT_S, until

NODE_WIPE = "spec.nodeName=node-1"
DRIVER_WIPE = f"spec.driver={DRIVER},{NODE_WIPE}"


def path(world: DraWorld, endpoint: str) -> str:
    return str(world.folder / endpoint)


async def wipes(world: DraWorld) -> list[str]:
    answer: list[str] = (await world.manager("slices"))["wipes"]
    return answer


async def prepare(world: DraWorld, claim: str) -> dict[str, Any]:
    """Have a claim prepared, and return the driver's call."""
    await world.put_claim(claim, claim)
    assert (await world.manager("prepare", pod=pod_object(claim, claim)))["ok"]
    [call] = (await world.drive("calls"))["calls"]
    found: dict[str, Any] = call
    return found


@pytest.mark.parametrize(
    ("services", "service"),
    [
        pytest.param(["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1", id="newest first"),
        pytest.param(["v1beta1.DRAPlugin", "v1.DRAPlugin"], "v1beta1", id="oldest first"),
        pytest.param(
            ["v9.DRAPlugin", "v1alpha1.DRAResourceHealth", "v1beta1.DRAPlugin"], "v1beta1", id="unknown first"
        ),
    ],
)
async def test_plugin_is_called_by_its_first_known_service(world: DraWorld, services: list[str], service: str) -> None:
    await world.drive("serve", endpoint="b.sock", serve=["v1", "v1beta1"])
    await world.register("b.sock", *services)

    call = await prepare(world, "c1")

    assert (call["endpoint"], call["service"]) == ("b.sock", service)


@pytest.mark.parametrize(
    ("services", "reason"),
    [
        pytest.param([], "empty list of supported gRPC services (aka supported versions)", id="none"),
        pytest.param(
            ["v9", "1.0.0"],
            'none of services supported by the plugin (["v9" "1.0.0"]) are supported by the kubelet '
            '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])',
            id="unknown",
        ),
    ],
)
async def test_plugin_without_known_service_is_refused(world: DraWorld, services: list[str], reason: str) -> None:
    endpoint = path(world, "b.sock")

    answer = await world.manager("register", driver=DRIVER, endpoint=endpoint, services=services)

    head = f"invalid supported gRPC versions of DRA driver plugin {DRIVER} at endpoint {endpoint}"
    assert (answer["stage"], answer["error"]) == ("validate", f"{head}: {reason}")


async def test_registered_endpoint_is_refused_a_second_time(world: DraWorld) -> None:
    answer = await world.register()

    error = f"endpoint {path(world, 'dra.sock')} already registered for DRA driver plugin {DRIVER}"
    assert (answer["stage"], answer["error"]) == ("register", error)


async def test_newest_connected_instance_is_called(world: DraWorld) -> None:
    await world.serve("new.sock")
    assert (await prepare(world, "c1"))["endpoint"] == "new.sock"

    await world.drive("stop", endpoint="new.sock")
    await world.until_connected(DRIVER, path(world, "new.sock"), is_connected=False)
    assert (await prepare(world, "c2"))["endpoint"] == "dra.sock"

    await world.drive("serve", endpoint="new.sock", serve=["v1"])
    await world.until_connected(DRIVER, path(world, "new.sock"))
    assert (await prepare(world, "c3"))["endpoint"] == "new.sock"


async def test_newest_instance_is_called_where_none_is_connected(world: DraWorld) -> None:
    for endpoint in ("b.sock", "c.sock"):
        await world.register(endpoint)
    await world.drive("stop", endpoint="dra.sock")
    await world.until_connected(DRIVER, path(world, "dra.sock"), is_connected=False)

    assert (await world.manager("plugin", driver=DRIVER))["used"] == path(world, "c.sock")


async def test_slices_of_the_node_are_wiped_at_the_start(make_world: Callable[[], DraWorld]) -> None:
    world = make_world()
    for name, node in (("s1", "node-1"), ("s2", "node-2")):
        slice_ = {"metadata": {"name": name}, "spec": {"driver": DRIVER, "nodeName": node}}
        await world.manager("put", kind="ResourceSlice", object=slice_)

    await world.manager("start", node="node-1")
    await world.clock.advance(0)

    answer = await world.manager("slices")
    assert (answer["slices"], answer["wipes"]) == (["s2"], [NODE_WIPE])


async def test_slices_of_a_driver_are_wiped_30_s_after_its_end(world: DraWorld) -> None:
    await world.manager("deregister", driver=DRIVER, endpoint=path(world, "dra.sock"))

    await world.clock.advance(29.9)
    assert await wipes(world) == [NODE_WIPE]
    await world.clock.advance(0.2)
    assert await wipes(world) == [NODE_WIPE, DRIVER_WIPE]


async def test_killed_driver_that_stays_registered_loses_its_slices(world: DraWorld) -> None:
    await world.drive("stop", endpoint="dra.sock")
    await world.until_connected(DRIVER, path(world, "dra.sock"), is_connected=False)

    await world.clock.advance(31)
    assert await wipes(world) == [NODE_WIPE, DRIVER_WIPE]

    await world.clock.advance(300)
    assert await wipes(world) == [NODE_WIPE, DRIVER_WIPE]


async def test_driver_that_returns_in_time_keeps_its_slices(world: DraWorld) -> None:
    await world.drive("stop", endpoint="dra.sock")
    await world.until_connected(DRIVER, path(world, "dra.sock"), is_connected=False)
    await world.clock.advance(29)

    await world.drive("serve", endpoint="dra.sock", serve=["v1"])
    await world.until_connected(DRIVER, path(world, "dra.sock"))
    await world.clock.advance(60)

    assert await wipes(world) == [NODE_WIPE]


async def test_wipe_is_tried_for_four_minutes(
    make_world: Callable[[], DraWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    tries: list[float] = []

    async def refuse(book: ObjectBook, selector: Any) -> bool:
        tries.append(world.clock.now())
        return False

    monkeypatch.setattr(ObjectBook, "delete_resource_slices", refuse)
    monkeypatch.setattr("simkubelet.dra.slice_wipes.random.random", lambda: 0.0)

    await world.manager("start")
    await world.clock.advance(3600)

    assert tries == [0, 1, 3, 7, 15, 31, 63, 127, 255]


async def test_plugin_of_the_watched_folder_is_registered(make_world: Callable[[], DraWorld]) -> None:
    world = make_world()
    await world.drive("serve", endpoint="dra.sock", serve=["v1"])
    services = ["v1.DRAPlugin"]
    socket = "plugins_registry/d.sock"
    await world.drive("announce", socket=socket, driver=DRIVER, endpoint="dra.sock", services=services)

    await world.manager("start", watch=True)
    [call] = (await world.drive("calls", want=1, timeout_ms=LIMIT_S * 1000))["calls"]

    assert call == {"rpc": "notify", "registered": True, "error": ""}
    await world.until_connected(DRIVER, path(world, "dra.sock"))

    await world.drive("stop", endpoint=socket)
    await until(lambda: world.clock.next_deadline() is not None)
    async with asyncio.timeout(LIMIT_S):
        while world.node.manager.plugins.of_driver(DRIVER):
            await world.clock.advance(1)


async def until_idle(world: DraWorld) -> None:
    """Let half an hour pass in which nobody calls the driver."""
    [plugin] = world.node.manager.plugins.of_driver(DRIVER)
    before = plugin._channel._connection
    await world.clock.advance(1800)
    await until(lambda: plugin.hangs or (plugin._channel._connection is not before and plugin.is_connected))


async def test_idle_connection_is_made_again(make_world: Callable[[str], DraWorld]) -> None:
    world = make_world("1.34.2")
    await world.manager("start")
    await world.serve()
    before = await wipes(world)

    await until_idle(world)

    assert (await prepare(world, "c1"))["claims"] == ["default/c1/c1-uid"]
    assert await wipes(world) == before


async def test_idle_connection_hangs_in_the_first_patches_of_1_34(make_world: Callable[[str], DraWorld]) -> None:
    world = make_world("1.34.1")
    await world.manager("start")
    await world.serve()
    await world.put_claim("c1", "c1")
    await world.clock.advance(1799)
    assert (await world.manager("prepare", pod=pod_object("c1", "c1")))["ok"]

    await until_idle(world)
    [plugin] = world.node.manager.plugins.of_driver(DRIVER)
    asked = NodePrepareResourcesRequest(), NodePrepareResourcesResponse
    call = asyncio.create_task(plugin.call("NodePrepareResources", *asked))
    await world.clock.advance(3600)

    assert plugin.is_connected
    assert not call.done()
    call.cancel()
