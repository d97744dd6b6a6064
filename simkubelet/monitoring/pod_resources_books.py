"""What the PodResources API reads, from the pods and devices of one kubelet instance.

Source: kubelet/cm/container_manager_linux.go, ``GetDevices``, ``GetAllocatableDevices``; devicemanager/manager.go,
``GetAllocatableDevices`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..container_manager.container_manager import ContainerManager
from ..devices.pod_devices import DeviceID
from ..model.pod import Pod, PodUID
from ..model.resources import ResourceName
from ..pods.pod_manager import Pods

__all__ = ["KubeletBooks"]


class KubeletBooks:
    """`PodResourcesBooks` of a kubelet instance."""

    def __init__(self, pods: Pods, containers: ContainerManager) -> None:
        self._pods = pods
        self._containers = containers

    def pods(self) -> Iterable[Pod]:
        return self._pods.known()

    def active_pods(self) -> Iterable[Pod]:
        return self._pods.active()

    def update_allocated_devices(self) -> None:
        self._containers.allocator.release_inactive()

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        held = self._containers.devices.pod_devices.container(pod, container)
        return {resource: allocation.device_ids for resource, allocation in held.items()}

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        books = self._containers.devices
        return {
            resource: {device: books.listed(resource).numa_nodes.get(device) for device in healthy}
            for resource, healthy in books.healthy.items()
            if resource in books.devices
        }
