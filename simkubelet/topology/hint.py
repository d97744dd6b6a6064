"""Topology hints: NUMA nodes on which a request could be served, and the best one for a request of several resources.

Sets of NUMA nodes are masks as the kubelet counts and compares them: bit n of a mask stands for node n.

The kubelet forms every combination of one hint per resource, intersects the masks of each and keeps the best so far.
Which one is kept does not depend on the order: its comparison is a total order on (preferred, mask). So it is enough to
know which masks can come out, preferred and otherwise, and to take the least of them; that takes no combinations.

The kubelet's own walks over all sets of NUMA nodes and over all combinations of hints grow exponentially: on a machine
of 36 NUMA nodes a kubelet before 1.36 walks over 2^36 sets for each resource with topology and never comes to the end.
Here the walk is not taken: the count is known beforehand, and a count above the limit is an `EndlessEnumerationError`,
which `TopologyManager.admit` turns into an admission that does not return. Below the limits the kubelet needs from
microseconds to minutes; that time is not simulated.

Source: topologymanager/topology_manager.go, ``TopologyHint``; bitmask/bitmask.go, ``IterateBitMasks`` (kubernetes
v1.34.4); topologymanager/policy.go, ``HintMerger``, ``maxOfMinAffinityCounts``, ``iterateAllProviderTopologyHints``
(kubernetes v1.26.15 to v1.37.0, unchanged); kubernetes/kubernetes#138244.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from functools import reduce
from itertools import combinations
from math import prod
from operator import or_
from typing import Final, NewType

from ..model.resources import ResourceName

__all__ = [
    "NO_HINT",
    "EndlessEnumerationError",
    "NumaMask",
    "ProviderHints",
    "ResourceHints",
    "TopologyHint",
    "Walk",
    "best_hint",
    "check_masks",
    "intersections",
    "masks_over",
    "narrowness",
    "nodes_in",
    "numa_mask",
]

NumaMask = NewType("NumaMask", int)

_LONGEST_WALK_OVER_MASKS: Final = 1 << 20
"""20 NUMA nodes: seconds in the kubelet (5 us a set, measured). Each further node doubles that, and the memory too."""
_LONGEST_WALK_OVER_COMBINATIONS: Final = 1 << 28
"""About five minutes in the kubelet (1 us each, measured), after which its sync loop counts as hung
(kubelet.go, ``SyncLoopHealthCheck``)."""


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
ResourceHints = Sequence[TopologyHint]
"""The hints of one resource; a hint without nodes stands for any."""


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


def best_hint(
    resources: Sequence[ResourceHints], machine: NumaMask, fitness: Callable[[NumaMask], tuple[int, ...]]
) -> TopologyHint:
    """Merge the hints of all resources.

    Args:
        resources: the hints, resource by resource.
        machine: all NUMA nodes; the answer when nothing can be merged, not preferred.
        fitness: sorts masks, the fittest first; it compares the number of nodes before all else.

    Raises:
        EndlessEnumerationError: the kubelet would form too many combinations.
    """
    _check_combinations(len(hints) for hints in resources)
    preferred = {NumaMask(mask & machine) for mask in _preferred_masks(resources, machine)} - {NumaMask(0)}
    if preferred:
        return TopologyHint(min(preferred, key=fitness), preferred=True)
    masks = intersections([{machine}, *({_mask(hint, machine) for hint in hints} for hints in resources)])
    masks.discard(NumaMask(0))
    if not masks:
        return TopologyHint(machine, preferred=False)
    wanted = max((_fewest_nodes(hints) for hints in resources), default=0)
    return TopologyHint(min(masks, key=lambda mask: (_distance(mask, wanted), *fitness(mask))), preferred=False)


def _mask(hint: TopologyHint, machine: NumaMask) -> NumaMask:
    return machine if hint.nodes is None else hint.nodes


def _preferred_masks(resources: Sequence[ResourceHints], machine: NumaMask) -> Set[NumaMask]:
    """Masks of the combinations of preferred hints that all name the same nodes, or any."""
    named: list[set[NumaMask]] = []
    free: list[set[NumaMask]] = []
    for hints in resources:
        takes_any = any(hint.preferred and hint.nodes is None for hint in hints)
        masks = {hint.nodes for hint in hints if hint.preferred and hint.nodes is not None}
        (free if takes_any else named).append(masks)
    if named:
        return set.intersection(*named)
    return reduce(or_, free, {machine})


def _fewest_nodes(hints: ResourceHints) -> int:
    return min((hint.nodes.bit_count() for hint in hints if hint.nodes is not None), default=0)


def _distance(mask: NumaMask, wanted: int) -> int:
    """How far a mask that is not preferred is from the wanted number of nodes.

    Too few nodes are better than too many, whatever their number: as many as wanted, then one less, and so on, and
    only then one more.
    """
    count = mask.bit_count()
    return wanted - count if count <= wanted else count


def intersections(families: Sequence[Collection[NumaMask]]) -> set[NumaMask]:
    """The masks that are the intersection of one mask from each family; there is at least one family."""
    return reduce(_pairwise, (set(family) for family in families))


def _pairwise(left: set[NumaMask], right: set[NumaMask]) -> set[NumaMask]:
    shared = _union(left) & _union(right)
    left = {NumaMask(mask & shared) for mask in left}
    right = {NumaMask(mask & shared) for mask in right}
    nodes = nodes_in(NumaMask(shared))
    if len(left) * len(right) <= 3 * len(nodes) << len(nodes):
        return {NumaMask(one & other) for one in left for other in right}
    return _by_supersets(left, right, nodes)


def _union(masks: Collection[NumaMask]) -> int:
    return reduce(or_, masks, 0)


def _by_supersets(left: Collection[NumaMask], right: Collection[NumaMask], nodes: Sequence[int]) -> set[NumaMask]:
    """The same for large families: as many steps as there are sets of the nodes, times the nodes.

    A pair intersects in a superset of M exactly if both of its masks are supersets of M. So the pairs whose
    intersection includes M are counted by a product, and those whose intersection is M by taking away the larger ones.
    """
    spread = [NumaMask(0)]
    for node in nodes:
        spread += [NumaMask(mask | 1 << node) for mask in spread]
    index_of = {mask: index for index, mask in enumerate(spread)}

    def supersets(masks: Collection[NumaMask]) -> list[int]:
        counts = [0] * len(spread)
        for mask in masks:
            counts[index_of[mask]] = 1
        return _summed_over_supersets(counts, 1)

    pairs = [one * other for one, other in zip(supersets(left), supersets(right), strict=True)]
    return {mask for mask, count in zip(spread, _summed_over_supersets(pairs, -1), strict=True) if count}


def _summed_over_supersets(counts: list[int], sign: int) -> list[int]:
    """Add the counts of its proper supersets to each mask's count (sign 1), or subtract them again (sign -1)."""
    step = 1
    while step < len(counts):
        for start in range(0, len(counts), 2 * step):
            for index in range(start, start + step):
                counts[index] += sign * counts[index + step]
        step *= 2
    return counts


