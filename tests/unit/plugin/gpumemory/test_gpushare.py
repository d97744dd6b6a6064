"""Aliyun's gpushare over a real API server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from plugin.apiserver import ServerAccess
from plugin.errors import FatalError
from plugin.gpumemory import gpushare
from plugin.gpumemory.gpus import Gpu
from plugin.gpumemory.gpushare import GpusharePlugin, MemoryUnit
from tests.support.gpu_memory_world import World, ids

MEM = "aliyun.com/gpu-mem"


def assumed(time_: str, index: str = "8", assigned: str = "false") -> dict[str, str]:
    return {
        "ALIYUN_COM_GPU_MEM_ASSUME_TIME": time_,
        "ALIYUN_COM_GPU_MEM_ASSIGNED": assigned,
        "ALIYUN_COM_GPU_MEM_IDX": index,
    }


@pytest.fixture
def make(world: World, make_gpus: Callable[..., Sequence[Gpu]]) -> Callable[..., GpusharePlugin]:
    """A plugin for GPUs with so many MiB; the minor numbers begin with 7."""

    def make(*memory: int, unit: MemoryUnit = MemoryUnit.GIB, **more: Any) -> GpusharePlugin:
        gpus = make_gpus(*memory)
        return GpusharePlugin(
            gpus, unit.of(memory[0]), unit, more.pop("failures", None), world.access, "node-1", **more
        )

    return make


async def listed(plugin: GpusharePlugin) -> list[str]:
    async with aclosing(plugin.devices()) as lists:
        return [device.device_id for device in await anext(lists)]


async def test_every_gpu_has_as_much_as_the_first(make: Any) -> None:
    assert await listed(make(2047, 9000)) == ["GPU-0-_-0", "GPU-1-_-0"]
    assert await listed(make(2, 9, unit=MemoryUnit.MIB)) == ["GPU-0-_-0", "GPU-0-_-1", "GPU-1-_-0", "GPU-1-_-1"]


async def test_the_number_of_gpus_is_written_once_and_stays(world: World, make: Any) -> None:
    for _ in range(2):
        async with world.living(make(1024, 1024)):
            pass

    assert await world.capacity() == {"aliyun.com/gpu-count": "2"}
    assert [method for method, _ in world.calls] == ["GET", "PATCH", "GET"]


async def test_a_start_without_the_api_fails(world: World, make: Any) -> None:
    world.failures.append(("GET", "nodes", 1, 500, "x"))

    with pytest.raises(FatalError) as raised:
        async with world.living(make(1024)):
            pass
    assert raised.value.exit_status == 1


async def test_the_pod_that_is_meant_gets_its_gpu_and_a_new_time(world: World, make: Any) -> None:
    plugin = make(4096, 4096)
    await world.add_pod("later", {MEM: 3}, assumed("20", "7"))
    await world.add_pod("p", {MEM: 3}, assumed("10", "8"))
    began = time.time_ns()

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(3))

    assert dict(answer.envs) == {
        "NVIDIA_VISIBLE_DEVICES": "8",
        "ALIYUN_COM_GPU_MEM_IDX": "8",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "3",
        "ALIYUN_COM_GPU_MEM_DEV": "4",
    }
    marked = await world.annotations("p")
    assert marked["ALIYUN_COM_GPU_MEM_ASSIGNED"] == "true"
    assert int(marked["ALIYUN_COM_GPU_MEM_ASSUME_TIME"]) >= began
    assert await world.annotations("later") == assumed("20", "7")


async def test_a_time_that_is_not_a_number_comes_first(world: World, make: Any) -> None:
    plugin = make(4096, 4096)
    await world.add_pod("good", {MEM: 3}, assumed("1", "7"))
    await world.add_pod("odd", {MEM: 3}, assumed("soon", "8"))

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(3))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "8"


async def test_isolation_can_be_off_for_a_node(world: World, make: Any) -> None:
    await world.change_node(labels={"cgpu.disable.isolation": "true"})
    plugin = make(4096)

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(1))

    assert answer.envs["CGPU_DISABLE"] == "true"


async def test_a_single_gpu_needs_no_pod(world: World, make: Any) -> None:
    plugin = make(4096)

    async with world.living(plugin):
        answers = await plugin.allocate_all(ids(1, 2))

    assert [answer.envs["ALIYUN_COM_GPU_MEM_CONTAINER"] for answer in answers] == ["1", "2"]
    assert dict(answers[0].envs) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        "ALIYUN_COM_GPU_MEM_IDX": "7",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "1",
        "ALIYUN_COM_GPU_MEM_DEV": "4",
    }


@pytest.mark.parametrize(
    ("memory", "annotations", "failure", "unit"),
    [
        pytest.param((4096, 4096), {}, None, MemoryUnit.GIB, id="nobody waits"),
        pytest.param((4096, 4096), assumed("1", "0"), None, MemoryUnit.GIB, id="no GPU of that number"),
        pytest.param((4096,), assumed("1", "x"), None, MemoryUnit.GIB, id="no number"),
        pytest.param((4, 4), assumed("1"), ("PATCH", "pods/p", 1, 409, "conflict"), MemoryUnit.MIB, id="no mark"),
        pytest.param((4096,), assumed("1"), ("GET", "pods", 4, 500, "x"), MemoryUnit.GIB, id="no list"),
    ],
)
async def test_a_request_that_cannot_be_served_is_poisoned(
    world: World,
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    memory: tuple[int, ...],
    annotations: dict[str, str],
    failure: Any,
    unit: MemoryUnit,
) -> None:
    monkeypatch.setattr(gpushare, "_API_RETRY_S", 0)
    plugin = make(*memory, unit=unit)
    await world.add_pod("p", {MEM: 3}, annotations)

    async with world.living(plugin):
        world.failures += [failure] if failure else []
        (answer,) = await plugin.allocate_all(ids(3))

    assert dict(answer.envs) == {
        "NVIDIA_VISIBLE_DEVICES": f"no-gpu-has-3{unit}-to-run",
        "ALIYUN_COM_GPU_MEM_IDX": "-1",
        "ALIYUN_COM_GPU_MEM_POD": "3",
        "ALIYUN_COM_GPU_MEM_CONTAINER": "3",
        "ALIYUN_COM_GPU_MEM_DEV": "4",
    }
    assert await world.annotations("p") == annotations


async def test_a_list_is_asked_for_four_times(world: World, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpushare, "_API_RETRY_S", 0)
    plugin = make(4096, 4096)
    await world.add_pod("p", {MEM: 3}, assumed("1"))

    async with world.living(plugin):
        world.failures.append(("GET", "pods", 3, 500, "x"))
        (answer,) = await plugin.allocate_all(ids(3))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "8"


class Kubelet:
    """Answers ``/pods/`` with `items`."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.asked: list[str | None] = []

    async def pods(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers.get("Authorization"))
        return web.json_response({"items": self.items})


