"""Machines of several models, and how GPUs lie to each other as NVML tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakegpu import InputError, Machine
from fakegpu.profiles.profile import load_profile, parse_profile


def test_models_follow_each_other_with_addresses_of_their_own(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("h100-80gb", 2), ("l4", 3), ("h100-80gb", 1)])

    assert [gpu.name.split()[1] for gpu in machine.gpus] == ["H100", "H100", "L4", "L4", "L4", "H100"]
    assert [gpu.minor for gpu in machine.gpus] == [0, 1, 2, 3, 4, 5]
    assert [gpu.pci_bus_id[:8] for gpu in machine.gpus] == ["00000000"] * 2 + ["00000001"] * 3 + ["00000002"]
    assert len({gpu.uuid for gpu in machine.gpus}) == len({gpu.pci_bus_id for gpu in machine.gpus}) == 6


def test_machine_keeps_each_profile_of_a_mix_once(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("h100-80gb", 2), ("l4", 3), ("h100-80gb", 1)])

    documents = (machine.directory / "profile.yaml").read_text().split("---\n")

    assert [parse_profile(text, "kept") for text in documents] == [load_profile("h100-80gb"), load_profile("l4")]


@pytest.mark.parametrize("gpus", [[], [("t4", 0)], [("t4", 2), ("l4", -1)], [("t4", 1025)]])
def test_a_mix_that_cannot_be_is_refused(tmp_path: Path, gpus: list[tuple[str, int]]) -> None:
    with pytest.raises(InputError, match="a machine has 1 to 1024"):
        Machine.create(tmp_path / "node", gpus=gpus)

    assert not (tmp_path / "node").exists()


def test_nvswitches_have_device_nodes(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("h100-80gb", 8), ("l4", 1)])

    assert sorted(path.name for path in machine.dev.glob("nvidia-nvswitch*")) == [
        "nvidia-nvswitch0",
        "nvidia-nvswitch1",
        "nvidia-nvswitch2",
        "nvidia-nvswitch3",
        "nvidia-nvswitchctl",
    ]


def test_pci_folder_tells_what_is_near(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 5)
    folder = machine.sys / "bus/pci/devices/0000:9d:00.0"

    told = {
        "numa_node": "1",
        "local_cpulist": "56-111",
        "max_link_speed": "32.0 GT/s PCIe",
        "max_link_width": "16",
    }
    assert {name: (folder / name).read_text().strip() for name in told} == told
