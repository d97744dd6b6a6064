"""The folders of PCI functions in sysfs, as the kernel shows them: identity, place, link, regions, configuration space.

The kernel's files of a function that has no driver to ask: what reads them finds what the board's profile says. The
addresses of regions in the host's address space are made up; regions of one server do not overlap.

Source: Linux 6.12, Documentation/ABI/testing/sysfs-bus-pci and drivers/pci/pci-sysfs.c, ``resource_show``; PCI Express
Base Specification 6.0, chapter 7; regions and places of capabilities: `lspci -vv` and `hexdump config` of an A100 and
of an H100.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from ..state import layout
from ..state.gpu import Gpu
from .inside import link_inside, make_folder_inside, write_all_inside, write_inside

_DEVICES: Final = PurePath("sys", "bus", "pci", "devices")
_DRIVER: Final = PurePath("sys", "bus", "pci", "drivers", "nvidia")
_CLASS_VGA: Final = 0x030000
_CLASS_3D: Final = 0x030200
_CLASS_BRIDGE: Final = 0x068000
_BRAND_GEFORCE: Final = 5
_REVISION: Final = 0xA1
_MIB: Final = 1 << 20

# GT/s of one lane by generation, as sysfs writes it.
_LINK_SPEEDS: Final = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}

_REGIONS: Final = 13
"""Lines of ``resource``: six regions, the ROM, and six that virtual functions would have."""
_MEMORY_32: Final = (0x0, 0x40200)
_MEMORY_64: Final = (0xC, 0x14220C)
"""Low bits of a base address register, and what the kernel makes of them; prefetchable with 64 bits."""
_LOW_WINDOW: Final = 0x8000_0000
_HIGH_WINDOW: Final = 0x2000_0000_0000
_WINDOW_BYTES: Final = 1 << 40
_LOW_WINDOWS: Final = 64

_ARCHITECTURE_HOPPER: Final = 9
_CONFIG_BYTES: Final = 4096
_COMMAND: Final = 0x0547
_STATUS_HAS_CAPABILITIES: Final = 0x0010


@dataclass(frozen=True, slots=True)
class _Region:
    """What a base address register (``number``, 0 to 5) maps; with 64 bits it takes the next one as well."""

    number: int
    start: int
    size: int
    is_64_bit: bool = True

    @property
    def bits(self) -> tuple[int, int]:
        return _MEMORY_64 if self.is_64_bit else _MEMORY_32


@dataclass(frozen=True, slots=True)
class _Function:
    """A function's numbers; ``capabilities`` are those of power management, MSI and PCI Express, by offset."""

    device_id: int
    pci_class: int
    regions: Sequence[_Region]
    subsystem_id: int = 0
    irq: int = 0
    link: tuple[int, int, int, int] | None = None
    """Generation and lanes in use, and the highest of both; None: nothing is known of it."""
    capabilities: tuple[int, int, int] = (0x60, 0x68, 0x78)


def write_gpu_folder(root: Path, gpu: Gpu, state: layout.GpuState) -> None:
    """Make the folder of a GPU, bound to the driver.

    Raises:
        OSError: The host does not let us write.
    """
    pci, is_recent = state.pci, state.identity.architecture >= _ARCHITECTURE_HOPPER
    function = _Function(
        pci.device_id,
        _CLASS_VGA if state.identity.brand == _BRAND_GEFORCE else _CLASS_3D,
        _gpu_regions(gpu.minor, state.memory.bar1_total_bytes, is_recent),
        pci.subsystem_id,
        pci.irq,
        (pci.link_generation, pci.link_width, pci.link_generation_max, pci.link_width_max),
        (0x40, 0x48, 0x60) if is_recent else (0x60, 0x68, 0x78),
    )
    folder = gpu_folder(gpu)
    _write_folder(
        root,
        folder,
        function,
        {
            "numa_node": f"{state.placement.numa_node}",
            "local_cpulist": _cpu_list(state.placement.cpu_mask),
            "current_link_speed": _link_speed(pci.link_generation),
            "max_link_speed": _link_speed(pci.link_generation_max),
            "current_link_width": f"{pci.link_width}",
            "max_link_width": f"{pci.link_width_max}",
        },
    )
    make_folder_inside(root, _DRIVER)
    link_inside(root, folder / "driver", os.path.relpath(_DRIVER, folder))


def write_switch_folder(root: Path, address: str, device_id: int, number: int) -> None:
    """Make the folder of an NVSwitch, whose place in the host nothing is known of.

    Raises:
        OSError: The host does not let us write.
    """
    start = _HIGH_WINDOW - (number + 1) * 32 * _MIB
    function = _Function(device_id, _CLASS_BRIDGE, [_Region(0, start, 32 * _MIB)])
    _write_folder(root, _DEVICES / address, function, {"numa_node": "-1"})


