"""Fed in: an NVML of plain values and the node's files; observed: the resources found, or why there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugin.nvidia.config.settings import NvidiaSettings, ReplicatedResource, ReplicatedResources, Sharing
from plugin.nvidia.discovery.discovery import DiscoveryError
from plugin.nvidia.discovery.mig_profile import mig_patterns
from plugin.nvidia.discovery.node import Platform
from plugin.nvidia.discovery.node_resources import find_resources
from plugin.nvidia.discovery.resources import NvidiaDevice
from tests.support.fake_nvml import FakeMig

_BUILDING = "error building device map: error building device map from config.resources"
_GPU = f"{_BUILDING}: error building GPU device map"
_DEVICE = f"{_GPU}: error visiting device: error building Device"
_MIG = (
    f"{_BUILDING}: error building MIG device map: error visiting devices: error visiting device: error visiting device"
)
_MIG_DEVICE = f"{_MIG}: error visiting MIG device: error visiting MIG device"
_PROFILE = f"{_MIG_DEVICE}: error getting MIG profile for MIG device at index '(0, 0)'"


def _found(
    nvml: Any, root: Path, strategy: str = "none", platform: Platform = Platform.NVML, **settings: Any
) -> dict[str, list[NvidiaDevice]]:
    given = NvidiaSettings(mig_strategy=strategy, **settings)
    resources = find_resources(nvml, given, mig_patterns(nvml, given, has_nvml=True), platform, root)
    assert nvml.sessions == 0
    return {resource.name.removeprefix("nvidia.com/"): list(resource.devices.values()) for resource in resources}


def _failure(nvml: Any, root: Path, strategy: str = "none", **settings: Any) -> str:
    with pytest.raises(DiscoveryError) as end:
        _found(nvml, root, strategy, **settings)
    assert nvml.sessions == 0
    return str(end.value)


def _numa_node(root: Path, gpu: int, text: str) -> None:
    device = root / "sys/bus/pci/devices" / f"0000:{gpu + 1:02x}:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(text)


def _minors(root: Path, *lines: str) -> None:
    folder = root / "proc/driver/nvidia-caps"
    folder.mkdir(parents=True)
    (folder / "mig-minors").write_text("".join(f"{line}\n" for line in lines))


def _all_minors(root: Path) -> None:
    """GPU instance i of GPU g has the minor 100g + 10i, its compute instance 0 the next."""
    lines = []
    for gpu in range(2):
        for instance in range(1, 4):
            minor = 100 * gpu + 10 * instance
            lines += [f"gpu{gpu}/gi{instance}/access {minor}", f"gpu{gpu}/gi{instance}/ci0/access {minor + 1}"]
    _minors(root, "config 1", "monitor 2", "something else", *lines)


def test_gpu_is_described_from_nvml_and_sysfs(make_nvml: Any, tmp_path: Path) -> None:
    _numa_node(tmp_path, 1, "1\n")

    gpus = _found(make_nvml(2), tmp_path)["gpu"]

    assert [(gpu.device_id, gpu.uuid, gpu.index, gpu.paths) for gpu in gpus] == [
        ("GPU-0", "GPU-0", "0", ("/dev/nvidia0",)),
        ("GPU-1", "GPU-1", "1", ("/dev/nvidia1",)),
    ]
    assert [gpu.numa_node for gpu in gpus] == [None, 1]
    assert [gpu.compute_capability for gpu in gpus] == ["9.0", "9.1"]
    assert {gpu.total_memory_bytes for gpu in gpus} == {81559 << 20}
    assert all(gpu.is_full_gpu for gpu in gpus)


def test_display_adapters_are_skipped(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(3)
    nvml.names[0], nvml.names[2] = "DGX Display", "NVIDIA DGX Display"

    assert [gpu.index for gpu in _found(nvml, tmp_path)["gpu"]] == ["1"]


def test_machine_without_gpus_has_no_resource(make_nvml: Any, tmp_path: Path) -> None:
    assert _found(make_nvml(0), tmp_path) == {}


@pytest.mark.parametrize("text", ["-1\n", ""], ids=["negative", "no file"])
def test_numa_node_may_be_unknown(make_nvml: Any, tmp_path: Path, text: str) -> None:
    if text:
        _numa_node(tmp_path, 0, text)

    assert _found(make_nvml(1), tmp_path)["gpu"][0].numa_node is None


def test_numa_node_that_is_not_a_number_is_an_error(make_nvml: Any, tmp_path: Path) -> None:
    _numa_node(tmp_path, 0, "x\n")

    assert _failure(make_nvml(1), tmp_path) == (
        f"{_DEVICE}: error getting device NUMA node: eror parsing value for NUMA node: "
        'strconv.Atoi: parsing "x": invalid syntax'
    )


def test_unknown_memory_is_no_error(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(1)
    nvml.failures["total_memory_bytes"] = 999

    assert _found(nvml, tmp_path)["gpu"][0].total_memory_bytes == 0


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("gpu_count", f"{_GPU}: error getting device count"),
        ("gpu_by_index", f"{_GPU}: error getting device handle for index '0'"),
        ("name", f"{_GPU}: error checking whether device is skipped: error getting device name"),
        (
            "mig_is_enabled",
            f"{_GPU}: error visiting device: error checking if MIG is enabled on GPU: error getting MIG mode",
        ),
        ("uuid", f"{_DEVICE}: error getting UUID device"),
        ("minor_number", f"{_DEVICE}: error getting device paths: error getting GPU device minor number"),
        ("pci_bus_id", f"{_DEVICE}: error getting device NUMA node: error getting PCI Bus Info of device"),
        ("compute_capability", f"{_DEVICE}: error getting device compute capability"),
    ],
)
def test_gpu_that_cannot_be_read_is_an_error(make_nvml: Any, tmp_path: Path, method: str, text: str) -> None:
    nvml = make_nvml(1)
    nvml.failures[method] = 15

    assert _failure(nvml, tmp_path) == f"{text}: code 15"


@pytest.mark.parametrize(
    ("code", "functions"),
    [pytest.param(3, {"nvmlDeviceGetMigMode"}, id="no mode"), pytest.param(15, set(), id="old library")],
)
def test_gpu_that_knows_no_mig_is_a_whole_gpu(make_nvml: Any, tmp_path: Path, code: int, functions: set[str]) -> None:
    nvml = make_nvml(1)
    nvml.failures["mig_is_enabled"] = code
    nvml.functions = functions

    assert [gpu.index for gpu in _found(nvml, tmp_path, "mixed")["gpu"]] == ["0"]


def test_partitioned_gpu_is_a_whole_gpu_without_a_strategy(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(2)
    nvml.mig = {0: {0: FakeMig(1)}}

    assert [gpu.index for gpu in _found(nvml, tmp_path, "none")["gpu"]] == ["0", "1"]


def test_mixed_strategy_has_one_resource_for_each_profile(make_nvml: Any, tmp_path: Path) -> None:
    _all_minors(tmp_path)
    _numa_node(tmp_path, 1, "1")
    nvml = make_nvml(2)
    nvml.mig = {1: {0: FakeMig(1), 2: FakeMig(2, gpu_profile=2, compute_profile=2, memory_mib=40320)}}

    found = _found(nvml, tmp_path, "mixed")

    assert {name: [device.index for device in devices] for name, devices in found.items()} == {
        "gpu": ["0"],
        "mig-1g.10gb": ["1:0"],
        "mig-3g.40gb": ["1:2"],
    }
    (device,) = found["mig-3g.40gb"]
    assert device.is_mig
    assert not device.is_full_gpu
    assert device.device_id == "MIG-1-2"
    assert device.paths == ("/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap120", "/dev/nvidia-caps/nvidia-cap121")
    assert (device.numa_node, device.compute_capability) == (1, "9.1")


def test_single_strategy_has_mig_devices_as_gpus(make_nvml: Any, tmp_path: Path) -> None:
    _all_minors(tmp_path)
    nvml = make_nvml(2)
    nvml.mig = {0: {0: FakeMig(1), 1: FakeMig(2)}, 1: {0: FakeMig(3)}}

    found = _found(nvml, tmp_path, "single")

    assert {name: [device.index for device in devices] for name, devices in found.items()} == {
        "gpu": ["0:0", "0:1", "1:0"]
    }


def test_media_extension_is_taken_for_the_plain_profile(make_nvml: Any, tmp_path: Path) -> None:
    _all_minors(tmp_path)
    nvml = make_nvml(1)
    nvml.mig = {0: {0: FakeMig(1, gpu_profile=7)}}

    assert list(_found(nvml, tmp_path, "mixed")) == ["mig-1g.10gb"]


def test_mixed_strategy_bears_an_empty_gpu(make_nvml: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nvml = make_nvml(2)
    nvml.mig = {0: {}}

    assert list(_found(nvml, tmp_path, "mixed")) == ["gpu"]
    assert "device 0 has no MIG devices configured" in caplog.text


@pytest.mark.parametrize(
    ("mig", "text"),
    [
        pytest.param(
            {0: {0: FakeMig(1)}, 1: {}},
            "invalid MIG configuration: at least one device with migEnabled=true was not configured correctly: "
            "error visiting device: device 1 has no MIG devices configured",
            id="empty gpu",
        ),
        pytest.param(
            {0: {0: FakeMig(1)}, 1: {0: FakeMig(1), 1: FakeMig(2, memory_mib=20096)}},
            "invalid MIG configuration: error visiting devices: error visiting device: error visiting device: "
            "error visiting MIG device: error visiting MIG device: more than one MIG device type present on node",
            id="two types",
        ),
        pytest.param(
            {1: {0: FakeMig(1)}},
            "all devices on the node must be configured with the same migEnabled value",
            id="one whole gpu",
        ),
    ],
)
def test_single_strategy_wants_all_gpus_alike(make_nvml: Any, tmp_path: Path, mig: Any, text: str) -> None:
    _all_minors(tmp_path)
    nvml = make_nvml(2)
    nvml.mig = mig

    assert _failure(nvml, tmp_path, "single") == f"{_BUILDING}: {text}"


def test_instance_without_a_capability_is_an_error(make_nvml: Any, tmp_path: Path) -> None:
    _minors(tmp_path, "gpu0/gi1/access 30")
    nvml = make_nvml(1)
    nvml.mig = {0: {0: FakeMig(1)}}

    assert _failure(nvml, tmp_path, "mixed") == (
        f"{_MIG_DEVICE}: error building Device: error getting device paths: "
        "missing MIG GPU instance capability path: /proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"
    )


def test_profile_that_no_resource_has_is_an_error(make_nvml: Any, tmp_path: Path) -> None:
    _all_minors(tmp_path)
    nvml = make_nvml(1)
    nvml.mig = {0: {0: FakeMig(1, gpu_profile=2, compute_profile=1, memory_mib=40320)}}

    # A compute instance of two of three slices; its name still contains the plain profile.
    assert list(_found(nvml, tmp_path, "mixed")) == ["mig-3g.40gb"]

    nvml.mig = {0: {0: FakeMig(1, memory_mib=20096)}}
    assert _failure(nvml, tmp_path, "mixed") == (
        f"{_MIG_DEVICE}: MIG profile '1g.20gb' does not match any resource patterns"
    )


@pytest.mark.parametrize(
    ("method", "text"),
    [
        ("max_mig_device_count", f"{_MIG}: error getting max MIG device count"),
        ("mig_device_by_index", f"{_MIG}: error getting MIG device handle at index '0'"),
        (
            "is_mig_device",
            f"{_MIG}: error creating new MIG device wrapper: error checking if device is a MIG device",
        ),
        ("parent", f"{_PROFILE}: error getting parent device handle"),
        ("mig_attributes", f"{_PROFILE}: error getting MIG device attributes"),
        ("gpu_instance_id", f"{_PROFILE}: error getting MIG device GPU Instance ID"),
        ("compute_instance_id", f"{_PROFILE}: error getting MIG device Compute Instance ID"),
        ("gpu_instance", f"{_PROFILE}: error getting GPU Instance"),
        ("compute_instance", f"{_PROFILE}: error getting Compute Instance"),
        ("gpu_instance_profile_id", f"{_PROFILE}: error getting GPU Instance info"),
        ("compute_instance_profile_id", f"{_PROFILE}: error getting Compute Instance info"),
        ("gpu_instance_profile", f"{_PROFILE}: error getting GPU Instance profile info"),
        ("compute_instance_profile", f"{_PROFILE}: error getting Compute Instance profile info"),
    ],
)
def test_mig_device_that_cannot_be_read_is_an_error(make_nvml: Any, tmp_path: Path, method: str, text: str) -> None:
    _all_minors(tmp_path)
    nvml = make_nvml(1)
    nvml.mig = {0: {0: FakeMig(1)}}
    nvml.failures[method] = 15

    assert _failure(nvml, tmp_path, "single") == f"{text}: code 15"


def test_mixed_strategy_asks_for_the_profiles_first(make_nvml: Any, tmp_path: Path) -> None:
    nvml = make_nvml(1)
    nvml.failures["gpu_instance_profile"] = 15

    assert _failure(nvml, tmp_path, "mixed") == (
        "error visiting devices: error visiting device: error visiting device: "
        "error getting GPU Instance profile info: code 15"
    )


def test_windows_has_one_node_for_all_gpus(make_nvml: Any, tmp_path: Path) -> None:
    gpus = _found(make_nvml(2), tmp_path, platform=Platform.WSL)["gpu"]

    assert {gpu.paths for gpu in gpus} == {("/dev/dxg",)}
    assert not any(gpu.is_full_gpu for gpu in gpus)


@pytest.mark.parametrize(
    ("strategy", "platform"), [("tegra", Platform.NVML), ("auto", Platform.TEGRA)], ids=["asked for", "found"]
)
def test_tegra_has_one_device_of_which_nothing_is_known(
    make_nvml: Any, tmp_path: Path, strategy: str, platform: Platform
) -> None:
    nvml = make_nvml(0)

    assert _found(nvml, tmp_path, platform=platform, device_discovery_strategy=strategy) == {
        "gpu": [NvidiaDevice("tegra", "tegra", "0", (), None, 0, "0.0")]  # type: ignore[arg-type]  # an id
    }


@pytest.mark.parametrize("rename", [None, "nvidia.com/gpu.shared"])
def test_shared_resource_offers_each_device_several_times(make_nvml: Any, tmp_path: Path, rename: Any) -> None:
    _all_minors(tmp_path)
    nvml = make_nvml(2)
    nvml.mig = {0: {0: FakeMig(1)}}
    shared: Any = [ReplicatedResource("nvidia.com/gpu", 3, rename), ReplicatedResource("nvidia.com/mig-7g.80gb", 2)]  # type: ignore[arg-type]  # names

    found = _found(nvml, tmp_path, "mixed", sharing=Sharing(ReplicatedResources(tuple(shared))))

    assert {name: [device.device_id for device in devices] for name, devices in found.items()} == {
        "mig-1g.10gb": ["MIG-0-0"],
        "gpu" if rename is None else "gpu.shared": ["GPU-1::0", "GPU-1::1", "GPU-1::2"],
    }
    assert {(device.uuid, device.index, device.replicas) for device in [*found.values()][1]} == {("GPU-1", "1", 3)}
