"""Fed in: sysfs trees as the amdgpu driver makes them; observed: devices, resources, links."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from fakegpu.vendors.amd.machine import AmdDevice, write_amd
from fakegpu.vendors.amd.model import load_amd_profile
from plugin.amd.discovery import (
    AmdGpu,
    NamingStrategy,
    devices_of,
    find_gpus,
    has_gpu,
    has_kfd,
    read_links,
    read_nodes,
    resource_names,
)
from plugin.errors import FatalError
from plugin.framework import DeviceID

_XGMI = 11


def _make(
    root: Path, profile: str, count: int = 8, compute: str = "spx", memory: str = "nps1"
) -> tuple[Path, list[AmdDevice]]:
    devices = write_amd(root, load_amd_profile(profile), count, compute=compute, memory=memory)
    return root / "sys", list(devices)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "count", "compute", "memory", "partition"),
    [
        ("mi210", 8, "spx", "nps1", ""),
        ("mi250", 4, "spx", "nps1", ""),
        ("mi300x", 8, "spx", "nps1", "spx_nps1"),
        ("mi300x", 3, "cpx", "nps4", "cpx_nps4"),
        ("mi308x", 3, "dpx", "nps2", "dpx_nps2"),
    ],
)
def test_devices_are_those_that_can_be_given_work(
    profile: str, count: int, compute: str, memory: str, partition: str, tmp_path: Path
) -> None:
    system, devices = _make(tmp_path, profile, count, compute, memory)

    found = find_gpus(system)

    assert {gpu.device_id: (gpu.card, gpu.render, gpu.node, gpu.numa_node) for gpu in found.values()} == {
        device.name: (device.card, device.render, device.node, device.slot.numa_node) for device in devices
    }
    assert {gpu.partition for gpu in found.values()} == {partition}
    assert set(Counter(gpu.parent for gpu in found.values()).values()) == {len(devices) // count}


def test_no_driver_is_fatal_with_status_2(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="amdgpu driver unavailable") as failure:
        find_gpus(tmp_path)

    assert failure.value.exit_status == 2


def test_machine_without_kfd(tmp_path: Path) -> None:
    assert not has_kfd(tmp_path)
    assert not has_gpu(tmp_path)
    assert read_nodes(tmp_path) == {}
    assert list(read_links(tmp_path)) == []


def test_device_without_a_numa_node_is_left_out(tmp_path: Path) -> None:
    system, devices = _make(tmp_path, "mi210", 2)
    (system / "module/amdgpu/drivers/pci:amdgpu" / devices[0].name / "numa_node").write_text("somewhere\n")

    assert set(find_gpus(system)) == {devices[1].name}


def test_machine_without_numa_nodes_says_minus_one(tmp_path: Path) -> None:
    system, devices = _make(tmp_path, "mi210", 1)
    (system / "module/amdgpu/drivers/pci:amdgpu" / devices[0].name / "numa_node").write_text("-1\n")

    assert find_gpus(system)[DeviceID(devices[0].name)].numa_node == -1


def test_device_without_entries_goes_by_the_numbers_of_the_one_before(tmp_path: Path) -> None:
    system, devices = _make(tmp_path, "mi250", 2)
    second = max(devices, key=lambda device: device.name)
    shutil.rmtree(system / "module/amdgpu/drivers/pci:amdgpu" / second.name / "drm")

    first, last = sorted(find_gpus(system).values(), key=lambda gpu: gpu.device_id)

    assert (last.card, last.render, last.parent, last.node) == (first.card, first.render, first.parent, first.node)


def test_topology_without_a_gpu_is_no_sign_of_health(tmp_path: Path) -> None:
    system, devices = _make(tmp_path, "mi210", 1)
    assert has_gpu(system)

    shutil.rmtree(system / "class/kfd/kfd/topology/nodes" / str(devices[0].node))

    assert not has_gpu(system)


def test_links_between_gpus_of_a_hive_are_xgmi(tmp_path: Path) -> None:
    system, devices = _make(tmp_path, "mi210")
    hives = {device.node: device.slot.hive for device in devices}

    xgmi = {(link.source, link.target) for link in read_links(system) if link.kind == _XGMI}

    assert xgmi == {(one, other) for one in hives for other in hives if one != other and hives[one] == hives[other]}


def _gpu(name: str, compute: str = "", memory: str = "") -> AmdGpu:
    return AmdGpu(DeviceID(name), 0, 128, "0000:05:00:0", 2, 0, compute, memory)


_WHOLE = [_gpu("a"), _gpu("b")]
_CPX = [_gpu("a", "cpx", "nps4"), _gpu("b", "cpx", "nps4")]
_BOTH = [_gpu("a", "cpx", "nps4"), _gpu("b", "spx", "nps1"), _gpu("c")]


@pytest.mark.parametrize(
    ("strategy", "gpus", "names"),
    [
        pytest.param(NamingStrategy.SINGLE, [], (), id="no GPUs"),
        pytest.param(NamingStrategy.MIXED, [], (), id="no GPUs, mixed"),
        pytest.param(NamingStrategy.SINGLE, _WHOLE, ("gpu",), id="no partitions"),
        pytest.param(NamingStrategy.MIXED, _WHOLE, ("gpu",), id="no partitions, mixed"),
        pytest.param(NamingStrategy.SINGLE, _CPX, ("gpu",), id="all alike"),
        pytest.param(NamingStrategy.MIXED, _CPX, ("cpx_nps4",), id="all alike, mixed"),
        pytest.param(NamingStrategy.MIXED, _BOTH, ("cpx_nps4", "spx_nps1"), id="different, mixed"),
    ],
)
def test_resources_are_named_after_partitions(
    strategy: NamingStrategy, gpus: list[AmdGpu], names: tuple[str, ...]
) -> None:
    assert resource_names(strategy, gpus) == names


def test_different_partitions_have_no_single_name() -> None:
    with pytest.raises(FatalError, match="Please start device plugin with mixed strategy") as failure:
        resource_names(NamingStrategy.SINGLE, _BOTH)

    assert failure.value.exit_status == 1


def test_each_resource_has_the_devices_of_its_partition_mode() -> None:
    assert [gpu.device_id for gpu in devices_of("cpx_nps4", _BOTH)] == ["a"]
    assert [gpu.device_id for gpu in devices_of("spx_nps1", _BOTH)] == ["b"]
    assert [gpu.device_id for gpu in devices_of("gpu", _CPX)] == ["a", "b"]
