"""Which GPUs a process sees: those whose device nodes it has, as in a container."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import InputError, Machine, cdi_spec
from fakegpu.cli.main import main

See = Callable[[Machine, str], str]
_LOOK = """
import json
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
print(json.dumps({
    "uuids": [n.nvmlDeviceGetUUID(gpu) for gpu in gpus],
    "indices": [n.nvmlDeviceGetIndex(gpu) for gpu in gpus],
    "minors": [n.nvmlDeviceGetMinorNumber(gpu) for gpu in gpus],
}))
"""


@pytest.fixture
def folder(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of device nodes that processes look at, with those of GPUs 1 and 3."""
    made = tmp_path / "dev"
    made.mkdir()
    for name in ("nvidiactl", "nvidia1", "nvidia3"):
        shutil.copy(machine.dev / name, made / name)
    monkeypatch.setenv("FAKEGPU_DEV", str(made))
    return made


@pytest.mark.usefixtures("folder")
def test_a_process_sees_the_gpus_whose_device_nodes_it_has(machine: Machine, see: See) -> None:
    seen = json.loads(see(machine, _LOOK))

    assert seen["uuids"] == [machine.gpus[1].uuid, machine.gpus[3].uuid]
    assert seen["indices"] == [0, 1]
    assert seen["minors"] == [1, 3]


@pytest.mark.usefixtures("folder")
def test_a_gpu_without_its_node_is_not_found_by_its_uuid(machine: Machine, see: See) -> None:
    ask = f"""
n.nvmlInit()
for uuid in {[gpu.uuid for gpu in machine.gpus]}:
    try:
        print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(uuid)))
    except n.NVMLError as error:
        print(error.value)
"""

    assert see(machine, ask).split() == ["6", "0", "6", "1"]


def test_a_node_that_appears_is_seen_by_the_next_session(folder: Path, machine: Machine, see: See) -> None:
    ask = f"""
import pathlib
n.nvmlInit()
print(n.nvmlDeviceGetCount())
pathlib.Path({str(folder)!r}, "nvidia0").touch()
print(n.nvmlDeviceGetCount())
n.nvmlShutdown()
n.nvmlInit()
print(n.nvmlDeviceGetCount())
"""

    assert see(machine, ask).split() == ["2", "2", "3"]


def test_without_a_folder_all_gpus_are_seen(machine: Machine, see: See) -> None:
    assert json.loads(see(machine, _LOOK))["uuids"] == [gpu.uuid for gpu in machine.gpus]


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
