"""What the kubelet says when it refuses a pod that was bound to its node.

Source: kubelet/cm/admission/errors.go and kubelet/lifecycle/predicate.go (kubernetes v1.34.4). Devices are allocated
before the resources are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from .golang.text import quoted
from .model.pod import Container, ContainerKind, Pod
from .model.resources import ResourceName, insufficient_resources, is_extended_resource
from .model.version import Difference, Version

__all__ = ["AllocationError", "Rejection", "device_rejection", "resource_rejection", "sidecar_rejection"]

_IGNORES_UNKNOWN_INIT_REQUESTS: Final = Difference(
    "admission ignores requests of init containers and sidecars for resources that the node does not know, as it "
    "does for app containers",
    {"1.26": False, "1.31": True},
    "kubelet/lifecycle/predicate.go, ``removeMissingExtendedResources`` (kubernetes v1.30.14, v1.31.14)",
)


class AllocationError(Exception):
    """Devices cannot be given; the message is the kubelet's and reaches the pod's status."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod was refused; it ends as Failed with this reason, and the message behind "Pod was rejected: "."""

    reason: str
    message: str


def device_rejection(error: AllocationError) -> Rejection:
    """The rejection for devices that could not be given."""
    return Rejection("UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected")


def resource_rejection(
    pod: Pod, allocatable: Mapping[ResourceName, int], used: Mapping[ResourceName, int], version: Version
) -> Rejection | None:
    """Count the node's resources again; None admits the pod.

    Args:
        pod: the pod in admission.
        allocatable: what the node has for pods, as the device manager sees it at this admission.
        used: what the other pods of the node ask for.
        version: the minor.
    """
    missing = insufficient_resources(_without_unknown(pod, allocatable, version).requests(), allocatable, used)
    if not missing:
        return None
    first = missing[0]
    return Rejection(
        f"OutOf{first.resource}",
        f"Node didn't have enough resource: {first.resource}, requested: {first.requested}, used: {first.used}, "
        f"capacity: {first.capacity}",
    )


def sidecar_rejection(pod: Pod) -> Rejection | None:
    """The rejection by a kubelet that knows sidecars and may not run them; None admits the pod.

    Source: kubelet/lifecycle/predicate.go, ``Admit`` (kubernetes v1.28.15).
    """
    for container in pod.containers:
        if container.kind is ContainerKind.SIDECAR:
            message = f"Init container {quoted(container.name)} may not have a non-default restartPolicy"
            return Rejection("InitContainerRestartPolicyForbidden", message)
    return None


def _without_unknown(pod: Pod, allocatable: Mapping[ResourceName, int], version: Version) -> Pod:
    """The pod without requests for extended resources that the node does not know: they are not its business."""

    def forgiven(container: Container) -> Container:
        if container.kind is not ContainerKind.APP and not _IGNORES_UNKNOWN_INIT_REQUESTS.at(version):
            return container
        requests = container.requests.items()
        known = {name: amount for name, amount in requests if name in allocatable or not is_extended_resource(name)}
        return replace(container, requests=known)

    return replace(pod, containers=tuple(map(forgiven, pod.containers)))
