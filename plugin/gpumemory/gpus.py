"""The GPUs of the node, as far as a plugin that shares their memory wants to know them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..nvml.nvml import Nvml

__all__ = ["Gpu", "read_gpus"]

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: NVML's.
        minor: The number in the name of its device node.
        numa_node: None where the machine does not say.
    """

    index: int
    uuid: str
    name: str
    minor: int
    memory_mib: int
    numa_node: int | None


def read_gpus(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
    """All GPUs in NVML's order; NVML must be initialised.

    Raises:
        NvmlError: A call failed.
    """
    return tuple(_read(nvml, index, sysfs) for index in range(nvml.gpu_count()))


def _read(nvml: Nvml, index: int, sysfs: Path) -> Gpu:
    gpu = nvml.gpu_by_index(index)
    return Gpu(
        index,
        nvml.uuid(gpu),
        nvml.name(gpu),
        nvml.minor_number(gpu),
        nvml.total_memory_bytes(gpu) // _MIB,
        _numa_node(sysfs / "bus/pci/devices" / nvml.pci_bus_id(gpu) / "numa_node"),
    )


def _numa_node(file: Path) -> int | None:
    try:
        node = int(file.read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
