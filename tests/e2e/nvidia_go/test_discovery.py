"""NVIDIA's plugin and ours on the same GPUs and MIG devices: the resources they find, or with which words they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from tests.support.nvidia_sides import NvidiaNode, SidePlugin, assert_same_end

pytestmark = pytest.mark.nvidia_go

_SHARED = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Two GPUs that can be partitioned."""
    return Machine.create(tmp_path / "machine", "h100-80gb", 2, seed="discovery")


_MIXED_PAIR = ["gpu", "mig-1g.10gb"]


@pytest.mark.parametrize(
    ("partitions", "strategy", "resources"),
    [
        pytest.param([], "single", ["gpu"], id="single, none"),
        pytest.param([], "mixed", ["gpu"], id="mixed, none"),
        pytest.param([[]], "none", ["gpu"], id="none, one empty"),
        pytest.param([[]], "single", [], id="single, one empty"),
        pytest.param([[]], "mixed", ["gpu"], id="mixed, one empty"),
        pytest.param([["1g.10gb", "1g.10gb"]], "none", ["gpu"], id="none, one of two"),
        pytest.param([["1g.10gb", "1g.10gb"]], "single", [], id="single, one of two"),
        pytest.param([["1g.10gb", "1g.10gb"]], "mixed", _MIXED_PAIR, id="mixed, one of two"),
        pytest.param([["1g.10gb"], ["1g.10gb"]], "single", ["gpu"], id="single, all alike"),
        pytest.param([["1g.10gb", "3g.40gb"], ["1g.10gb"]], "single", [], id="single, different"),
        pytest.param([["1g.10gb"], []], "single", [], id="single, second empty"),
        pytest.param([["1g.10gb"], []], "mixed", ["mig-1g.10gb"], id="mixed, second empty"),
        pytest.param(
            [["1g.10gb", "3g.40gb"], ["2g.20gb"]],
            "mixed",
            ["mig-1g.10gb", "mig-2g.20gb", "mig-3g.40gb"],
            id="mixed, different",
        ),
        pytest.param(
            [["1g.10gb+me", "1g.10gb"], ["7g.80gb"]], "mixed", ["mig-1g.10gb", "mig-7g.80gb"], id="media extension"
        ),
    ],
)
def test_mig_devices_are_the_same_resources_or_the_same_error(
    nvidia_plugin: str, machine: Machine, partitions: list[list[str]], strategy: str, resources: list[str]
) -> None:
    for gpu, profiles in enumerate(partitions):
        machine.mig(gpu).set_mode(True)
        machine.mig(gpu).create(*profiles)
    with NvidiaNode(machine) as node:
        if resources:
            both = node.both(nvidia_plugin, f"--mig-strategy={strategy}", "--pass-device-specs")
            seen = [_served(plugin, resources) for plugin in both]

            assert seen[0] == seen[1]
        else:
            assert_same_end(node, nvidia_plugin, f"--mig-strategy={strategy}")


@pytest.mark.parametrize(
    ("config", "resources"),
    [
        pytest.param(_SHARED, ["gpu"], id="gpus of which one is partitioned"),
        pytest.param(
            "{flags: {migStrategy: mixed}, sharing: {timeSlicing: {renameByDefault: true, resources: ["
            "{name: gpu, replicas: 3}, {name: nvidia.com/mig-1g.10gb, replicas: 2}, {name: mig-7g.80gb, replicas: 2}"
            "]}}}",
            ["gpu.shared", "mig-1g.10gb.shared", "mig-3g.40gb"],
            id="renamed gpus and mig devices",
        ),
        pytest.param("{flags: {deviceDiscoveryStrategy: tegra}, " + _SHARED + "}", ["gpu"], id="tegra"),
    ],
)
def test_shared_devices_are_theassert_same_end(
    nvidia_plugin: str, machine: Machine, config: str, resources: list[str]
) -> None:
    machine.mig(1).create("1g.10gb", "3g.40gb")
    with NvidiaNode(machine) as node:
        ours, theirs = (_served(plugin, resources) for plugin in node.both(nvidia_plugin, config=config))

    assert ours == theirs


@pytest.mark.parametrize(
    ("strategy", "function"),
    [
        ("mixed", "nvmlDeviceGetCount"),
        ("single", "nvmlDeviceGetHandleByIndex"),
        ("mixed", "nvmlDeviceGetName"),
        ("mixed", "nvmlDeviceGetMigMode"),
        ("none", "nvmlDeviceGetUUID"),
        ("single", "nvmlDeviceGetMinorNumber"),
        ("none", "nvmlDeviceGetPciInfo"),
        ("single", "nvmlDeviceGetCudaComputeCapability"),
        ("single", "nvmlDeviceGetMaxMigDeviceCount"),
        ("mixed", "nvmlDeviceGetMigDeviceHandleByIndex"),
        ("single", "nvmlDeviceIsMigDeviceHandle"),
        ("single", "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"),
        ("mixed", "nvmlDeviceGetMemoryInfo"),
        ("mixed", "nvmlDeviceGetAttributes"),
        ("mixed", "nvmlDeviceGetGpuInstanceId"),
        ("mixed", "nvmlDeviceGetComputeInstanceId"),
        ("mixed", "nvmlDeviceGetGpuInstanceById"),
        ("mixed", "nvmlGpuInstanceGetComputeInstanceById"),
        ("mixed", "nvmlGpuInstanceGetInfo"),
        ("mixed", "nvmlComputeInstanceGetInfo"),
        ("mixed", "nvmlDeviceGetGpuInstanceProfileInfo"),
        ("single", "nvmlDeviceGetGpuInstanceProfileInfo"),
        ("mixed", "nvmlGpuInstanceGetComputeInstanceProfileInfo"),
    ],
)
def test_call_that_fails_ends_both_with_the_same_words(
    nvidia_plugin: str, machine: Machine, strategy: str, function: str
) -> None:
    for gpu in range(2):
        machine.mig(gpu).create("1g.10gb")
    machine.faults.fail_calls(function, "UNKNOWN")
    with NvidiaNode(machine) as node:
        assert_same_end(node, nvidia_plugin, f"--mig-strategy={strategy}")


def _served(plugin: SidePlugin, resources: list[str]) -> Any:
    """The registrations, the devices of each resource, and what a container gets for all of them."""
    registered = plugin.registered(len(resources))
    assert [request["resource_name"] for request in registered] == [f"nvidia.com/{name}" for name in resources]
    lists = {name: plugin.list_and_watch(f"nvidia.com/{name}").next() for name in resources}
    answers = {
        name: [plugin.allocate([device["ID"]], resource=f"nvidia.com/{name}") for device in devices]
        for name, devices in lists.items()
    }
    return registered, lists, answers
