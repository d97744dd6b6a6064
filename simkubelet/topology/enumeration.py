"""What the kubelet cannot finish: its walks over all sets of NUMA nodes and over all combinations of hints.

Both grow exponentially. On a machine of 36 NUMA nodes a kubelet before 1.36 walks over 2^36 sets for each resource
with topology and never comes to the end. Here the walk is not taken: the count is known beforehand, and a count above
the limit is an `EndlessEnumerationError`, which `TopologyManager.admit` turns into an admission that does not return.
Below the limits the kubelet needs from microseconds to minutes; that time is not played.

Source: kubernetes/kubernetes#138244; topologymanager/bitmask/bitmask.go ``IterateBitMasks`` and policy.go
``iterateAllProviderTopologyHints`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from math import prod
from typing import Final

__all__ = ["EndlessEnumerationError", "Walk", "check_combinations", "check_masks"]

_LONGEST_WALK_OVER_MASKS: Final = 1 << 20
"""20 NUMA nodes: seconds in the kubelet (5 us a set, measured). Each further node doubles that, and the memory too."""

_LONGEST_WALK_OVER_COMBINATIONS: Final = 1 << 28
"""About five minutes in the kubelet (1 us each, measured), after which its sync loop counts as hung
(kubelet.go, ``SyncLoopHealthCheck``)."""


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


def check_combinations(sizes: Iterable[int]) -> None:
    """Refuse to merge resources with that many hints each where the kubelet would not end.

    Raises:
        EndlessEnumerationError: there are too many combinations.
    """
    steps = prod(sizes)
    if steps > _LONGEST_WALK_OVER_COMBINATIONS:
        raise EndlessEnumerationError(Walk.COMBINATIONS, steps)
