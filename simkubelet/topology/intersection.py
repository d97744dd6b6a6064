"""All intersections of one mask from each of several families, without forming every combination."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import or_

from .numa_mask import NumaMask, nodes_in

__all__ = ["intersections"]


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
    """To each mask's count those of its proper supersets are added (sign 1), or taken away again (sign -1)."""
    step = 1
    while step < len(counts):
        for start in range(0, len(counts), 2 * step):
            for index in range(start, start + step):
                counts[index] += sign * counts[index + step]
        step *= 2
    return counts
