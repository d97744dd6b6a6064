"""The admission of pods by one kubelet instance, and the active pods whose resources it counts.

Admission handlers run one after the other; the first that rejects the pod decides.

Source: kubelet/kubelet.go, ``NewMainKubelet`` for the order, ``rejectPod``, ``recordAdmissionRejection``;
kubelet/lifecycle/predicate.go, ``Admit`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Final

from ..admission import Rejection, resource_rejection, sidecar_rejection
from ..container_manager import ContainerManager
from ..golang.text import formatted
from ..model.config import KubeletConfig
from ..model.pod import Pod, PodUID
from ..model.resources import PODS, ResourceName
from ..model.version import FEATURE_GATES, Difference

__all__ = ["ActivePods", "PodAdmission"]

_FORMATS_REJECTION_EVENT: Final = Difference(
    "the message of a rejected pod's Event is a format of Go's fmt, so per cent signs in it are replaced",
    {"1.26": True, "1.36": False},
    "kubelet/kubelet.go, ``rejectPod`` (kubernetes v1.35.4, v1.36.3)",
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
            rejection = sidecar_rejection(pod)
        if rejection is None:
            allocatable = self._containers.update_plugin_resources(pod.uid, self._allocatable())
            used = self._active.requested_by_others(pod.uid)
            rejection = resource_rejection(pod, allocatable, used, self._version)
        if rejection is not None:
            self._containers.metrics.pod_rejected(rejection.reason)
        return rejection

    def event_message(self, rejection: Rejection) -> str:
        """The message of the Event about a rejected pod."""
        return formatted(rejection.message) if _FORMATS_REJECTION_EVENT.at(self._version) else rejection.message
