"""The admission of pods by one kubelet instance: its handlers one after the other, the first that refuses decides.

Source: kubelet/kubelet.go, ``NewMainKubelet`` for the order, ``rejectPod``, ``recordAdmissionRejection``;
kubelet/lifecycle/predicate.go, ``Admit`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..admission import Rejection, resource_rejection, sidecar_rejection
from ..container_manager.container_manager import ContainerManager
from ..golang.text import formatted
from ..model.config import KubeletConfig
from ..model.pod import Pod
from ..model.resources import ResourceName
from .active_pods import ActivePods

__all__ = ["PodAdmission"]


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
        gate = config.version.sidecar_containers
        self._refuses_sidecars = gate is not None and not config.is_on("SidecarContainers", gate)
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
        return formatted(rejection.message) if self._version.rejection_event_is_format else rejection.message
