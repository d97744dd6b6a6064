"""Machines of several models, and the GPU interconnect matrix of NVML."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakegpu import Machine

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


def test_sixty_four_gpus_of_a_mix_are_all_seen(tmp_path: Path, see: See) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("gb200", 24), ("t4", 20), ("v100-16gb", 20)])

    names = see(machine, "n.nvmlInit()\nprint(n.nvmlDeviceGetCount())\n").split()
    assert names == ["64"]
    assert len({gpu.pci_bus_id for gpu in machine.gpus}) == 64
    assert len(list((machine.sys / "bus/pci/devices").iterdir())) == 64


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
