"""``nvidia-smi topo -m``: the GPU interconnect matrix, and which CPUs and memory are near."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pynvml

from .reading import NOT_AVAILABLE, Selected, ask, field_value

_UNDERLINED: Final = "\x1b[4m"
_PLAIN: Final = "\x1b[0m"
_CPU_WORDS: Final = 64
_BITS: Final = 64

_LEVELS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}

_LEGEND: Final = {
    "X": "Self",
    "SYS": "PCIe and the interconnect between CPU sockets",
    "NODE": "PCIe and the interconnect between host bridges of one NUMA node",
    "PHB": "PCIe through a host bridge",
    "PXB": "several PCIe switches, no host bridge",
    "PIX": "at most one PCIe switch",
    "NV#": "so many NVLinks",
}


def lines(gpus: Selected) -> Iterator[str]:
    """The matrix and what its words mean."""
    names = "\t".join(f"GPU{index}" for index, _ in gpus)
    yield f"\t{_UNDERLINED}{names}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID{_PLAIN}"
    for index, handle in gpus:
        row = "\t".join(" X " if other == index else _between(handle, its) for other, its in gpus)
        yield f"GPU{index}\t{row}\t{_cpus(handle)}\t{_nodes(handle)}\t\t{_own_node(handle)}"
    yield ""
    yield "Legend:"
    yield ""
    yield from (f"  {word:<4} = {meaning}" for word, meaning in _LEGEND.items())


def _between(handle: Any, other: Any) -> str:
    if links := _links_between(handle, other):
        return f"NV{links}"
    level = ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, handle, other)
    return NOT_AVAILABLE if level is None else _LEVELS.get(level, NOT_AVAILABLE)


def _links_between(handle: Any, other: Any) -> int:
    """Links from one GPU to the other, or as many as both have to a switch."""
    address = pynvml.nvmlDeviceGetPciInfo(other).busId.upper()
    direct = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        remote = ask(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        direct += remote is not None and remote.busId.upper() == address
    if direct:
        return direct
    switched = [field_value(each, pynvml.NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT) or 0 for each in (handle, other)]
    return min(switched)


def _cpus(handle: Any) -> str:
    return _ranges(ask(pynvml.nvmlDeviceGetCpuAffinity, handle, _CPU_WORDS))


def _nodes(handle: Any) -> str:
    return _ranges(ask(pynvml.nvmlDeviceGetMemoryAffinity, handle, _CPU_WORDS, pynvml.NVML_AFFINITY_SCOPE_NODE))


def _own_node(handle: Any) -> str:
    node = ask(pynvml.nvmlDeviceGetNumaNodeId, handle)
    return NOT_AVAILABLE if node is None else str(node)


def _ranges(words: Any) -> str:
    """Set bits as in ``0-55,112-167``."""
    numbers = [
        position * _BITS + bit for position, word in enumerate(words or ()) for bit in range(_BITS) if word >> bit & 1
    ]
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts) or NOT_AVAILABLE
