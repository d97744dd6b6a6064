"""KFD's topology of AMD GPUs: one folder for each NUMA node of CPUs and each GPU or partition, with links between them.

Source: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c: node_show, mem_show, iolink_show; kfd_crat.c for weights.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from ...files.inside import link_inside, write_all_inside
from .model import AmdProfile, Link

_VENDOR: Final = 0x1002
_WAVE_FRONT: Final = 64
_SIMD_ID_BASE: Final = 0x80000000 + 1000
_HEAP_PUBLIC: Final = 1
_HOST_BANK: Final = {"heap_type": 0, "size_in_bytes": 1 << 40, "flags": 0, "width": 64, "mem_clk_max": 4800}


@dataclass(frozen=True, slots=True)
class KfdNode:
    """One GPU, or one partition of a GPU.

    Attributes:
        number: of the node.
        gpu: number of the GPU that it is, or is part of.
        numa_node: of the CPUs next to it.
        hive: of GPUs that XGMI joins; None without XGMI.
        domain: of PCI.
        location: bus, device and function in one number; the function counts partitions.
        render: of ``/dev/dri/renderD<n>``.
        parts: partitions of the GPU.
        unique_id: of the GPU.
        hive_id: of the hive, 0 without.
    """

    number: int
    gpu: int
    numa_node: int
    hive: int | None
    domain: int
    location: int
    render: int
    parts: int
    unique_id: int
    hive_id: int


@dataclass(frozen=True, slots=True)
class _Edge:
    """A link from one node to another; ``is_direct`` for io_links, else p2p_links."""

    source: int
    target: int
    link: Link
    is_direct: bool


def write_topology(root: Path, profile: AmdProfile, gpus: Sequence[KfdNode]) -> None:
    """Make ``sys/class/kfd`` below ``root``, which is no link.

    Args:
        root: what stands for ``/``.
        profile: model and server.
        gpus: nodes in rising order; CPU nodes come before them.
    """
    real, visible = PurePath("sys/devices/virtual/kfd/kfd"), PurePath("sys/class/kfd/kfd")
    topology = real / "topology"
    link_inside(root, visible, os.path.relpath(real, visible.parent))
    write_all_inside(root, topology, {"generation_id": "1\n"})
    _write(root, topology / "system_properties", {"platform_oem": 0, "platform_id": 0, "platform_rev": 0})
    cpu_nodes = 1 + max(slot.numa_node for slot in profile.server.slots)
    edges = list(_edges(profile, cpu_nodes, gpus))
    for cpu in range(cpu_nodes):
        _write_node(root, topology / "nodes" / str(cpu), cpu, 0, "", _cpu_properties(profile, cpu), _HOST_BANK, edges)
    for gpu in gpus:
        memory = profile.memory
        bank = {
            "heap_type": _HEAP_PUBLIC,
            "size_in_bytes": (memory.total_mib << 20) // gpu.parts,
            "flags": 0,
            "width": memory.width_bits,
            "mem_clk_max": memory.max_clock_mhz,
        }
        folder = topology / "nodes" / str(gpu.number)
        _write_node(root, folder, gpu.number, _gpu_id(gpu), "ip discovery", _gpu_properties(profile, gpu), bank, edges)


def _gpu_id(gpu: KfdNode) -> int:
    """A number of 16 bits that differs between GPUs and is not zero, as KFD's is."""
    return (gpu.unique_id >> 8 & 0xFF00) | (gpu.number & 0xFF)


def _cpu_properties(profile: AmdProfile, number: int) -> dict[str, int]:
    cpus = profile.server.cpus_per_numa_node
    return _blank() | {"cpu_cores_count": cpus, "mem_banks_count": 1, "cpu_core_id_base": number * cpus}


def _gpu_properties(profile: AmdProfile, gpu: KfdNode) -> dict[str, int]:
    identity = profile.identity
    return _blank() | {
        "simd_count": identity.simd_count // gpu.parts,
        "mem_banks_count": 1,
        "simd_id_base": _SIMD_ID_BASE + gpu.number * identity.simd_count // gpu.parts,
        "max_waves_per_simd": 8,
        "lds_size_in_kb": 64,
        "num_gws": 64,
        "wave_front_size": _WAVE_FRONT,
        "simd_per_cu": identity.simd_per_cu,
        "max_slots_scratch_cu": 32,
        "gfx_target_version": identity.gfx_target_version,
        "vendor_id": _VENDOR,
        "device_id": identity.device_id,
        "location_id": gpu.location,
        "domain": gpu.domain,
        "drm_render_minor": gpu.render,
        "hive_id": gpu.hive_id,
        "num_sdma_engines": 2,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 24,
        "max_engine_clk_fcompute": identity.max_clock_mhz,
        "unique_id": gpu.unique_id,
        "num_xcc": 1,
    }


