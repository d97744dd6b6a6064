"""Whether a pod fits a node: the scheduler's filter, which the kubelet asks again at admission.

Source: scheduler/framework/plugins/noderesources/fit.go, ``fitsRequest`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .resources import ResourceName

__all__ = ["PODS", "InsufficientResource", "insufficient_resources"]

PODS = ResourceName("pods")
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class InsufficientResource:
    """A resource of which a node has too little for a pod.

    Attributes:
        used: what the pods on the node ask for.
        capacity: the node's allocatable.
    """

    resource: ResourceName
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        return "Too many pods" if self.resource == PODS else f"Insufficient {self.resource}"

    @property
    def is_unresolvable(self) -> bool:
        """Whether not even an empty node would do, so that preempting pods cannot help."""
        return self.resource != PODS and self.requested > self.capacity


def insufficient_resources(
    requests: Mapping[ResourceName, int], allocatable: Mapping[ResourceName, int], used: Mapping[ResourceName, int]
) -> tuple[InsufficientResource, ...]:
    """Every resource of which too little is left: pods, cpu, memory, ephemeral-storage, then the others by name."""
    missing = [
        InsufficientResource(name, amount, used.get(name, 0), allocatable.get(name, 0))
        for name, amount in ((PODS, 1), *requests.items())
        if amount and amount > allocatable.get(name, 0) - used.get(name, 0)
    ]
    return tuple(sorted(missing, key=_order))


def _order(missing: InsufficientResource) -> tuple[int, str]:
    name = missing.resource
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), name
