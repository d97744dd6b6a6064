"""The GPUs that the amdgpu driver has, the partitions of each that KFD gives work to, and the resources that they make.

Source: ROCm/k8s-device-plugin, internal/pkg/amdgpu/amdgpu.go, ``GetAMDGPUs``, cmd/k8s-device-plugin/main.go,
``getResourceList``, and internal/pkg/plugin/plugin.go, ``ListAndWatch`` (August 2026). As there, a device whose
folder lacks an entry goes by the numbers of the one before it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from ..errors import FatalError
from ..framework.device_plugin import DeviceID
from .kfd import KfdNode, read_nodes

__all__ = ["NAMESPACE", "AmdGpu", "NamingStrategy", "devices_of", "find_gpus", "resource_names"]

_log = logging.getLogger(__name__)

_DRIVERS: Final = "module/amdgpu/drivers"
_FUNCTIONS: Final = "pci:amdgpu/" + "[0-9a-fA-F]" * 4 + ":*"
_PARTITIONS: Final = "devices/platform/amdgpu_xcp_*"
_NO_DRIVER_STATUS: Final = 2


@dataclass(frozen=True, slots=True)
class AmdGpu:
    """A GPU, or one partition of a GPU.

    Attributes:
        device_id: PCI address, or ``amdgpu_xcp_<n>``.
        card: Of its ``/dev/dri/card<n>``.
        render: Of its ``/dev/dri/renderD<n>``.
        parent: The same for all partitions of a GPU, see `kfd.KfdNode`.
        node: Its number in KFD's topology.
        numa_node: Negative where the machine has no NUMA nodes.
        compute: Compute partition mode in lower case, empty where there is none.
        memory: Memory partition mode, likewise.
    """

    device_id: DeviceID
    card: int
    render: int
    parent: str
    node: int
    numa_node: int
    compute: str
    memory: str

    @property
    def partition(self) -> str:
        """Both modes in one word, empty where it has not both."""
        return f"{self.compute}_{self.memory}" if self.compute and self.memory else ""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What a device is known by; those of the device before it stay where its own are missing."""

    card: int = 0
    render: int = 128
    parent: str = ""
    node: int = 0

    def of(self, folder: Path, nodes: Mapping[int, KfdNode]) -> _Numbers:
        """The numbers that a device's folder gives."""
        numbers = self
        for name in sorted(entry.name for entry in folder.glob("drm/*")):
            if name.startswith("card"):
                numbers = replace(numbers, card=_number(name.removeprefix("card")))
            elif name.startswith("renderD"):
                numbers = replace(numbers, render=_number(name.removeprefix("renderD")))
                if (node := nodes.get(numbers.render)) is not None:
                    numbers = replace(numbers, parent=node.parent, node=node.number)
        return numbers


def find_gpus(system: Path) -> dict[DeviceID, AmdGpu]:
    """All GPUs and partitions; `system` stands for ``/sys``.

    Raises:
        FatalError: the driver is not there.
    """
    drivers = system / _DRIVERS
    if not drivers.exists():
        error = f"stat {drivers}/: no such file or directory"
        raise FatalError(f"amdgpu driver unavailable. exiting with exit code 2. error: {error}", _NO_DRIVER_STATUS)
    nodes, numbers = read_nodes(system), _Numbers()
    found: dict[DeviceID, AmdGpu] = {}
    for folder in sorted(drivers.glob(_FUNCTIONS)):
        compute, memory = (_word(folder / f"current_{kind}_partition").lower() for kind in ("compute", "memory"))
        numa_node = _word(folder / "numa_node")
        if not numa_node.removeprefix("-").isdecimal():
            _log.warning("No NUMA node can be read at %s, the device is left out", folder / "numa_node")
            continue
        numbers = numbers.of(folder, nodes)
        gpu = _gpu(folder, numbers, int(numa_node), compute, memory)
        found[gpu.device_id] = gpu
    for folder in sorted(system.glob(_PARTITIONS)):
        numbers = numbers.of(folder, nodes)
        has_render = any(folder.glob("drm/renderD*"))
        parent = _partitioned(found.values(), numbers.parent) if has_render else None
        # The driver keeps a place for each partition that a GPU may ever have.
        if parent is not None and numbers.render in nodes and parent.numa_node != -1:
            gpu = _gpu(folder, numbers, parent.numa_node, parent.compute, parent.memory)
            found[gpu.device_id] = gpu
    return found


def _partitioned(gpus: Iterable[AmdGpu], parent: str) -> AmdGpu | None:
    return next((gpu for gpu in gpus if gpu.parent == parent and gpu.partition), None)


def _gpu(folder: Path, numbers: _Numbers, numa_node: int, compute: str, memory: str) -> AmdGpu:
    return AmdGpu(
        DeviceID(folder.name), numbers.card, numbers.render, numbers.parent, numbers.node, numa_node, compute, memory
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _word(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


NAMESPACE: Final = "amd.com"
_GPU: Final = "gpu"


class NamingStrategy(StrEnum):
    """How resources are named."""

    SINGLE = "single"
    """``gpu``, whatever the partition mode is."""
    MIXED = "mixed"
    """After the partition mode, such as ``cpx_nps4``; ``gpu`` where there are no partitions."""


def resource_names(strategy: NamingStrategy, gpus: Collection[AmdGpu]) -> tuple[str, ...]:
    """The names behind ``amd.com/``, sorted; none without GPUs.

    Raises:
        FatalError: GPUs are partitioned in different ways, which have no single name.
    """
    partitions = _partitions(gpus)
    if not gpus:
        return ()
    if strategy is NamingStrategy.MIXED:
        return partitions or (_GPU,)
    if len(partitions) > 1:
        raise FatalError(
            "Error occured: Partitions of different styles across GPUs in a node is not supported with single "
            "strategy. Please start device plugin with mixed strategy"
        )
    return (_GPU,)


def devices_of(resource: str, gpus: Collection[AmdGpu]) -> tuple[AmdGpu, ...]:
    """The devices of one of these resources: all, where the GPUs of the node are partitioned alike or not at all."""
    if len(_partitions(gpus)) <= 1:
        return tuple(gpus)
    return tuple(gpu for gpu in gpus if f"{gpu.compute}_{gpu.memory}" == resource)


def _partitions(gpus: Collection[AmdGpu]) -> tuple[str, ...]:
    return tuple(sorted({gpu.partition for gpu in gpus} - {""}))