def _blank() -> dict[str, int]:
    names = (
        "cpu_cores_count simd_count mem_banks_count caches_count io_links_count p2p_links_count cpu_core_id_base "
        "simd_id_base max_waves_per_simd lds_size_in_kb gds_size_in_kb num_gws wave_front_size array_count "
        "simd_arrays_per_engine cu_per_simd_array simd_per_cu max_slots_scratch_cu gfx_target_version vendor_id "
        "device_id location_id domain drm_render_minor hive_id num_sdma_engines num_sdma_xgmi_engines "
        "num_sdma_queues_per_engine num_cp_queues"
    )
    return dict.fromkeys(names.split(), 0)


def _edges(profile: AmdProfile, cpu_nodes: int, gpus: Sequence[KfdNode]) -> Iterator[_Edge]:
    server = profile.server
    for cpu in range(cpu_nodes):
        yield from (_Edge(cpu, other, server.cpu_link, True) for other in range(cpu_nodes) if cpu != other)
    across = server.pcie.weight + server.cpu_link.weight
    for gpu in gpus:
        for cpu in range(cpu_nodes):
            is_near = cpu == gpu.numa_node
            link = server.pcie if is_near else Link(type=server.pcie.type, weight=across, bandwidth=0)
            yield _Edge(gpu.number, cpu, link, is_near)
            yield _Edge(cpu, gpu.number, link, is_near)
    yield from (_between(profile, one, other) for one in gpus for other in gpus if one.number != other.number)


def _between(profile: AmdProfile, one: KfdNode, other: KfdNode) -> _Edge:
    server = profile.server
    if one.gpu == other.gpu and server.inside is not None:
        return _Edge(one.number, other.number, server.inside, True)
    if one.hive is not None and one.hive == other.hive and server.xgmi is not None:
        return _Edge(one.number, other.number, server.xgmi, True)
    crossing = 0 if one.numa_node == other.numa_node else server.cpu_link.weight
    link = Link(type=server.pcie.type, weight=2 * server.pcie.weight + crossing, bandwidth=0)
    return _Edge(one.number, other.number, link, False)


def _write_node(
    root: Path,
    folder: PurePath,
    number: int,
    gpu_id: int,
    name: str,
    properties: dict[str, int],
    bank: Mapping[str, int],
    edges: Sequence[_Edge],
) -> None:
    own = sorted((edge for edge in edges if edge.source == number), key=lambda edge: edge.target)
    direct = [edge for edge in own if edge.is_direct]
    peers = [edge for edge in own if not edge.is_direct]
    _write(root, folder / "properties", properties | {"io_links_count": len(direct), "p2p_links_count": len(peers)})
    write_all_inside(root, folder, {"gpu_id": f"{gpu_id}\n", "name": f"{name}\n"})
    _write(root, folder / "mem_banks" / "0" / "properties", bank)
    for kind, links in (("io_links", direct), ("p2p_links", peers)):
        for position, edge in enumerate(links):
            _write(root, folder / kind / str(position) / "properties", _link_properties(edge))


def _link_properties(edge: _Edge) -> dict[str, int]:
    return {
        "type": edge.link.type,
        "version_major": 0,
        "version_minor": 0,
        "node_from": edge.source,
        "node_to": edge.target,
        "weight": edge.link.weight,
        "min_latency": 0,
        "max_latency": 0,
        "min_bandwidth": 0,
        "max_bandwidth": edge.link.bandwidth,
        "recommended_transfer_size": 0,
        "recommended_sdma_engine_id_mask": 0,
        "flags": 1,
    }


def _write(root: Path, path: PurePath, properties: Mapping[str, int]) -> None:
    text = "".join(f"{name} {value}\n" for name, value in properties.items())
    write_all_inside(root, path.parent, {path.name: text})
