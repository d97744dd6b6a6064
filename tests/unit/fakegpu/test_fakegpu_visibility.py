"""Which GPUs a process sees: those whose device nodes it has, as in a container."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakegpu import InputError, Machine, cdi_spec
from fakegpu.cli.main import main


def test_a_cdi_spec_gives_each_gpu_its_own_node_and_all_the_library(machine: Machine) -> None:
    spec = cdi_spec(machine, "nvidia.com/gpu")

    by_name = {device["name"]: device["containerEdits"]["mounts"] for device in spec["devices"]}
    assert list(by_name) == [*(gpu.uuid for gpu in machine.gpus), "0", "1", "2", "3", "all"]
    assert by_name["2"] == by_name[machine.gpus[2].uuid]
    assert [one["containerPath"] for one in by_name[machine.gpus[2].uuid]] == ["/dev/nvidia2"]
    assert [one["containerPath"] for one in by_name["all"]] == [f"/dev/nvidia{index}" for index in range(4)]
    common = spec["containerEdits"]
    places = {one["containerPath"]: Path(one["hostPath"]) for one in common["mounts"]}
    assert places["/opt/fakegpu/lib/libnvidia-ml.so.1"] == machine.library
    assert all(place.is_file() for place in places.values())
    assert "FAKEGPU_DEV=/dev" in common["env"]


@pytest.mark.parametrize("kind", ["nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu", "a/b"])
def test_cdi_kinds_of_the_specification(machine: Machine, kind: str) -> None:
    assert cdi_spec(machine, kind)["kind"] == kind


@pytest.mark.parametrize("kind", ["", "gpu", "nvidia.com/", "/gpu", "nvidia.com/gpu/a", "1a/b", "a./b", "a/b.c"])
def test_what_is_no_cdi_kind_is_refused(machine: Machine, kind: str) -> None:
    with pytest.raises(InputError, match="write VENDOR/CLASS, such as"):
        cdi_spec(machine, kind)


def test_cdi_command_writes_the_specification(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "spec.json"

    assert main(["cdi", "--dir", str(machine.directory), "-o", str(file)]) == 0

    assert json.loads(file.read_text()) == cdi_spec(machine)


def test_cdi_specification_names_nvswitches(machine: Machine) -> None:
    places = [one["containerPath"] for one in cdi_spec(machine)["containerEdits"]["mounts"]]

    assert {"/dev/nvidiactl", "/dev/nvidia-nvswitchctl", "/dev/nvidia-nvswitch3"} <= set(places)
    assert not {"/dev/nvidia0", "/dev/nvidia3"} & set(places)
