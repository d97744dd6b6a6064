"""A topology hint: NUMA nodes on which a request could be served, and whether that would be as good as possible.

Sets of NUMA nodes are masks as the kubelet counts and compares them: bit n of a mask stands for node n.

Source: topologymanager/topology_manager.go, ``TopologyHint`` (kubernetes v1.34.4); bitmask/bitmask.go (kubernetes
v1.26.15 to v1.37.0, unchanged).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NewType

from ..model.resources import ResourceName

__all__ = ["NO_HINT", "NumaMask", "ProviderHints", "TopologyHint", "masks_over", "narrowness", "nodes_in", "numa_mask"]

NumaMask = NewType("NumaMask", int)


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """What a provider proposes, and in merged form what a container is given.

    Attributes:
        nodes: the NUMA nodes; None for no preference.
        preferred: no smaller set of nodes could serve the request.
    """

    nodes: NumaMask | None = None
    preferred: bool = False


NO_HINT: Final = TopologyHint()
"""What a container has that was given no hint."""

ProviderHints = Mapping[ResourceName, Sequence[TopologyHint] | None]
"""What one provider knows of one request: resource -> hints.

None is a resource without preference, no hints at all (an empty sequence) one that no set of NUMA nodes can serve.
"""


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
