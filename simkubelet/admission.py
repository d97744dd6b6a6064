"""What the kubelet says when it refuses a pod that was bound to its node.

Source: kubelet/cm/admission/errors.go and kubelet/lifecycle/predicate.go (kubernetes v1.34.4). Devices are allocated
before the resources are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .allocation import AllocationError
from .fit import insufficient_resources
from .pod import Pod
from .resources import ResourceName, is_extended_resource

__all__ = ["Rejection", "device_rejection", "resource_rejection"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod was refused; it ends as Failed with this reason, and the message behind "Pod was rejected: "."""

    reason: str
    message: str


def device_rejection(error: AllocationError) -> Rejection:
    """The rejection for devices that could not be given."""
    return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")


def resource_rejection(
    pod: Pod,
    allocatable: Mapping[ResourceName, int],
    used: Mapping[ResourceName, int],
    held: Mapping[ResourceName, int],
) -> Rejection | None:
    """Count the node's resources once more; None admits the pod.

    Args:
        pod: the pod in admission.
        allocatable: the node's published allocatable.
        used: what the other pods of the node ask for.
        held: devices in use by resource. A pod that has devices already is not refused because a plugin is down:
            allocatable counts as at least what is held (``sanitizeNodeAllocatable``).
    """
    raised = {**allocatable, **{name: max(size, allocatable.get(name, 0)) for name, size in held.items()}}
    # Extended resources that the node does not know are not its business.
    requests = {
        name: amount for name, amount in pod.requests().items() if not is_extended_resource(name) or name in raised
    }
    missing = insufficient_resources(requests, raised, used)
    if not missing:
        return None
    first = missing[0]
    return Rejection(
        f"OutOf{first.resource}",
        f"Node didn't have enough resource: {first.resource}, requested: {first.requested}, used: {first.used}, "
        f"capacity: {first.capacity}",
    )
