"""AMD's GPUs as sysfs shows them, by the amdgpu driver and by KFD's topology, and the resources that they make.

KFD's topology has the GPUs and partitions that can be given work, and how they are linked.

Source: ROCm/k8s-device-plugin (August 2026): internal/pkg/amdgpu/amdgpu.go, ``GetAMDGPUs``, ``GetDevIdsFromTopology``
and ``GetNodeIdsFromTopology``; internal/pkg/allocator/device.go, ``fetchAllPairWeights``;
cmd/k8s-device-plugin/main.go, ``getResourceList``; internal/pkg/plugin/plugin.go, ``ListAndWatch`` and
``simpleHealthCheck``. As there, a device whose folder lacks an entry goes by the numbers of the one before it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from ..errors import FatalError
from ..framework import DeviceID

__all__ = [
    "NAMESPACE",
    "AmdGpu",
    "KfdLink",
    "KfdNode",
    "NamingStrategy",
    "devices_of",
    "find_gpus",
    "has_gpu",
    "has_kfd",
    "read_links",
    "read_nodes",
    "resource_names",
]

_log = logging.getLogger(__name__)

_KFD: Final = "class/kfd"
_KFD_NODES: Final = "class/kfd/kfd/topology/nodes"
_LARGEST_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU, or one partition of a GPU, that can be given work.

    Attributes:
        number: Of the node in the topology.
        render: Of its ``/dev/dri/renderD<n>``.
        parent: What all partitions of one GPU have in common: domain, bus and device of PCI.
    """

    number: int
    render: int
    parent: str


@dataclass(frozen=True, slots=True)
class KfdLink:
    """A link between two nodes; `kind` is 2 for PCIe and 11 for XGMI."""

    source: int
    target: int
    kind: int


def has_kfd(system: Path) -> bool:
    """Whether KFD is there at all; `system` stands for ``/sys``."""
    return (system / _KFD).exists()


def has_gpu(system: Path) -> bool:
    """Whether the topology has a GPU, which is all that is known of health without an exporter."""
    return any(
        found.get("cpu_cores_count", 0) == 0 and found.get("gfx_target_version", 0) > 0
        for _, found in _properties_of_nodes(system)
    )


def read_nodes(system: Path) -> dict[int, KfdNode]:
    """The nodes that can be given work, by the number of their render node."""
    nodes = {}
    for folder, found in _properties_of_nodes(system):
        render = found.get("drm_render_minor", 0)
        if render > 0 and folder.name.isdecimal() and {"location_id", "domain"} <= found.keys():
            location = found["location_id"]
            bus, device = location >> 8 & 0xFF, location >> 3 & 0x1F
            parent = f"{found['domain']:04x}:{bus:02x}:{device:02x}:0"
            nodes[render] = KfdNode(int(folder.name), render, parent)
    return nodes


def read_links(system: Path) -> Iterator[KfdLink]:
    """The links of all such nodes in the order in which they count: of two between the same nodes the later one."""
    for folder, found in _properties_of_nodes(system):
        if found.get("drm_render_minor", 0) <= 0 or not folder.name[:1].isdecimal():
            continue
        for kind in ("io_links", "p2p_links"):
            for name in _numbered(folder / kind):
                link = _properties(f"{folder}/{kind}/{name}/properties")
                yield KfdLink(link.get("node_from", 0), link.get("node_to", 0), link.get("type", 0))


def _properties_of_nodes(system: Path) -> Iterator[tuple[Path, Mapping[str, int]]]:
    for path in sorted((system / _KFD_NODES).glob("*/properties")):
        yield path.parent, _properties(path)


def _numbered(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name[:1].isdecimal())  # noqa: PTH208 - there are thousands
    except OSError:
        return []


def _properties(path: Path | str) -> dict[str, int]:
    """What a file says, a name and a number on each line; nothing where it cannot be read.

    Partitioned GPUs have thousands of links, each a file: so the file is read at once, past all buffers.
    """
    found: dict[str, int] = {}
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            content = os.read(file, _LARGEST_BYTES)
        finally:
            os.close(file)
    except OSError:
        return found
    for line in content.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        if value.isascii() and value.isdecimal():
            found.setdefault(name, int(value))
    return found


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
        parent: The same for all partitions of a GPU, see `KfdNode`.
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
    return int(text) if text.isascii() and text.isdecimal() else 0


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
