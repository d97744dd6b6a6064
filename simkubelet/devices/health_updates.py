"""The health of held devices: which pods get a change, how changes wait for the kubelet, what a status has of it.

Source: devicemanager/manager.go, ``genericDeviceUpdateCallback``, ``Updates``, ``UpdateAllocatedResourcesStatus``;
pod_devices.go, ``getPodAndContainerForDevice`` (kubernetes v1.31.14, v1.32.13, v1.36.3, v1.37.0).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from .._internal.change import Change
from ..apis.deviceplugin import HEALTHY, UNHEALTHY
from ..model.pod import ContainerKind, Pod, PodUID
from ..model.pod_status import ResourceHealth, ResourceStatus
from ..model.resources import ResourceName
from ..model.version import Difference, Version
from .device_list import DeviceList
from .device_manager import DeviceManager
from .pod_devices import DeviceID, PodDevices

__all__ = [
    "FINDS_PODS_BY_RESOURCE",
    "HEALTH_UPDATE_QUEUE",
    "HealthUpdates",
    "allocated_resources_status",
    "pods_with_changes",
]

FINDS_PODS_BY_RESOURCE: Final = Difference(
    "a change of health is reported to the pod that holds the device of this resource; before, to one that holds a "
    "device of that id of any resource",
    {"1.26": False, "1.37": True},
    "devicemanager/pod_devices.go, ``getPodAndContainerForDevice`` (kubernetes v1.36.3, v1.37.0)",
)
HEALTH_UPDATE_QUEUE: Final = Difference(
    "how many changes of devices' health wait until the kubelet takes them; further ones are dropped. With 0 the "
    "reader of lists waits instead; none: changes are not reported",
    {"1.26": None, "1.31": 0, "1.32": 100},
    "devicemanager/manager.go, ``newManagerImpl``, ``genericDeviceUpdateCallback`` (kubernetes v1.30.14, v1.31.14, "
    "v1.32.13)",
)

_log = logging.getLogger(__name__)


def pods_with_changes(
    resource: ResourceName, before: DeviceList, now: DeviceList, held: PodDevices, version: Version
) -> tuple[PodUID, ...]:
    """The pods that hold a device whose health is another one than before, or that was not listed before; sorted.

    Up to 1.36 the pod is looked for by the device's id alone, and may hold a device of another resource. In 1.31 a
    device that nobody holds counts too, as one of a pod without name.
    """
    holders = _holders(held, resource if FINDS_PODS_BY_RESOURCE.at(version) else None)
    pods = {pod for device, pod in holders.items() if _has_changed(device, before, now)}
    if HEALTH_UPDATE_QUEUE.at(version) == 0 and any(
        device not in holders and _has_changed(device, before, now) for device in now
    ):
        pods.add(PodUID(""))
    return tuple(sorted(pods))


def _holders(held: PodDevices, resource: ResourceName | None) -> Mapping[DeviceID, PodUID]:
    """Device -> the pod that is found for it: the kubelet takes any, this is the first."""
    holders: dict[DeviceID, PodUID] = {}
    for entry in held:
        if resource is None or entry.resource == resource:
            for device in entry.allocation.devices():
                holders.setdefault(device, entry.pod_uid)
    return holders


def _has_changed(device: DeviceID, before: DeviceList, now: DeviceList) -> bool:
    if device not in now:
        return False
    # The kubelet compares every entry of the list, and not all of them can be as before.
    return device in now.ambiguous or before.health.get(device) != now.health[device]


class HealthUpdates:
    """Lists of pods on their way from the device manager to the part of the kubelet that syncs pods.

    Args:
        capacity: how many wait; more are dropped. With 0 the giver waits until its list is taken.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[tuple[PodUID, ...]] = deque()
        self._changed = Change()

    def __len__(self) -> int:
        return len(self._waiting)

    async def put(self, pods: tuple[PodUID, ...]) -> None:
        """Report pods."""
        if self._capacity and len(self._waiting) >= self._capacity:
            _log.error("device update channel is full: discard pods info podsToUpdate=%s", list(pods))
            return
        self._waiting.append(pods)
        self._changed.notify()
        seen = self._changed.count
        while not self._capacity and any(waiting is pods for waiting in self._waiting):
            seen = await self._changed.wait(seen)

    async def get(self) -> tuple[PodUID, ...]:
        """The next list; waits for it."""
        seen = self._changed.count
        while not self._waiting:
            seen = await self._changed.wait(seen)
        pods = self._waiting.popleft()
        self._changed.notify()
        return pods


def allocated_resources_status(manager: DeviceManager, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
    """Container -> resources by name, of the app containers that hold any.

    A device that its plugin does not list is reported as healthy; a plugin that is gone does not change its devices.
    """
    apps = [container.name for container in pod.containers if container.kind is ContainerKind.APP]
    return {name: resources for name in apps if (resources := _held(manager, pod, name))}


def _held(manager: DeviceManager, pod: Pod, container: str) -> Sequence[ResourceStatus]:
    held = manager.pod_devices.container(pod.uid, container)
    return tuple(
        ResourceStatus(name, tuple(_reported(manager.listed(name), device) for device in sorted(held[name].devices())))
        for name in sorted(held)
    )


def _reported(listed: DeviceList, device: DeviceID) -> ResourceHealth:
    is_healthy = listed.health.get(device, HEALTHY) == HEALTHY
    return ResourceHealth(device, HEALTHY if is_healthy else UNHEALTHY)
