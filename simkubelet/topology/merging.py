"""The best hint for a request of several resources.

The kubelet forms every combination of one hint per resource, intersects the masks of each and keeps the best so far.
Which one is kept does not depend on the order: its comparison is a total order on (preferred, mask). So it is enough to
know which masks can come out, preferred and otherwise, and to take the least of them; that takes no combinations.

Source: topologymanager/policy.go, ``HintMerger`` and ``maxOfMinAffinityCounts`` (kubernetes v1.26.15 to v1.37.0,
unchanged).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import reduce
from operator import or_

from .enumeration import check_combinations
from .hint import TopologyHint
from .intersection import intersections
from .numa_mask import NumaMask

__all__ = ["ResourceHints", "best_hint"]

ResourceHints = Sequence[TopologyHint]
"""The hints of one resource; a hint without nodes stands for any."""


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
    check_combinations(len(hints) for hints in resources)
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