def gpu_folder(gpu: Gpu) -> PurePath:
    """Return the folder of a GPU's PCI function, from the machine's folder."""
    return _DEVICES / gpu.sysfs_name


def write_numa_node(root: Path, gpu: Gpu) -> None:
    """Let sysfs show the NUMA node that ``gpu`` has: a reader finds the old one or the new one, no empty file."""
    write_inside(root, gpu_folder(gpu) / "numa_node", f"{gpu.numa_node}\n")


def _gpu_regions(minor: int, framebuffer_bytes: int, is_recent: bool) -> list[_Region]:
    """Return registers, the window onto the memory (NVML's BAR1, in whole powers of two) and what the driver maps."""
    window = _HIGH_WINDOW + minor * _WINDOW_BYTES
    aperture = 1 << max(framebuffer_bytes - 1, 1).bit_length()
    behind = window + _WINDOW_BYTES // 2
    if is_recent:
        return [
            _Region(0, behind + 32 * _MIB, 16 * _MIB),
            _Region(2, window, aperture),
            _Region(4, behind, 32 * _MIB),
        ]
    low = _LOW_WINDOW + minor % _LOW_WINDOWS * 16 * _MIB
    return [
        _Region(0, low, 16 * _MIB, is_64_bit=False),
        _Region(1, window, aperture),
        _Region(3, behind, 32 * _MIB),
    ]


def _write_folder(root: Path, folder: PurePath, function: _Function, more: Mapping[str, str]) -> None:
    vendor, device = _halves(function.device_id)
    subsystem_vendor, subsystem_device = _halves(function.subsystem_id)
    texts = {
        "vendor": f"0x{vendor:04x}",
        "device": f"0x{device:04x}",
        "class": f"0x{function.pci_class:06x}",
        "revision": f"0x{_REVISION:02x}",
        "subsystem_vendor": f"0x{subsystem_vendor:04x}",
        "subsystem_device": f"0x{subsystem_device:04x}",
        "irq": f"{function.irq}",
        "enable": "1",
        "resource": _resource(function.regions),
    }
    files: dict[str, str | bytes] = {name: f"{content}\n" for name, content in {**texts, **more}.items()}
    write_all_inside(root, folder, {**files, "config": _config(function)})


def _halves(identity: int) -> tuple[int, int]:
    """Return vendor and device."""
    return identity & 0xFFFF, identity >> 16


def _resource(regions: Sequence[_Region]) -> str:
    lines = {region.number: (region.start, region.start + region.size - 1, region.bits[1]) for region in regions}
    return "\n".join(" ".join(f"0x{number:016x}" for number in lines.get(line, (0, 0, 0))) for line in range(_REGIONS))


def _config(function: _Function) -> bytes:
    """Return the configuration space: the header, the standard capabilities, and no extended one."""
    space = bytearray(_CONFIG_BYTES)
    power, msi, express = function.capabilities
    class_bytes = function.pci_class.to_bytes(3, "little")
    header = function.device_id, _COMMAND, _STATUS_HAS_CAPABILITIES, _REVISION, class_bytes
    struct.pack_into("<IHHB3s", space, 0x00, *header)
    for region in function.regions:
        value, form = region.start | region.bits[0], "<Q" if region.is_64_bit else "<I"
        struct.pack_into(form, space, 0x10 + 4 * region.number, value)
    struct.pack_into("<I", space, 0x2C, function.subsystem_id)
    struct.pack_into("<B", space, 0x34, power)
    struct.pack_into("<BB", space, 0x3C, function.irq & 0xFF, 1)
    # Version 3, no D1 or D2, state D0 that keeps its registers.
    struct.pack_into("<BBHH", space, power, 0x01, msi, 0x0003, 0x0008)
    struct.pack_into("<BBH", space, msi, 0x05, express if function.link else 0, 0x0080)
    if function.link is None:
        return bytes(space)
    generation, width, generation_max, width_max = function.link
    struct.pack_into("<BBH", space, express, 0x10, 0, 0x0002)
    struct.pack_into("<I", space, express + 0x0C, generation_max | width_max << 4)
    struct.pack_into("<H", space, express + 0x12, generation | width << 4)
    struct.pack_into("<I", space, express + 0x2C, (1 << generation_max) - 1 << 1)
    struct.pack_into("<H", space, express + 0x30, generation_max)
    return bytes(space)


def _link_speed(generation: int) -> str:
    return f"{_LINK_SPEEDS[generation]} GT/s PCIe" if generation in _LINK_SPEEDS else "Unknown"


def _cpu_list(mask: Sequence[int]) -> str:
    """Return CPUs as sysfs lists them: ``0-55,112-167``."""
    cpus = [64 * word + bit for word, bits in enumerate(mask) for bit in range(64) if bits >> bit & 1]
    known = set(cpus)
    firsts = [cpu for cpu in cpus if cpu - 1 not in known]
    lasts = [cpu for cpu in cpus if cpu + 1 not in known]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(firsts, lasts, strict=True))