class Walk(Enum):
    """What is walked over; the first holds the lock of the device manager meanwhile, so lists and capacity wait too."""

    MASKS = "sets of NUMA nodes"
    COMBINATIONS = "combinations of hints"


class EndlessEnumerationError(Exception):
    """The kubelet would be busy with `steps` sets or combinations, for hours or until its memory ends."""

    def __init__(self, walk: Walk, steps: int) -> None:
        super().__init__(f"the kubelet walks over {steps} {walk.value} and does not come back")
        self.walk = walk
        self.steps = steps


def check_masks(nodes: int) -> None:
    """Refuse to list the sets of that many NUMA nodes where the kubelet would not end.

    Raises:
        EndlessEnumerationError: there are too many.
    """
    steps = (1 << nodes) - 1
    if steps > _LONGEST_WALK_OVER_MASKS:
        raise EndlessEnumerationError(Walk.MASKS, steps)


def _check_combinations(sizes: Iterable[int]) -> None:
    """Refuse to merge resources with that many hints each where the kubelet would not end.

    Raises:
        EndlessEnumerationError: there are too many combinations.
    """
    steps = prod(sizes)
    if steps > _LONGEST_WALK_OVER_COMBINATIONS:
        raise EndlessEnumerationError(Walk.COMBINATIONS, steps)
