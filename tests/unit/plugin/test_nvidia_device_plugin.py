"""Fed in: an NVML of plain values; observed: allocation, preference and health."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from plugin.framework import AllocationRefusedError, DeviceID
from plugin.nvidia.config.settings import NvidiaSettings
from plugin.nvidia.device_plugin import NvidiaPlugin
from plugin.nvidia.start import start
from plugin.nvml.nvml import NvmlError, NvmlReturn
from tests.support.patience import LIMIT_S


def _start(nvml: Any, host_root: Path, settings: NvidiaSettings | None = None, **environment: str) -> NvidiaPlugin:
    (plugin,) = start(nvml, lambda: settings or NvidiaSettings(), host_root, environment)
    return plugin


def _allocated(plugin: NvidiaPlugin, *device_ids: str) -> dict[str, str]:
    return dict(plugin.allocate([DeviceID(device_id) for device_id in device_ids]).envs)


def test_container_sees_each_gpu_once_in_request_order(make_nvml: Any, tmp_path: Path) -> None:
    envs = _allocated(_start(make_nvml(3), tmp_path), "GPU-2", "GPU-0", "GPU-2")

    assert envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-2,GPU-0",
        "NVIDIA_GDRCOPY": "enabled",
        "NVIDIA_GDS": "enabled",
        "NVIDIA_MOFED": "enabled",
    }


def test_modes_that_are_off_are_not_mentioned(make_nvml: Any, tmp_path: Path) -> None:
    settings = NvidiaSettings(gdrcopy_enabled=False, gds_enabled=False, mofed_enabled=False)

    assert _allocated(_start(make_nvml(1), tmp_path, settings), "GPU-0") == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}


def test_index_strategy_names_gpus_by_nvml_index(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(3)
    nvml.names[0] = "DGX Display"
    plugin = _start(nvml, tmp_path, NvidiaSettings(device_id_strategy="index"))

    assert _allocated(plugin, "GPU-2", "GPU-1")["NVIDIA_VISIBLE_DEVICES"] == "2,1"


@pytest.mark.parametrize("strategies", [("cdi-cri",), ("envvar", "cdi-cri")])
def test_cdi_strategy_names_each_gpu_once_to_the_runtime(
    strategies: tuple[str, ...], make_nvml: Any, tmp_path: Path
) -> None:
    plugin = _start(make_nvml(3), tmp_path, NvidiaSettings(device_list_strategies=strategies, cdi_spec_dir=""))

    answer = plugin.allocate([DeviceID("GPU-2"), DeviceID("GPU-0"), DeviceID("GPU-2")])

    assert [device.name for device in answer.cdi_devices] == [
        "k8s.device-plugin.nvidia.com/gpu=GPU-2",
        "k8s.device-plugin.nvidia.com/gpu=GPU-0",
    ]
    assert ("NVIDIA_VISIBLE_DEVICES" in answer.envs) is ("envvar" in strategies)


def test_unknown_gpu_is_refused(make_nvml: Any, tmp_path: Path) -> None:
    with pytest.raises(AllocationRefusedError) as refusal:
        _allocated(_start(make_nvml(1), tmp_path), "GPU-0", "x")

    assert str(refusal.value) == ('invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: x')


def _preferred(plugin: NvidiaPlugin, available: list[str], required: list[str], size: int) -> Any:
    return plugin.preferred([DeviceID(name) for name in available], [DeviceID(name) for name in required], size)


def test_nvlinks_outweigh_the_pci_path(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(4)
    nvml.ancestors = {frozenset((0, 1)): 20, frozenset((2, 3)): 20}
    nvml.nvlinks = {0: {0: nvml.bus_ids[2], 5: "0000:99:00.0"}, 2: {17: nvml.bus_ids[0]}}
    plugin = _start(nvml, tmp_path)

    assert _preferred(plugin, ["GPU-0", "GPU-1", "GPU-2", "GPU-3"], [], 2) == ["GPU-0", "GPU-2"]
    assert nvml.sessions == 0


def test_links_that_nvml_does_not_know_are_no_links(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(2)
    nvml.failures["nvlink_is_enabled"] = NvmlReturn.NOT_SUPPORTED

    assert _preferred(_start(nvml, tmp_path), ["GPU-1", "GPU-0"], [], 2) == ["GPU-1", "GPU-0"]


@pytest.mark.parametrize(
    ("available", "required", "failing", "text"),
    [
        pytest.param(
            ["x"], [], None, "unable to retrieve list of available devices: no device with uuid: x", id="available"
        ),
        pytest.param(
            ["GPU-0"], ["x"], None, "unable to retrieve list of required devices: no device with uuid: x", id="required"
        ),
        pytest.param(
            [], [], "init", "unable to get device link information: error calling nvml.Init: code 15", id="init"
        ),
        pytest.param(
            [],
            [],
            "common_ancestor",
            "unable to get device link information: error getting P2PLink for devices (0, 1): "
            "failed to get commmon anscestor: code 15",
            id="ancestor",
        ),
        pytest.param(
            [],
            [],
            "nvlink_is_enabled",
            "unable to get device link information: error getting NVLink for devices (0, 1): "
            "failed to get nvlink remote pci info: failed to get nvlink state: code 15",
            id="nvlink",
        ),
    ],
)
def test_preference_that_cannot_be_given_is_refused(
    make_nvml: Any, tmp_path: Path, available: list[str], required: list[str], failing: str | None, text: str
) -> None:
    nvml = make_nvml(2)
    plugin = _start(nvml, tmp_path)
    if failing is not None:
        nvml.failures[failing] = 15

    with pytest.raises(AllocationRefusedError) as refusal:
        _preferred(plugin, available, required, 1)

    assert str(refusal.value) == f"error getting list of preferred allocation devices: {text}"


class Lists:
    """The lists of a plugin, read one after the other."""

    def __init__(self, plugin: NvidiaPlugin) -> None:
        self._lists = plugin.devices()

    async def __aenter__(self) -> Lists:
        assert await self.unhealthy() == []
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._lists.aclose()

    async def unhealthy(self) -> list[str]:
        """Who is unhealthy in the next list."""
        async with asyncio.timeout(LIMIT_S):
            return [device.device_id for device in await anext(self._lists) if device.health == "Unhealthy"]


async def test_xid_makes_its_gpu_unhealthy_for_good(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(3)

    async with Lists(_start(nvml, tmp_path)) as lists:
        nvml.xid(1, 13)
        nvml.xid(1, 79)
        assert await lists.unhealthy() == ["GPU-1"]
        nvml.xid(0, 48)
        assert await lists.unhealthy() == ["GPU-0", "GPU-1"]
        nvml.xid(0, 48)
        assert await lists.unhealthy() == ["GPU-0", "GPU-1"]


async def test_next_start_sees_healthy_gpus_again(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(1)
    async with Lists(_start(nvml, tmp_path)) as lists:
        nvml.xid(0, 79)
        assert await lists.unhealthy() == ["GPU-0"]

    async with Lists(_start(nvml, tmp_path)):
        pass


async def test_failing_wait_makes_every_gpu_unhealthy(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(2)

    async with Lists(_start(nvml, tmp_path)) as lists:
        nvml.events.put(NvmlError(15, "GPU is lost"))
        assert await lists.unhealthy() == ["GPU-0", "GPU-1"]


async def test_gpu_too_old_for_events_stays_healthy(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(2)
    nvml.too_old = {0}

    async with Lists(_start(nvml, tmp_path)) as lists:
        nvml.xid(1, 79)
        assert await lists.unhealthy() == ["GPU-1"]


async def test_first_list_comes_when_no_event_can_be_missed(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(3)

    async with Lists(_start(nvml, tmp_path)):
        assert nvml.registered == ["GPU-0", "GPU-1", "GPU-2"]


@pytest.mark.parametrize("method", ["init", "create_event_set"])
async def test_first_list_comes_without_a_health_check_too(make_nvml: Any, tmp_path: Path, method: str) -> None:
    nvml = make_nvml(1)
    plugin = _start(nvml, tmp_path)
    nvml.failures[method] = 15

    async with asyncio.timeout(LIMIT_S), Lists(plugin):
        assert nvml.registered == []


@pytest.mark.parametrize("method", ["gpu_by_uuid", "supported_events", "register_events"])
async def test_gpu_that_cannot_be_watched_is_unhealthy(make_nvml: Any, tmp_path: Path, method: str) -> None:
    nvml = make_nvml(1)
    plugin = _start(nvml, tmp_path)
    nvml.failures[method] = 15

    async with Lists(plugin) as lists:
        assert await lists.unhealthy() == ["GPU-0"]


async def test_health_check_that_is_disabled_ends_the_source(make_nvml: Any, tmp_path: Path) -> None:
    plugin = _start(make_nvml(1), tmp_path, DP_DISABLE_HEALTHCHECKS="all")

    async with aclosing(plugin.devices()) as lists:
        await anext(lists)
        with pytest.raises(StopAsyncIteration):
            await anext(lists)
