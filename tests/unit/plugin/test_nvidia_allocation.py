"""Fed in: a resource, settings, and what a container is to have; observed: the answer to Allocate.

The answers are compared with those of NVIDIA's own plugin in tests/e2e/nvidia_go.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugin.framework import AllocationRefusedError, DeviceID, ResourceName
from plugin.nvidia.allocation import Allocator
from plugin.nvidia.config.settings import NvidiaSettings, ReplicatedResource, ReplicatedResources, Sharing
from plugin.nvidia.discovery.node import ImexChannel
from plugin.nvidia.discovery.resources import NvidiaDevice, NvidiaResource
from plugin.nvidia.mps.mps import MpsSharing
from plugin.preference import replica_id

_GPU = ResourceName("nvidia.com/gpu")
_SHARED = ReplicatedResources((ReplicatedResource(_GPU, 2),))
_MODES_OFF = {"gdrcopy_enabled": False, "gds_enabled": False, "mofed_enabled": False}
_CHANNEL = ImexChannel("0", "/dev/nvidia-caps-imex-channels/channel0", "/dev/nvidia-caps-imex-channels/channel0")


def _device(device_id: str, index: str, *paths: str) -> NvidiaDevice:
    return NvidiaDevice(DeviceID(device_id), device_id.split("::")[0], index, paths, None, 0, "9.0")


_GPUS = [_device(f"GPU-{number}", str(number), f"/dev/nvidia{number}") for number in range(3)]
_REPLICAS = [_device(replica_id(gpu.uuid, number), gpu.index, *gpu.paths) for gpu in _GPUS for number in range(2)]
_MIG = [_device("MIG-a", "0:3", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22")]


def _allocator(root: Path, devices: list[NvidiaDevice] = _GPUS, **settings: Any) -> Allocator:
    given = NvidiaSettings(**{**_MODES_OFF, **settings})
    return Allocator(NvidiaResource.of(_GPU, devices), given, lambda path: root / path.relative_to("/"))


def _allocated(allocator: Allocator, *device_ids: str) -> Any:
    return allocator.allocate([DeviceID(device_id) for device_id in device_ids])


def test_each_gpu_is_named_once_in_the_order_asked(tmp_path: Path) -> None:
    answer = _allocated(_allocator(tmp_path), "GPU-2", "GPU-0", "GPU-2")

    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-2,GPU-0"}


def test_replicas_of_one_gpu_are_one_gpu(tmp_path: Path) -> None:
    allocator = _allocator(tmp_path, _REPLICAS, sharing=Sharing(_SHARED), pass_device_specs=True)

    answer = _allocated(allocator, "GPU-1::1", "GPU-0::0", "GPU-1::0")

    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-0"}
    assert [node.container_path for node in answer.devices] == ["/dev/nvidia1", "/dev/nvidia0", "/dev/nvidia1"]


def test_mig_device_by_index_brings_the_nodes_of_its_instances(tmp_path: Path) -> None:
    answer = _allocated(_allocator(tmp_path, _MIG, device_id_strategy="index", pass_device_specs=True), "MIG-a")

    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "0:3"}
    assert [node.host_path for node in answer.devices] == list(_MIG[0].paths)


def test_every_container_gets_the_modes(tmp_path: Path) -> None:
    settings = dict.fromkeys(_MODES_OFF, True)

    answer = _allocated(_allocator(tmp_path, device_list_strategies=("cdi-cri",), **settings), "GPU-0")

    assert dict(answer.envs) == dict.fromkeys(("NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED"), "enabled")


def test_mounts_take_the_place_of_the_list_in_the_variable(tmp_path: Path) -> None:
    allocator = replace(
        _allocator(tmp_path, device_list_strategies=("volume-mounts", "envvar")), imex_channels=(_CHANNEL,)
    )

    answer = _allocated(allocator, "GPU-1", "GPU-0")

    folder = "/var/run/nvidia-container-devices"
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": folder, "NVIDIA_IMEX_CHANNELS": "0"}
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in answer.mounts] == [
        ("/dev/null", f"{folder}/GPU-1", False),
        ("/dev/null", f"{folder}/GPU-0", False),
        ("/dev/null", f"{folder}/imex/0", False),
    ]


def test_control_nodes_come_where_the_plugin_sees_them(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    for name in ("nvidia-uvm", "nvidiactl"):
        (tmp_path / "dev" / name).touch()
    allocator = _allocator(tmp_path, pass_device_specs=True, nvidia_dev_root="/run/nvidia//driver/")

    answer = _allocated(replace(allocator, imex_channels=(_CHANNEL,)), "GPU-0")

    paths = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", _CHANNEL.path]
    assert [(node.container_path, node.host_path, node.permissions) for node in answer.devices] == [
        (path, f"/run/nvidia/driver{path}", "rw") for path in paths
    ]


def test_tegra_has_no_device_nodes(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    resource = NvidiaResource.of(_GPU, [_device("tegra", "0")], is_tegra=True)

    answer = _allocated(replace(_allocator(tmp_path, pass_device_specs=True), resource=resource), "tegra")

    assert (dict(answer.envs), list(answer.devices)) == ({"NVIDIA_VISIBLE_DEVICES": "tegra"}, [])


def test_cdi_names_go_to_the_runtime_and_into_an_annotation(tmp_path: Path) -> None:
    allocator = _allocator(
        tmp_path, device_list_strategies=("cdi-annotations", "cdi-cri"), cdi_annotation_prefix="example.com/"
    )

    answers = [
        _allocated(replace(allocator, imex_channels=(_CHANNEL,), cdi_modes=("gds",)), "GPU-1", "GPU-0")
        for _ in range(2)
    ]

    names = [f"k8s.device-plugin.nvidia.com/{name}" for name in ("gpu=GPU-1", "gpu=GPU-0", "imex-channel=0", "gds=all")]
    keys = [key for answer in answers for key in answer.annotations]
    assert all(key.startswith("example.com/nvidia-device-plugin_") for key in keys)
    assert len(set(keys)) == 2
    for answer in answers:
        assert list(answer.annotations.values()) == [",".join(names)]
        assert [device.name for device in answer.cdi_devices] == names
        assert (dict(answer.envs), list(answer.devices), list(answer.mounts)) == ({}, [], [])


def test_cdi_names_nothing_where_nothing_is_asked_for(tmp_path: Path) -> None:
    answer = _allocated(_allocator(tmp_path, device_list_strategies=("cdi-annotations", "cdi-cri")))

    assert (dict(answer.annotations), list(answer.cdi_devices)) == ({}, [])


def test_mps_brings_pipe_and_shared_memory_to_cdi_containers_too(tmp_path: Path) -> None:
    allocator = _allocator(tmp_path, device_list_strategies=("cdi-cri",))

    answer = _allocated(replace(allocator, mps=MpsSharing(_GPU, "/run/mps/", lambda path: path)), "GPU-0")

    pipe = "/mps/nvidia.com/gpu/pipe"
    assert dict(answer.envs) == {"CUDA_MPS_PIPE_DIRECTORY": pipe}
    assert [(mount.container_path, mount.host_path) for mount in answer.mounts] == [
        (pipe, "/run/mps/nvidia.com/gpu/pipe"),
        ("/dev/shm", "/run/mps/shm"),
    ]


@pytest.mark.parametrize(
    ("sharing", "asked", "reason"),
    [
        pytest.param(Sharing(), ["GPU-0::0", "x"], "unknown device: x", id="unknown"),
        pytest.param(
            Sharing(_SHARED._replace(fail_requests_greater_than_one=True)),
            ["GPU-0::0", "GPU-1::0"],
            "maximum request size for shared resources is 1; found 2",
            id="two replicas where one may be had",
        ),
        pytest.param(
            Sharing(mps=_SHARED),
            ["GPU-0::0", "GPU-0::1", "GPU-1::0"],
            "maximum request size for shared resources is 1; found 3",
            id="MPS",
        ),
    ],
)
def test_refusals(tmp_path: Path, sharing: Sharing, asked: list[str], reason: str) -> None:
    with pytest.raises(AllocationRefusedError) as refusal:
        _allocated(_allocator(tmp_path, _REPLICAS, sharing=sharing), *asked)

    assert str(refusal.value) == f'invalid allocation request for "nvidia.com/gpu": invalid request: {reason}'


def test_whole_gpus_may_be_had_in_any_number_beside_shared_ones(tmp_path: Path) -> None:
    sharing = Sharing(_SHARED._replace(fail_requests_greater_than_one=True))

    answer = _allocated(_allocator(tmp_path, sharing=sharing), "GPU-0", "GPU-1")

    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"
