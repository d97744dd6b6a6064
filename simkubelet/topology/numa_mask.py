"""Sets of NUMA nodes as the kubelet counts and compares them: bit n of a mask stands for node n.

Source: topologymanager/bitmask/bitmask.go (kubernetes v1.26.15 to v1.37.0, unchanged).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NewType

__all__ = ["NumaMask", "masks_over", "narrowness", "nodes_in", "numa_mask"]

NumaMask = NewType("NumaMask", int)


def numa_mask(nodes: Iterable[int]) -> NumaMask:
    """The set of some nodes; none of them is negative."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return NumaMask(mask)


def nodes_in(mask: NumaMask) -> tuple[int, ...]:
    """The nodes of a mask, ascending."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


def narrowness(mask: NumaMask) -> tuple[int, int]:
    """Sorts masks from the narrowest to the widest: fewer nodes come first, then nodes of lower number."""
    return mask.bit_count(), mask


def masks_over(nodes: Sequence[int]) -> Iterator[NumaMask]:
    """Every set of at least one of the nodes, those of one node first."""
    bits = [1 << node for node in nodes]
    for size in range(1, len(bits) + 1):
        for chosen in combinations(bits, size):
            yield NumaMask(sum(chosen))
