"""The health of held devices, as the status of a container tells it.

Source: devicemanager/manager.go, ``UpdateAllocatedResourcesStatus`` (kubernetes v1.31.14, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..apis.deviceplugin import HEALTHY, UNHEALTHY
from ..model.pod import ContainerKind, Pod
from ..model.pod_status import ResourceHealth, ResourceStatus
from .device_list import DeviceList
from .device_manager import DeviceManager
from .pod_devices import DeviceID

__all__ = ["allocated_resources_status"]


def allocated_resources_status(manager: DeviceManager, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
    """Container -> resources by name, of the app containers that hold any.

    A device that its plugin does not list is told as healthy; a plugin that is gone does not change its devices.
    """
    apps = [container.name for container in pod.containers if container.kind is ContainerKind.APP]
    return {name: resources for name in apps if (resources := _held(manager, pod, name))}


def _held(manager: DeviceManager, pod: Pod, container: str) -> Sequence[ResourceStatus]:
    held = manager.pod_devices.container(pod.uid, container)
    return tuple(
        ResourceStatus(name, tuple(_told(manager.listed(name), device) for device in sorted(held[name].devices())))
        for name in sorted(held)
    )


def _told(listed: DeviceList, device: DeviceID) -> ResourceHealth:
    is_healthy = listed.health.get(device, HEALTHY) == HEALTHY
    return ResourceHealth(device, HEALTHY if is_healthy else UNHEALTHY)
