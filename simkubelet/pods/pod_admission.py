"""The admission of pods by one kubelet instance, and the active pods whose resources it counts.

Admission handlers run one after the other; the first that rejects the pod decides: devices are allocated before the
resources are counted.

Source: kubelet/kubelet.go, ``NewMainKubelet`` for the order, ``rejectPod``, ``recordAdmissionRejection``;
kubelet/lifecycle/predicate.go, ``Admit``; kubelet/cm/admission/errors.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Final

from ..container_manager import ContainerManager
from ..golang.text import formatted, quoted
from ..model.config import KubeletConfig
from ..model.pod import Container, ContainerKind, Pod, PodUID
from ..model.pod_status import Rejection
from ..model.resources import PODS, ResourceName, can_have_claim, insufficient_resources, is_extended_resource
from ..model.version import EXTENDED_CLAIMS, FEATURE_GATES, Difference, Version

__all__ = ["ActivePods", "PodAdmission"]

_IGNORES_UNKNOWN_INIT_REQUESTS: Final = Difference(
    "admission ignores requests of init containers and sidecars for resources that the node does not know, as it "
    "does for app containers",
    {"1.26": False, "1.31": True},
    "kubelet/lifecycle/predicate.go, ``removeMissingExtendedResources`` (kubernetes v1.30.14, v1.31.14)",
)
_COUNTS_NO_CLAIMED_RESOURCES: Final = Difference(
    "admission does not count what a container gets through the claim of its pod's extended resources; in 1.35, with "
    "the gate on, nothing of which the node has none",
    {"1.26": False, "1.36": True},
    "kubelet/lifecycle/predicate.go, ``removeMissingExtendedResources``; scheduler/framework/plugins/noderesources/"
    "fit.go, ``shouldDelegateResourceToDRA`` (kubernetes/kubernetes#135725; v1.35.4, v1.36.3)",
)
_FORMATS_REJECTION_EVENT: Final = Difference(
    "the message of a rejected pod's Event is a format of Go's fmt, so per cent signs in it are replaced",
    {"1.26": True, "1.34.10": False, "1.35": True, "1.36": False},
    "kubelet/kubelet.go, ``rejectPod`` (kubernetes v1.34.9, v1.34.10, v1.35.8, v1.36.3)",
)


class ActivePods(Set[PodUID]):
    """Ids of active pods, in the order of their admission, and what these pods ask for together.

    The sum is kept rather than made, so that a pod's admission costs the same on an empty node and on a full one.
    """

    def __init__(self) -> None:
        self._requests: dict[PodUID, Mapping[ResourceName, int]] = {}
        self._total: dict[ResourceName, int] = {PODS: 0}

    def __contains__(self, uid: object) -> bool:
        return uid in self._requests

    def __iter__(self) -> Iterator[PodUID]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, pod: Pod) -> None:
        """Count a pod; nothing happens when it is counted already."""
        if pod.uid not in self._requests:
            self._requests[pod.uid] = {PODS: 1, **pod.requests()}
            for name, amount in self._requests[pod.uid].items():
                self._total[name] = self._total.get(name, 0) + amount

    def discard(self, uid: PodUID) -> None:
        """Count a pod no longer."""
        for name, amount in self._requests.pop(uid, {}).items():
            self._total[name] -= amount

    def requested_by_others(self, uid: PodUID) -> dict[ResourceName, int]:
        """Resource -> what all pods but this one ask for together, with their number under `PODS`."""
        own = self._requests.get(uid, {})
        return {name: amount - own.get(name, 0) for name, amount in self._total.items()}


class PodAdmission:
    """Admits pods to a node.

    Args:
        config: the kubelet's settings.
        active: the pods that count, the one in admission among them.
        allocatable: the node's allocatable as published.
    """

    def __init__(
        self,
        config: KubeletConfig,
        containers: ContainerManager,
        active: ActivePods,
        allocatable: Callable[[], Mapping[ResourceName, int]],
    ) -> None:
        self._version = config.version
        has_sidecars = FEATURE_GATES["SidecarContainers"].at(config.version) is not None
        self._serves_extended = config.is_on(EXTENDED_CLAIMS)
        self._refuses_sidecars = has_sidecars and not config.is_on("SidecarContainers")
        self._containers = containers
        self._active = active
        self._allocatable = allocatable

    async def rejection(self, pod: Pod) -> Rejection | None:
        """Devices and topology first, then the count of all resources; None admits the pod.

        Raises:
            KubeletPanicError: the kubelet of this minor would end here.
        """
        rejection = await self._containers.admit(pod)
        if rejection is None and self._refuses_sidecars:
            rejection = _sidecar_rejection(pod)
        if rejection is None:
            allocatable = self._containers.update_plugin_resources(pod.uid, self._allocatable())
            used = self._active.requested_by_others(pod.uid)
            counted = _without_claimed(pod, allocatable, self._version) if self._serves_extended else pod
            rejection = _resource_rejection(counted, allocatable, used, self._version)
        if rejection is not None:
            self._containers.metrics.pod_rejected(rejection.reason)
        return rejection

    def event_message(self, rejection: Rejection) -> str:
        """The message of the Event about a rejected pod."""
        return formatted(rejection.message) if _FORMATS_REJECTION_EVENT.at(self._version) else rejection.message


def _resource_rejection(
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


def _sidecar_rejection(pod: Pod) -> Rejection | None:
    """The rejection by a kubelet that knows sidecars and may not run them; None admits the pod.

    Source: kubelet/lifecycle/predicate.go, ``Admit`` (kubernetes v1.28.15).
    """
    for container in pod.containers:
        if container.kind is ContainerKind.SIDECAR:
            message = f"Init container {quoted(container.name)} may not have a non-default restartPolicy"
            return Rejection("InitContainerRestartPolicyForbidden", message)
    return None


def _without_claimed(pod: Pod, allocatable: Mapping[ResourceName, int], version: Version) -> Pod:
    """The pod without requests for resources that DRA drivers serve."""
    claim = pod.extended_claim

    def is_served(container: Container, name: ResourceName) -> bool:
        if not can_have_claim(name):
            return False
        if _COUNTS_NO_CLAIMED_RESOURCES.at(version):
            return claim is not None and claim.serves(container.name, name)
        return not allocatable.get(name)

    return _without(pod, is_served)


def _without_unknown(pod: Pod, allocatable: Mapping[ResourceName, int], version: Version) -> Pod:
    """The pod without requests for extended resources that the node does not know: they are not its business."""

    def is_unknown(container: Container, name: ResourceName) -> bool:
        if container.kind is not ContainerKind.APP and not _IGNORES_UNKNOWN_INIT_REQUESTS.at(version):
            return False
        return name not in allocatable and is_extended_resource(name)

    return _without(pod, is_unknown)


def _without(pod: Pod, leaves_out: Callable[[Container, ResourceName], bool]) -> Pod:
    """The pod without some requests of its containers."""

    def counted(container: Container) -> Container:
        left = {name: amount for name, amount in container.requests.items() if not leaves_out(container, name)}
        return replace(container, requests=left)

    return replace(pod, containers=tuple(map(counted, pod.containers)))
