"""The folders of PCI functions, read as the kernel's documentation and ``lspci`` read them."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest

from fakegpu import Machine

LAYOUTS = {
    "h100-80gb": {0: (16, 0x14220C), 2: (131_072, 0x14220C), 4: (32, 0x14220C)},
    "a100-40gb": {0: (16, 0x40200), 1: (65_536, 0x14220C), 3: (32, 0x14220C)},
    "t4": {0: (16, 0x40200), 1: (256, 0x14220C), 3: (32, 0x14220C)},
}


def devices(machine: Machine) -> Path:
    return machine.sys / "bus/pci/devices"


def regions(folder: Path) -> dict[int, tuple[int, int, int]]:
    """Start, last byte and flags of each region that is there, by the line of `resource`."""
    lines = [[int(number, 16) for number in line.split(" ")] for line in (folder / "resource").read_text().splitlines()]
    assert len(lines) == 13
    return {number: (start, end, flags) for number, (start, end, flags) in enumerate(lines) if end}


def capabilities(config: bytes) -> dict[int, int]:
    """Offset of each standard capability, by its id."""
    assert config[0x06] & 0x10
    found, offset = {}, config[0x34]
    while offset:
        found[config[offset]] = offset
        offset = config[offset + 1]
    return found


@pytest.mark.parametrize("profile", LAYOUTS)
def test_regions_have_the_sizes_of_the_board(tmp_path: Path, profile: str) -> None:
    machine = Machine.create(tmp_path / "node", profile, 1)
    folder = devices(machine) / machine.gpu(0).sysfs_name

    found = regions(folder)

    assert {number: (end + 1 - start >> 20, flags) for number, (start, end, flags) in found.items()} == LAYOUTS[profile]
    assert all(start % (end + 1 - start) == 0 for start, end, _ in found.values())


def test_no_two_regions_overlap(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("b200", 8), ("a100-80gb", 8), ("t4", 4)])

    spans = sorted((start, end) for folder in devices(machine).iterdir() for start, end, _ in regions(folder).values())

    assert all(end < start for (_, end), (start, _) in pairwise(spans))


@pytest.mark.parametrize("profile", LAYOUTS)
def test_configuration_space_agrees_with_the_other_files(tmp_path: Path, profile: str) -> None:
    machine = Machine.create(tmp_path / "node", profile, 1)
    folder = devices(machine) / machine.gpu(0).sysfs_name
    config = (folder / "config").read_bytes()

    assert len(config) == 4096
    told = {name: int((folder / name).read_text(), 16) for name in ("vendor", "device", "class", "revision")}
    vendor, device, command, _ = struct.unpack_from("<4H", config)
    assert (vendor, device) == (told["vendor"], told["device"]) == (0x10DE, device)
    assert command & 0x6 == 0x6, "memory and bus mastering are on"
    assert config[8] == told["revision"]
    assert int.from_bytes(config[9:12], "little") == told["class"]
    assert config[0x0E] == 0, "a function that is no bridge"
    for number, (start, _, flags) in regions(folder).items():
        base = struct.unpack_from("<Q" if flags & 0x100000 else "<I", config, 0x10 + 4 * number)[0]
        assert base == start | flags & 0xF
    subsystem = struct.unpack_from("<HH", config, 0x2C)
    assert subsystem == tuple(int((folder / f"subsystem_{name}").read_text(), 16) for name in ("vendor", "device"))


@pytest.mark.parametrize("profile", LAYOUTS)
def test_link_of_the_capability_is_that_of_nvml(tmp_path: Path, profile: str) -> None:
    machine = Machine.create(tmp_path / "node", profile, 1)
    config = (devices(machine) / machine.gpu(0).sysfs_name / "config").read_bytes()

    express = capabilities(config)[0x10]

    pci = machine._segment.read(0).pci
    (highest,), (now,) = struct.unpack_from("<I", config, express + 12), struct.unpack_from("<H", config, express + 18)
    assert (highest & 0xF, highest >> 4 & 0x3F) == (pci.link_generation_max, pci.link_width_max)
    assert (now & 0xF, now >> 4 & 0x3F) == (pci.link_generation, pci.link_width)


def test_geforce_card_is_a_display_controller(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", gpus=[("rtx-4090", 1), ("l4", 1)])

    classes = [(devices(machine) / gpu.sysfs_name / "class").read_text() for gpu in machine.gpus]

    assert classes == ["0x030000\n", "0x030200\n"]


def test_nvswitch_has_all_that_a_gpu_has(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 8)
    switch = devices(machine) / "0000:07:00.0"

    told = {path.name: path.read_text().strip() for path in switch.iterdir() if path.name not in {"config", "resource"}}

    assert (told["vendor"], told["device"], told["class"]) == ("0x10de", "0x22a3", "0x068000")
    assert told["numa_node"] == "-1"
    assert [(end + 1 - start) >> 20 for start, end, _ in regions(switch).values()] == [32]
    assert set(capabilities((switch / "config").read_bytes())) == {0x01, 0x05}


def test_gpu_is_bound_to_the_driver_whose_module_is_loaded(machine: Machine) -> None:
    (driver,) = {(devices(machine) / gpu.sysfs_name / "driver").resolve().name for gpu in machine.gpus}

    assert driver == "nvidia"
    modules = [line.split() for line in (machine.proc / "modules").read_text().splitlines()]
    assert driver in {name for name, *_ in modules}
    assert all(len(fields) == 7 and fields[4] == "Live" for fields in modules)


def test_kinds_of_devices_are_the_hosts_and_the_drivers(machine: Machine) -> None:
    characters, blocks = (machine.proc / "devices").read_text().split("\n\n")
    of_host = Path("/proc/devices").read_text().split("\n\n")

    assert set(of_host[0].splitlines()) < set(characters.splitlines())
    assert blocks == of_host[1]
    numbers = {name: number for number, name in map(str.split, characters.splitlines()[1:])}
    assert (numbers["nvidia"], numbers["nvidia-caps"]) == ("195", "511")
