"""Volcano's vgpu resources over a real API server, and the annotation with the shares of a pod."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugin.framework import AllocationRefusedError, DevicePlugin
from plugin.gpumemory.gpus import Gpu
from plugin.gpumemory.vgpu import Share, VgpuAccountPlugin, VgpuNumberPlugin, VgpuSettings, read_shares, written_shares
from tests.support.gpu_memory_world import World, ids

LAST = str(2**64 - 1)


def planned(time: str, devices: str, node: str = "node-1") -> dict[str, str]:
    return {
        "volcano.sh/vgpu-node": node,
        "volcano.sh/vgpu-time": time,
        "volcano.sh/devices-to-allocate": devices,
    }


@pytest.fixture
def settings(tmp_path: Path) -> VgpuSettings:
    return VgpuSettings(split_count=3, memory_factor=2, hook_path="/opt/hami", host_root=tmp_path)


@pytest.fixture
def gpus(make_gpus: Callable[..., Sequence[Gpu]]) -> Sequence[Gpu]:
    return make_gpus(5, 8)


@pytest.fixture
def number(world: World, gpus: Sequence[Gpu], settings: VgpuSettings) -> VgpuNumberPlugin:
    return VgpuNumberPlugin(gpus, settings, None, world.access, "node-1")


async def listed(plugin: DevicePlugin) -> list[str]:
    async with aclosing(plugin.devices()) as lists:
        return [device.device_id for device in await anext(lists)]


async def test_three_resources_are_listed(
    world: World, gpus: Sequence[Gpu], settings: VgpuSettings, number: VgpuNumberPlugin
) -> None:
    memory = VgpuAccountPlugin.of_memory(gpus, settings, None, world.access, "node-1")
    cores = VgpuAccountPlugin.of_cores(gpus[:1], replace(settings, cores_scaling=0.02), None, world.access, "node-1")

    assert await listed(number) == [f"GPU-{gpu}-{share}" for gpu in range(2) for share in range(3)]
    assert await listed(memory) == [
        *(f"GPU-0-memory-{block}" for block in range(2)),
        *(f"GPU-1-memory-{block}" for block in range(4)),
    ]
    assert await listed(cores) == ["GPU-0-core-0", "GPU-0-core-1"]
    assert [(one.resource_name, one.socket_name) for one in (number, memory, cores)] == [
        (f"volcano.sh/{name}", f"nvidia-{name}.sock") for name in ("vgpu-number", "vgpu-memory", "vgpu-cores")
    ]


async def test_a_container_gets_what_the_scheduler_wrote_down(
    world: World, number: VgpuNumberPlugin, tmp_path: Path
) -> None:
    await world.add_pod("later", {}, planned("9", "GPU-9,NVIDIA,1,1:GPU-9,NVIDIA,1,1:"), node="")
    await world.add_pod("p", {}, planned("3", "GPU-1,NVIDIA,4,30:GPU-0,NVIDIA,2,10:;"), node="")
    await world.change_node(annotations={"hamivgpu": "now"})

    async with world.living(number):
        (answer,) = await number.allocate_all(ids(2))

    envs = dict(answer.envs)
    cache = envs.pop("CUDA_DEVICE_MEMORY_SHARED_CACHE")
    assert (cache[:10], cache[-6:]) == ("/tmp/vgpu/", ".cache")
    assert envs == {
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-0",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "8m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "4m",
        "CUDA_DEVICE_SM_LIMIT": "30",
    }
    uid = (await world.client.get("/api/v1/namespaces/default/pods/p"))["metadata"]["uid"]
    folder = f"/opt/hami/vgpu/containers/{uid}_c0"
    assert [(mount.container_path, mount.host_path, mount.read_only) for mount in answer.mounts] == [
        ("/usr/local/vgpu/libvgpu.so", "/opt/hami/libvgpu.so", True),
        ("/tmp/vgpu", folder, False),
        ("/tmp/vgpulock", "/tmp/vgpulock", False),
        ("/etc/ld.so.preload", "/opt/hami/ld.so.preload", True),
    ]
    assert (tmp_path / folder.lstrip("/")).stat().st_mode & 0o777 == 0o777
    assert await world.annotations("p") == {**planned(LAST, ";"), "volcano.sh/bind-phase": "success"}
    assert "hamivgpu" not in await world.node_annotations()


async def test_a_container_may_switch_the_control_off(world: World, number: VgpuNumberPlugin) -> None:
    await world.add_pod("p", {}, planned("3", "GPU-1,NVIDIA,4,30:"), env={"CUDA_DISABLE_CONTROL": "true"})

    async with world.living(number):
        (answer,) = await number.allocate_all(ids(1))

    assert [mount.container_path for mount in answer.mounts][-1] == "/tmp/vgpulock"


async def test_what_other_plugins_are_to_give_counts_when_a_pod_is_looked_for(
    world: World, number: VgpuNumberPlugin
) -> None:
    await world.add_pod("p", {}, planned("3", "GPU-1,NVIDIA,4,30:;GPU-2,OTHER,1,1:"))
    await world.change_node(annotations={"hamivgpu": "now"})

    async with world.living(number):
        with pytest.raises(AllocationRefusedError, match=r"^device number not matched$"):
            await number.allocate_all(ids(2))

    assert (await world.annotations("p"))["volcano.sh/bind-phase"] == "failed"


@pytest.mark.parametrize(
    ("annotations", "text", "phase"),
    [
        pytest.param({}, "cannot get valid pod", None, id="nobody"),
        pytest.param(planned("1", "GPU-1,NVIDIA,4,30:", "node-2"), "cannot get valid pod", None, id="elsewhere"),
        pytest.param(planned("1", "GPU-1,NVIDIA,1,1:;GPU-1,NVIDIA,1,1:"), "cannot get valid pod", None, id="two"),
        pytest.param(planned("1", "GPU-1,OTHER,4,30:"), "device request not found", "failed", id="not ours"),
    ],
)
async def test_refusals_release_the_node(
    world: World, number: VgpuNumberPlugin, annotations: dict[str, str], text: str, phase: str | None
) -> None:
    await world.add_pod("p", {}, annotations)
    await world.change_node(annotations={"hamivgpu": "now"})

    async with world.living(number):
        with pytest.raises(AllocationRefusedError, match=f"^{text}$"):
            await number.allocate_all(ids(1))

    assert (await world.annotations("p")).get("volcano.sh/bind-phase") == phase
    assert "hamivgpu" not in await world.node_annotations()


async def test_several_containers_in_one_call_are_refused(number: VgpuNumberPlugin) -> None:
    with pytest.raises(AllocationRefusedError, match=r"^multiple Container Requests not supported$"):
        await number.allocate_all(ids(1, 1))


async def test_books_give_nothing(world: World, gpus: Sequence[Gpu], settings: VgpuSettings) -> None:
    memory = VgpuAccountPlugin.of_memory(gpus, settings, None, world.access, "node-1")

    (answer,) = await memory.allocate_all(ids(2))

    assert not answer.ListFields()


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param({"a": "3", "b": "1", "c": "2"}, "b", id="oldest"),
        pytest.param({"a": "1", "b": "1", "c": "2"}, "a", id="first of equals"),
        pytest.param({"a": "1", "b": "1", "c": "1"}, "c", id="last of equals where it is the last of all"),
        pytest.param({"a": "x", "b": "1", "c": LAST}, "b", id="no number"),
    ],
)
async def test_which_of_several_is_meant(
    world: World, number: VgpuNumberPlugin, times: dict[str, str], expected: str
) -> None:
    for name, time in times.items():
        await world.add_pod(name, {}, planned(time, f"{name},NVIDIA,1,1:"))

    async with world.living(number):
        (answer,) = await number.allocate_all(ids(1))

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == expected


async def test_the_node_says_which_gpus_it_has(world: World, number: VgpuNumberPlugin) -> None:
    async with world.living(number):
        await world.until_called("PATCH", "/api/v1/nodes/node-1")

    assert await world.node_annotations() == {
        "volcano.sh/node-vgpu-register": "GPU-0,3,2,NVIDIA-Fake,true,hami-core:GPU-1,3,4,NVIDIA-Fake,true,hami-core:"
    }


words = st.text(st.characters(exclude_characters=",:;"), min_size=1)
shares = st.builds(Share, words, words, st.integers(0, 2**31), st.integers(0, 100))


@given(st.lists(st.lists(shares), min_size=2))
def test_what_is_written_is_read_again(containers: list[list[Share]]) -> None:
    assert read_shares(written_shares(containers)) == containers


@given(st.text("GPU,:;-1 "))
def test_existing_files_are_read(text: str) -> None:
    assert sum(map(len, read_shares(text))) <= text.count(",")


def test_a_number_that_is_none_is_nothing() -> None:
    assert read_shares("GPU-1,NVIDIA,x:;") == [[Share("GPU-1", "NVIDIA", 0, 0)], []]
