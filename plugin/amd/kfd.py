"""KFD's topology in sysfs: which GPUs and partitions do work, how they are linked, and whether there is any.

Source: ROCm/k8s-device-plugin, internal/pkg/amdgpu/amdgpu.go, ``GetDevIdsFromTopology`` and
``GetNodeIdsFromTopology``; internal/pkg/allocator/device.go, ``fetchAllPairWeights``; internal/pkg/plugin/plugin.go,
``simpleHealthCheck`` (August 2026).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["KfdLink", "KfdNode", "has_gpu", "is_there", "read_links", "read_nodes"]

_CLASS: Final = "class/kfd"
_NODES: Final = "class/kfd/kfd/topology/nodes"
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


def is_there(system: Path) -> bool:
    """Whether KFD is there at all; `system` stands for ``/sys``."""
    return (system / _CLASS).exists()


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
    for path in sorted((system / _NODES).glob("*/properties")):
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
        if value.isdecimal():
            found.setdefault(name, int(value))
    return found
