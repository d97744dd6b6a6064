"""Volcano's gpu-memory and gpu-number over a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from plugin.framework import AllocationRefusedError, StartError
from plugin.gpumemory import api_objects
from plugin.gpumemory.gpus import Gpu
from plugin.gpumemory.volcano import Strategy, VolcanoPlugin
from tests.support.gpu_memory_world import PODS, World, ids

MEMORY = "volcano.sh/gpu-memory"
NUMBER = "volcano.sh/gpu-number"


def predicated(time: str, index: str = "1", **more: str) -> dict[str, str]:
    return {"volcano.sh/predicate-time": time, "volcano.sh/gpu-index": index, **more}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_objects, "_POLL_S", 0)
    monkeypatch.setattr(api_objects, "_LOCK_RETRY_S", 0)


@pytest.fixture
def make(world: World, make_gpus: Callable[..., Sequence[Gpu]]) -> Callable[..., VolcanoPlugin]:
    """A plugin for GPUs with so many MiB."""

    def make(*memory: int, factor: int = 1, strategy: Strategy = Strategy.SHARE, failures: Any = None) -> VolcanoPlugin:
        return VolcanoPlugin(make_gpus(*memory), memory[0], factor, strategy, failures, world.access, "node-1")

    return make


async def listed(plugin: VolcanoPlugin) -> list[list[tuple[str, str, tuple[int, ...]]]]:
    return [
        [(device.device_id, device.health.value, device.numa_nodes) for device in devices]
        async for devices in plugin.devices()
    ]


def failing(*looks: tuple[str, ...]) -> Callable[[], AsyncIterator[frozenset[str]]]:
    async def failures() -> AsyncIterator[frozenset[str]]:
        for uuids in looks:
            yield frozenset(uuids)

    return failures


async def test_blocks_of_memory_are_computed_from_the_first_gpu(make: Any) -> None:
    assert await listed(make(5, 9, factor=2)) == [[(device, "Healthy", ()) for device in ("0-0", "0-1", "1-0", "1-1")]]


async def test_whole_gpus_have_their_numa_node(make: Any) -> None:
    assert await listed(make(5, 9, strategy=Strategy.NUMBER)) == [
        [("GPU-0", "Healthy", (0,)), ("GPU-1", "Healthy", (1,))]
    ]


@pytest.mark.parametrize(("strategy", "expected"), [(Strategy.SHARE, {NUMBER: "2"}), (Strategy.NUMBER, {})])
async def test_sharing_writes_the_number_of_gpus(world: World, make: Any, strategy: Strategy, expected: Any) -> None:
    async with world.living(make(5, 9, strategy=strategy)):
        pass

    assert await world.capacity() == expected


async def test_a_status_that_cannot_be_written_is_a_failed_start(world: World, make: Any) -> None:
    world.failures.append(("PATCH", "nodes", 11, 500, "x"))

    with pytest.raises(StartError, match=r"^failed to patch gpu resource: x$"):
        async with world.living(make(5)):
            pass
    assert len(world.calls) == 11


async def test_any_container_of_the_earliest_pod_may_be_meant(world: World, make: Any) -> None:
    await world.add_pod("no-time", {MEMORY: 3}, {"volcano.sh/gpu-index": "0"})
    await world.add_pod("pair", [{MEMORY: 1}, {MEMORY: 3}], predicated("5", "1,0"))
    await world.change_node(annotations={"gpu": "2026-11-22T00:00:00Z", "other": "x"})
    plugin = make(16, 16, factor=4)

    async with world.living(plugin):
        answers = await plugin.allocate_all(ids(3, 1))

    assert [dict(answer.envs) for answer in answers] == [
        {"NVIDIA_VISIBLE_DEVICES": "1,0", "VOLCANO_GPU_ALLOCATED": "12", "VOLCANO_GPU_MEMORY_TOTAL": "16"},
        {"NVIDIA_VISIBLE_DEVICES": "1,0", "VOLCANO_GPU_ALLOCATED": "4", "VOLCANO_GPU_MEMORY_TOTAL": "16"},
    ]
    assert (await world.annotations("pair"))["volcano.sh/gpu-assigned"] == "true"
    assert await world.node_annotations() == {"other": "x"}


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        pytest.param(
            predicated("1", **{"volcano.sh/gpu-assigned": "true"}), "failed to find candidate pod", id="served"
        ),
        pytest.param({"volcano.sh/predicate-time": "1"}, "failed to find gpu ids", id="no index"),
        pytest.param(predicated("1", "0,x"), "failed to find gpu ids", id="no number"),
        pytest.param(predicated("1", "0, 1"), "failed to find gpu ids", id="space before a number"),
        pytest.param(predicated("1", "0,2"), "failed to find gpu device", id="no such GPU"),
    ],
)
async def test_refusals_release_the_node(world: World, make: Any, annotations: dict[str, str], text: str) -> None:
    await world.add_pod("p", {MEMORY: 3}, annotations)
    await world.change_node(annotations={"gpu": "now"})
    plugin = make(16, 16)

    async with world.living(plugin):
        with pytest.raises(AllocationRefusedError, match=f"^{text}$"):
            await plugin.allocate_all(ids(3))

    assert await world.node_annotations() == {}


async def test_pods_that_are_lost_do_not_wait(world: World, make: Any) -> None:
    rejected = {"status": {"reason": "UnexpectedAdmissionError"}}
    waiting = {"waiting": {"reason": "x", "message": "rpc: PreStartContainer check failed: y"}}
    unprepared = {"status": {"containerStatuses": [{"name": "c0", "state": waiting}]}}
    for name, status in (("rejected", rejected), ("unprepared", unprepared)):
        await world.add_pod(name, {MEMORY: 3}, predicated("1"))
        await world.client.patch(f"{PODS}/{name}/status", status)
    plugin = make(16, 16)

    async with world.living(plugin):
        with pytest.raises(AllocationRefusedError, match=r"^failed to find candidate pod$"):
            await plugin.allocate_all(ids(3))


async def test_a_mark_that_fails_refuses(world: World, make: Any) -> None:
    await world.add_pod("p", {MEMORY: 3}, predicated("1"))
    plugin = make(16, 16)

    async with world.living(plugin):
        world.failures.append(("PUT", "pods/p", 1, 409, "the object has been modified"))
        with pytest.raises(
            AllocationRefusedError, match=r"^failed to update pod annotation the object has been modified$"
        ):
            await plugin.allocate_all(ids(3))


async def test_a_list_that_never_comes_refuses_and_keeps_the_lock(world: World, make: Any) -> None:
    await world.change_node(annotations={"gpu": "now"})
    plugin = make(16)

    async with world.living(plugin):
        world.failures.append(("GET", "pods", 11, 500, "x"))
        with pytest.raises(AllocationRefusedError, match=r"^kube interactor timedout: timed out waiting"):
            await plugin.allocate_all(ids(3))

    assert await world.node_annotations() == {"gpu": "now"}


@pytest.mark.parametrize(("failures", "expected"), [(5, {}), (6, {"gpu": "now"})])
async def test_the_lock_is_tried_six_times(world: World, make: Any, failures: int, expected: dict[str, str]) -> None:
    await world.change_node(annotations={"gpu": "now"})
    plugin = make(16)

    async with world.living(plugin):
        world.failures.append(("PUT", "nodes", failures, 409, "conflict"))
        with pytest.raises(AllocationRefusedError):
            await plugin.allocate_all(ids(3))

    assert await world.node_annotations() == expected


async def test_whole_gpus_fail_and_the_node_names_them(world: World, make: Any) -> None:
    plugin = make(5, 9, strategy=Strategy.NUMBER, failures=failing((), ("GPU-1",), ("GPU-1",)))

    async with world.living(plugin):
        lists = await listed(plugin)

    assert [[health for _, health, _ in devices] for devices in lists] == [
        ["Healthy", "Healthy"],
        ["Healthy", "Unhealthy"],
        ["Healthy", "Unhealthy"],
    ]
    assert await world.node_annotations() == {"volcano.sh/gpu-unhealthy-ids": "1"}
    assert sum(method == "PATCH" for method, _ in world.calls) == 1


async def test_parts_of_a_failed_gpu_stay_healthy(world: World, make: Any) -> None:
    plugin = make(1, 1, failures=failing((), ("GPU-0",)))

    async with world.living(plugin):
        lists = await listed(plugin)

    assert lists == [[("0-0", "Healthy", ()), ("1-0", "Healthy", ())]] * 2
    assert await world.node_annotations() == {"volcano.sh/gpu-unhealthy-ids": "0"}


async def test_the_first_quiet_wait_takes_an_older_annotation_back(world: World, make: Any) -> None:
    await world.change_node(annotations={"volcano.sh/gpu-unhealthy-ids": "0,1"})
    plugin = make(1, 1, strategy=Strategy.NUMBER, failures=failing((), (), (), ()))

    async with world.living(plugin):
        assert len(await listed(plugin)) == 1

    assert await world.node_annotations() == {}
    assert sum(method == "PATCH" for method, _ in world.calls) == 1
