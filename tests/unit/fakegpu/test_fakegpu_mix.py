"""Machines of several models, and how GPUs lie to each other as NVML tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakegpu import InputError, Machine
from fakegpu.profiles.profile import load_profile, parse_profile

See = Callable[[Machine, str], str]
INTERNAL, SINGLE, MULTIPLE, HOSTBRIDGE, NODE, SYSTEM = 0, 10, 20, 30, 40, 50
OK, NO_CHIPSET, NO_TOPOLOGY, NOT_SUPPORTED = 0, 1, 3, 5
READ, WRITE, NVLINK, ATOMICS, PCI = 0, 1, 2, 3, 4

_PAIRS = """
import json
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
def links(one, other):
    address, found = n.nvmlDeviceGetPciInfo(other).busId, 0
    for link in range(18):
        try:
            found += n.nvmlDeviceGetNvLinkRemotePciInfo(one, link).busId == address
        except n.NVMLError:
            pass
    return found
print(json.dumps([
    [
        None if one is other else {
            "level": n.nvmlDeviceGetTopologyCommonAncestor(one, other),
            "p2p": [n.nvmlDeviceGetP2PStatus(one, other, index) for index in range(5)],
            "links": links(one, other),
        }
        for other in gpus
    ]
    for one in gpus
]))
"""


def matrix(machine: Machine, see: See, key: str) -> list[list[Any]]:
    return [[cell and cell[key] for cell in row] for row in json.loads(see(machine, _PAIRS))]


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


def test_sixty_four_gpus_of_a_mix_are_all_seen(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("gb200", 24), ("t4", 20), ("v100-16gb", 20)])

    names = see(machine, "n.nvmlInit()\nprint(n.nvmlDeviceGetCount())\n").split()
    assert names == ["64"]
    assert len({gpu.pci_bus_id for gpu in machine.gpus}) == 64
    assert len(list((machine.sys / "bus/pci/devices").iterdir())) == 64


@pytest.mark.parametrize("gpus", [[], [("t4", 0)], [("t4", 2), ("l4", -1)], [("t4", 1025)]])
def test_a_mix_that_cannot_be_is_refused(tmp_path: Path, gpus: list[tuple[str, int]]) -> None:
    with pytest.raises(InputError, match="a machine has 1 to 1024"):
        Machine.create(tmp_path / "node", gpus=gpus)

    assert not (tmp_path / "node").exists()


def test_nvlinks_of_a_dgx_1(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", "v100-16gb", 8)

    assert matrix(machine, see, "links") == [
        [None, 1, 1, 2, 2, 0, 0, 0],
        [1, None, 2, 1, 0, 2, 0, 0],
        [1, 2, None, 2, 0, 0, 1, 0],
        [2, 1, 2, None, 0, 0, 0, 1],
        [2, 0, 0, 0, None, 1, 1, 2],
        [0, 2, 0, 0, 1, None, 2, 1],
        [0, 0, 1, 0, 1, 2, None, 2],
        [0, 0, 0, 1, 2, 1, 2, None],
    ]


def test_pci_levels_of_a_dgx_1(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", "v100-16gb", 5)

    first = matrix(machine, see, "level")[0]

    assert first == [None, SINGLE, HOSTBRIDGE, HOSTBRIDGE, SYSTEM]


def test_peers_of_a_dgx_1_need_a_link_or_a_host_bridge_in_common(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", "v100-16gb", 6)

    first = matrix(machine, see, "p2p")[0]

    assert first[4] == [OK, OK, OK, OK, NO_TOPOLOGY]  # linked, on the other socket
    assert first[5] == [NO_TOPOLOGY, NO_TOPOLOGY, NOT_SUPPORTED, NOT_SUPPORTED, NO_TOPOLOGY]  # on the other socket
    assert first[1] == [OK, OK, OK, OK, OK]


def test_links_to_empty_slots_are_down(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", "h100-pcie", 3)
    ask = """
n.nvmlInit()
for index in range(3):
    gpu = n.nvmlDeviceGetHandleByIndex(index)
    print(sum(n.nvmlDeviceGetNvLinkState(gpu, link) for link in range(12)))
"""

    assert see(machine, ask).split() == ["12", "12", "0"]


def test_nvswitches_join_one_server_and_no_other(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 10)

    nvlink = [[cell and cell[NVLINK] for cell in row] for row in matrix(machine, see, "p2p")]

    assert nvlink[0][1:8] == [OK] * 7
    assert nvlink[0][8:] == [NOT_SUPPORTED] * 2
    assert nvlink[8][9] == OK


def test_switches_outside_the_server_join_all_of_them(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("gb200", 6), ("b200", 2)])

    nvlink = [[cell and cell[NVLINK] for cell in row] for row in matrix(machine, see, "p2p")]

    assert nvlink[0] == [None, OK, OK, OK, OK, OK, NOT_SUPPORTED, NOT_SUPPORTED]
    assert nvlink[6][7] == OK
    assert [gpu.pci_bus_id for gpu in machine.gpus[:5]] == [
        "00000008:01:00.0",
        "00000009:01:00.0",
        "00000018:01:00.0",
        "00000019:01:00.0",
        "00000022:01:00.0",
    ]


def test_geforce_cards_are_no_peers(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", "rtx-4090", 2)

    assert matrix(machine, see, "p2p")[0][1] == [NO_CHIPSET, NO_CHIPSET, NOT_SUPPORTED, NOT_SUPPORTED, NO_CHIPSET]


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
