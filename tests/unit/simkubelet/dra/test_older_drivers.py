"""Drivers of kubelets before 1.34, which watch no connections, and of 1.32, which know one plugin of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.dra_node import DRIVER, DraWorld, pod_object

NODE_WIPE = "spec.nodeName=node-1"
DRIVER_WIPE = f"spec.driver={DRIVER},{NODE_WIPE}"
OLDER = pytest.mark.parametrize("minor", ["1.32", "1.33"])
MakeWorld = Callable[[str], DraWorld]


async def started(make_world: MakeWorld, minor: str) -> DraWorld:
    world = make_world(minor)
    await world.manager("start")
    await world.clock.advance(0)
    return world


async def wipes(world: DraWorld) -> list[str]:
    answer: list[str] = (await world.manager("slices"))["wipes"]
    return answer


async def deregister(world: DraWorld, endpoint: str) -> None:
    await world.manager("deregister", driver=DRIVER, endpoint=str(world.folder / endpoint))
    await world.clock.advance(0)


async def plugins(world: DraWorld) -> list[str]:
    answer = await world.manager("plugin", driver=DRIVER)
    return [one["endpoint"].rpartition("/")[2] for one in answer.get("plugins", ())]


@OLDER
@pytest.mark.parametrize(
    ("services", "service"),
    [
        (["v1.DRAPlugin", "v1beta1.DRAPlugin"], "v1beta1"),
        (["v1alpha3.NodeService", "v1beta1.DRAPlugin"], "v1beta1"),
        (["1.0.0"], "v1alpha3"),
    ],
)
async def test_newest_service_is_called_and_the_oldest_of_an_unknown_list(
    make_world: MakeWorld, minor: str, services: list[str], service: str
) -> None:
    world = await started(make_world, minor)
    assert (await world.register("dra.sock", *services))["ok"]
    await world.drive("serve", endpoint="dra.sock", serve=["v1", "v1beta1", "v1alpha3"])
    await world.put_claim("c1", "p1")

    assert (await world.manager("prepare", pod=pod_object("p1", "c1")))["ok"]

    [call] = (await world.drive("calls"))["calls"]
    assert call["service"] == service


@OLDER
async def test_dead_driver_keeps_its_slices_while_it_is_registered(make_world: MakeWorld, minor: str) -> None:
    world = await started(make_world, minor)
    await world.register()

    await world.clock.advance(300)

    assert await wipes(world) == [NODE_WIPE]


async def test_slices_are_wiped_at_once_in_1_32(make_world: MakeWorld) -> None:
    world = await started(make_world, "1.32")

    for count in (1, 2):
        await world.register()
        await deregister(world, "dra.sock")
        assert await wipes(world) == [NODE_WIPE, *[DRIVER_WIPE] * count]


async def test_driver_has_30_s_to_return_in_1_33(make_world: MakeWorld) -> None:
    world = await started(make_world, "1.33")
    await world.register()
    await deregister(world, "dra.sock")
    await world.clock.advance(29)
    await world.register()
    await world.clock.advance(60)
    assert await wipes(world) == [NODE_WIPE]

    await deregister(world, "dra.sock")
    await world.clock.advance(31)
    assert await wipes(world) == [NODE_WIPE, DRIVER_WIPE]


@pytest.mark.parametrize(("minor", "left"), [("1.32", []), ("1.33", ["new.sock"])])
async def test_end_of_an_old_instance_ends_the_new_one_in_1_32(
    make_world: MakeWorld, minor: str, left: list[str]
) -> None:
    world = await started(make_world, minor)
    await world.register("old.sock")
    await world.register("new.sock")

    await deregister(world, "old.sock")

    assert await plugins(world) == left
    assert await wipes(world) == ([NODE_WIPE] if left else [NODE_WIPE, DRIVER_WIPE])


@OLDER
async def test_claim_of_a_missing_driver_is_kept_for_its_pod(make_world: MakeWorld, minor: str) -> None:
    world = await started(make_world, minor)
    await world.put_claim("c1", "p1")
    pod = pod_object("p1", "c1")

    answer = await world.manager("prepare", pod=pod)

    absent = f"plugin name {DRIVER} not found in the list of registered DRA plugins"
    assert answer["error"] == f"failed to get gRPC client for driver {DRIVER}: {absent}"
    assert (await world.manager("might_need_unprepare", uid="p1"))["value"]
    answer = await world.manager("unprepare", pod=pod)
    assert answer["error"] == f"get gRPC client for DRA driver {DRIVER}: {absent}"