@pytest.fixture
async def kubelet() -> AsyncIterator[tuple[Kubelet, ServerAccess]]:
    fake = Kubelet()
    app = web.Application()
    app.router.add_get("/pods/", fake.pods)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield fake, ServerAccess(f"http://127.0.0.1:{runner.addresses[0][1]}", "secret")
    await runner.cleanup()


async def test_the_kubelet_can_be_asked_first(world: World, make: Any, kubelet: tuple[Kubelet, ServerAccess]) -> None:
    fake, access = kubelet
    await world.add_pod("p", {MEM: 3}, assumed("1"))
    pod = await world.client.get("/api/v1/namespaces/default/pods/p")
    fake.items = [pod, pod, {**pod, "status": {"phase": "Running"}}]
    plugin = make(4096, 4096, kubelet=access)

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(3))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "8"
    assert fake.asked == ["Bearer secret"]
    assert ("GET", "/api/v1/pods") not in world.calls


async def test_a_kubelet_that_knows_of_nobody_is_asked_nine_times_then_the_api(
    world: World, make: Any, kubelet: tuple[Kubelet, ServerAccess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpushare, "_KUBELET_RETRY_S", 0)
    fake, access = kubelet
    await world.add_pod("p", {MEM: 3}, assumed("1"))
    plugin = make(4096, 4096, kubelet=access)

    async with world.living(plugin):
        (answer,) = await plugin.allocate_all(ids(3))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "8"
    assert len(fake.asked) == 9
    assert ("GET", "/api/v1/pods") in world.calls


async def test_the_memory_of_a_failed_gpu_is_unhealthy(make: Any) -> None:
    async def failures() -> AsyncIterator[frozenset[str]]:
        for uuids in ((), (), ("GPU-1",)):
            yield frozenset(uuids)

    plugin = make(2048, 2048, failures=failures)

    lists = [[device.health.value for device in devices] async for devices in plugin.devices()]

    assert lists == [["Healthy"] * 4, ["Healthy", "Healthy", "Unhealthy", "Unhealthy"]]
