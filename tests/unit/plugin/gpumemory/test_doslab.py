"""doslab's gpu-memory over a real API server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from plugin.errors import FatalError
from plugin.framework import AllocationRefusedError, StartError
from plugin.gpumemory.doslab import DoslabOriginal, DoslabPlugin
from tests.support.gpu_memory_world import World, ids

MEMORY = "doslab.io/gpu-memory"


def article(time: str, gpu: str = "GPU-x", assigned: str = "false") -> dict[str, str]:
    return {"DOSLAB_IO_GPU_ASSUME_TIME": time, "DOSLAB_IO_GPU_ASSIGNED": assigned, "DOSLAB_IO_GPU_UUID": gpu}


def original(time: str, gpu: str = "GPU-x", **more: str) -> dict[str, str]:
    return {"doslab.io/gpu-assume-time": time, "doslab.io/gpu-assigned": "false", "doslab.io/gpu-uuid": gpu, **more}


GEM = {"doslab.io/gem-scheduler-ip": "10.0.0.1", "doslab.io/gem-podmanager-port": "5"}


@pytest.fixture
def plugin(world: World, make_gpus: Any) -> DoslabPlugin:
    return DoslabPlugin(make_gpus(4, 3), world.access, "node-1")


@pytest.fixture
def as_it_is(world: World, make_gpus: Any, tmp_path: Path) -> DoslabOriginal:
    return DoslabOriginal(make_gpus(4, 3), world.access, "node-1", tmp_path)


async def test_there_is_a_device_for_each_mib_of_every_gpu(plugin: DoslabPlugin) -> None:
    async with aclosing(plugin.devices()) as lists:
        devices = await anext(lists)

    assert [device.device_id for device in devices] == [
        *(f"fakeID---0---{number}" for number in range(4)),
        *(f"fakeID---1---{number}" for number in range(3)),
    ]
    assert {(device.health.value, device.numa_nodes) for device in devices} == {("Healthy", ())}


async def test_gpus_are_in_the_nodes_status_while_it_lives(world: World, plugin: DoslabPlugin) -> None:
    async with world.living(plugin):
        assert await world.capacity() == {"doslab.io/gpu-count": "2", "doslab.io/gpu-core": "200"}

    assert await world.capacity() == {"doslab.io/gpu-count": "0", "doslab.io/gpu-core": "0"}
    assert [method for method, _ in world.calls] == ["GET", "PUT", "GET", "PUT"]


async def test_a_conflict_at_the_start_is_a_failed_start(world: World, plugin: DoslabPlugin) -> None:
    world.failures.append(("PUT", "nodes/node-1/status", 1, 409, "the object has been modified"))

    with pytest.raises(StartError, match=r"^patch node status fail$"):
        async with world.living(plugin):
            pass


async def test_without_the_api_server_it_ends_as_by_a_panic(world: World, plugin: DoslabPlugin) -> None:
    world.failures.append(("GET", "nodes", 1, None, "connection refused"))

    with pytest.raises(FatalError) as raised:
        async with world.living(plugin):
            pass
    assert raised.value.exit_status == 2


async def test_a_server_that_goes_does_not_keep_it_from_stopping(world: World, plugin: DoslabPlugin) -> None:
    async with world.living(plugin):
        world.failures.append(("GET", "nodes", 1, None, "connection refused"))


async def test_the_earliest_pod_that_wants_as_much_is_served(world: World, plugin: DoslabPlugin) -> None:
    await world.add_pod("a-late", {MEMORY: 3}, article("20", "GPU-late"))
    await world.add_pod("b-small", {MEMORY: 2}, article("1"))
    await world.add_pod("c-done", {MEMORY: 3}, article("2", assigned="true"))
    await world.add_pod("d-stray", {MEMORY: 3})
    await world.add_pod("e-elsewhere", {MEMORY: 3}, article("3"), node="node-2")
    await world.add_pod("f-runs", {MEMORY: 3}, article("4"), phase="Running")
    await world.add_pod("g-early", [{MEMORY: 1}, {MEMORY: 2}], article("10", "GPU-early"))

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(3))

    assert dict(answer.envs) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-early",
        "DOSLAB_IO_GPU_UUID": "GPU-early",
        "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD": "3",
        "DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER": "3",
        "DOSLAB_IO_GPU_RESOURCE_TOTAL": "7",
    }
    assert [field.name for field, _ in answer.ListFields()] == ["envs"]
    assert await world.annotations("g-early") == article("10", "GPU-early", "true")
    assert await world.annotations("a-late") == article("20", "GPU-late")


async def test_a_time_that_is_not_a_number_comes_last(world: World, plugin: DoslabPlugin) -> None:
    await world.add_pod("bad", {MEMORY: 3}, article("soon", "GPU-bad"))
    await world.add_pod("good", {MEMORY: 3}, article("99", "GPU-good"))

    async with world.living(plugin):
        given = [(await plugin.allocate_all(ids(3)))[0].envs["NVIDIA_VISIBLE_DEVICES"] for _ in range(2)]

    assert given == ["GPU-good", "GPU-bad"]


async def test_several_containers_in_one_call_are_one_pod(world: World, plugin: DoslabPlugin) -> None:
    await world.add_pod("pair", [{MEMORY: 1}, {MEMORY: 2}], article("1"))

    async with world.living(plugin):
        answers = await plugin.allocate_all(ids(1, 2))

    used = [answer.envs["DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER"] for answer in answers]
    assert (used, answers[0].envs["DOSLAB_IO_GPU_RESOURCE_USED_BY_POD"]) == (["1", "2"], "3")


async def test_no_gpu_named_is_an_empty_name(world: World, plugin: DoslabPlugin) -> None:
    annotations = article("1")
    del annotations["DOSLAB_IO_GPU_UUID"]
    await world.add_pod("nameless", {MEMORY: 3}, annotations)

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(3))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("annotations", "failure", "text"),
    [
        pytest.param({}, None, "not found candidate pod", id="no candidate"),
        pytest.param(article("1"), None, "not found assume pod", id="another size"),
        pytest.param(article("1"), ("GET", "/pods", 1, 500, "x"), "not found candidate pod", id="no list"),
    ],
)
async def test_refusals(
    world: World, plugin: DoslabPlugin, annotations: dict[str, str], failure: Any, text: str
) -> None:
    await world.add_pod("p", {MEMORY: 3}, annotations)
    async with world.living(plugin):
        world.failures += [failure] if failure else []
        with pytest.raises(AllocationRefusedError, match=f"^{text}$"):
            await plugin.allocate_all(ids(2))


async def test_a_conflict_refuses_and_marks_nothing(world: World, plugin: DoslabPlugin) -> None:
    await world.add_pod("p", {MEMORY: 3}, article("1"))
    async with world.living(plugin):
        world.failures.append(("PUT", "pods/p", 1, 409, "the object has been modified"))
        with pytest.raises(AllocationRefusedError, match=r"^failed to update pod annotation$"):
            await plugin.allocate_all(ids(3))
    assert await world.annotations("p") == article("1")


async def test_a_pod_that_has_changed_since_is_a_conflict(world: World, plugin: DoslabPlugin) -> None:
    await world.add_pod("p", {MEMORY: 3}, article("1"))
    async with world.living(plugin):
        (pod,) = await plugin._pending_pods()
        await world.client.patch(pod.path, {"metadata": {"annotations": {"other": "x"}}})

        error = await plugin.replace(pod, {"a": "b"})

    assert error is not None
    assert error.status == 409


async def test_the_original_knows_other_names_and_more_variables(world: World, as_it_is: DoslabOriginal) -> None:
    await world.add_pod("p", {MEMORY: 3}, original("1", "GPU-p", **GEM))

    async with world.living(as_it_is):
        (answer,) = await as_it_is.allocate_all(ids(3))

    assert dict(answer.envs) == {
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        "LD_PRELOAD": "/kubeshare/library/libgemhook.so.1",
        "POD_MANAGER_IP": "10.0.0.1",
        "POD_MANAGER_PORT": "5",
        "POD_NAME": "p",
        "NVIDIA_VISIBLE_DEVICES": "GPU-p",
        "DOSLAB_IO_GPU_UUID": "GPU-p",
        "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD": "3",
        "DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER": "3",
        "DOSLAB_IO_GPU_RESOURCE_TOTAL": "7",
    }
    assert (await world.annotations("p"))["doslab.io/gpu-assigned"] == "true"


async def test_the_original_waits_for_the_gem_scheduler(world: World, as_it_is: DoslabOriginal) -> None:
    await world.add_pod("p", {MEMORY: 3}, original("1"))
    async with world.living(as_it_is):
        asking = asyncio.create_task(as_it_is.allocate_all(ids(3)))
        await world.until_called("GET", "/api/v1/namespaces/default/pods/p")
        world.failures.append(("GET", "pods/p", 1, 500, "no luck"))
        await world.client.patch("/api/v1/namespaces/default/pods/p", {"metadata": {"annotations": GEM}})
        (answer,) = await asking

    assert answer.envs["POD_MANAGER_PORT"] == "5"


async def test_the_original_gives_the_gem_scheduler_up(
    world: World, as_it_is: DoslabOriginal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DoslabOriginal, "_TRY_S", 0)
    await world.add_pod("p", {MEMORY: 3}, original("1"))

    async with world.living(as_it_is):
        with pytest.raises(AllocationRefusedError, match=r"^no gem-scheduler-ip, gem-podmanager-port or gem-file$"):
            await as_it_is.allocate_all(ids(3))

    assert world.calls.count(("GET", "/api/v1/namespaces/default/pods/p")) == 100


async def test_the_original_compares_with_the_last_pending_pod(world: World, as_it_is: DoslabOriginal) -> None:
    await world.add_pod("a", {MEMORY: 3}, original("1", **GEM))
    await world.add_pod("z", {})

    async with world.living(as_it_is):
        with pytest.raises(AllocationRefusedError, match=r"^not found assume pod$"):
            await as_it_is.allocate_all(ids(3))


async def test_a_socket_left_behind_is_in_the_originals_way(
    world: World, as_it_is: DoslabOriginal, tmp_path: Path
) -> None:
    (tmp_path / "doslab.sock").touch()

    with pytest.raises(StartError, match=r"bind: address already in use$"):
        async with world.living(as_it_is):
            pass


def test_only_the_articles_plugin_says_that_it_goes() -> None:
    assert (DoslabPlugin.last_list, DoslabOriginal.last_list) == ((), None)
