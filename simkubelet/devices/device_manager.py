"""The state of the device manager: devices by health, endpoints, who holds what.

Nothing here waits or does I/O: the registration server reports plugins and their lists, the `Allocator` takes devices
for containers, the node status asks for the capacity. A device id of a resource is healthy or unhealthy; an id that a
plugin lists twice with different health is in both sets, as in the kubelet. Free devices are kept for each resource,
so that no container makes it look at all of them.

Source: devicemanager/manager.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from heapq import heappop, heappush
from typing import Final

from ..apis.deviceplugin import DevicePluginOptions
from ..model.node import DeviceCapacity
from ..model.pod import PodUID
from ..model.resources import ResourceName
from ..model.version import Version
from .checkpoint import Checkpoint
from .device_list import DeviceList
from .endpoint import Endpoint, Registered, plugin_endpoints
from .pod_devices import DeviceID, PodDevices

__all__ = ["DeviceManager", "FreeDevices"]

_NONE: Final = DeviceList({}, {}, {})
_SPARE: Final = 64


class DeviceManager:
    """Devices, endpoints and allocations of one kubelet instance.

    Args:
        checkpoint: what the last instance left, None on a new node.
        now: the kubelet's clock; resources of the checkpoint get five minutes from here to register again.
        version: the Kubernetes minor to behave as.

    Attributes:
        endpoints: resource -> the plugin that is called.
        devices: resource -> what its plugin listed last.
        healthy: resource -> its healthy devices; the resources that are registered.
        unhealthy: resource -> the other ones.
        pod_devices: who holds which devices.
        allocated: resource -> devices that are held or reserved.
    """

    def __init__(self, checkpoint: Checkpoint | None, now: float, version: Version) -> None:
        self.endpoints = plugin_endpoints(version)
        self.devices: dict[ResourceName, DeviceList] = {}
        self.healthy: dict[ResourceName, Set[DeviceID]] = {}
        self.unhealthy: dict[ResourceName, Set[DeviceID]] = {}
        self.pod_devices = PodDevices(checkpoint.entries if checkpoint else ())
        self.allocated: dict[ResourceName, set[DeviceID]] = self.pod_devices.allocated()
        self._free: dict[ResourceName, FreeDevices] = {}
        # What the checkpoint says of a resource is one object as long as its healthy devices are.
        self._registered: dict[ResourceName, tuple[Set[DeviceID], tuple[DeviceID, ...]]] = {}
        for resource in checkpoint.registered if checkpoint else ():
            # Capacity stays 0 until the plugin registers again.
            self._set_devices(resource, frozenset(), frozenset())
            self.endpoints.restore(resource, now)

    def connect(self, endpoint: Endpoint, options: DevicePluginOptions) -> None:
        """Take a plugin that registered, with its options; its devices, if it had any, stay as they are.

        Raises:
            AlreadyConnectedError: see `plugin_endpoints`.
        """
        self.endpoints.connect(Registered(endpoint, options))

    def disconnect(self, resource: ResourceName, socket: str, now: float) -> None:
        """A plugin is gone: its endpoint stops, and where it was the resource's last the devices turn unhealthy.

        Source: ``PluginDisconnected``.
        """
        if not self.endpoints.disconnect(resource, socket, now):
            return
        unhealthy = frozenset(self.unhealthy.get(resource, ())) | self.healthy.get(resource, frozenset())
        if resource in self.healthy:
            self._set_devices(resource, frozenset(), unhealthy)
        else:
            # Nothing was listed yet: known, but not registered.
            self.unhealthy[resource] = unhealthy

    def update(self, resource: ResourceName, devices: DeviceList) -> None:
        """Take a ListAndWatch response, the whole list of a resource.

        Source: ``genericDeviceUpdateCallback``.
        """
        self.devices[resource] = devices
        self._set_devices(resource, devices.healthy, devices.unhealthy)

    def listed(self, resource: ResourceName) -> DeviceList:
        """What the resource's plugin listed last; empty before its first list."""
        return self.devices.get(resource, _NONE)

    def _set_devices(self, resource: ResourceName, healthy: Set[DeviceID], unhealthy: Set[DeviceID]) -> None:
        self.healthy[resource] = healthy
        self.unhealthy[resource] = unhealthy
        self._free.pop(resource, None)

    def capacity(self) -> DeviceCapacity:
        """What is known and usable now, without forgetting anything: see `drop_expired`."""
        capacity = {resource: len(devices) for resource, devices in self.healthy.items()}
        for resource, devices in self.unhealthy.items():
            capacity[resource] = capacity.get(resource, 0) + len(devices)
        return DeviceCapacity(capacity, {resource: len(devices) for resource, devices in self.healthy.items()})

    def drop_expired(self, now: float) -> frozenset[ResourceName]:
        """Forget the resources whose plugin has been gone for the grace period, and those without endpoint.

        Source: the removals within ``GetCapacity``.

        Returns:
            The forgotten resources; not empty means that the checkpoint is to be written.
        """
        expired = {
            resource
            for resource in self.healthy.keys() | self.unhealthy.keys()
            if (registered := self.endpoints.get(resource)) is None or registered.endpoint.is_grace_period_over(now)
        }
        for resource in expired:
            self.endpoints.forget(resource)
            self.healthy.pop(resource, None)
            self.unhealthy.pop(resource, None)
            self._free.pop(resource, None)
            self._registered.pop(resource, None)
        return frozenset(expired)

    def knows(self, resource: ResourceName) -> bool:
        """Whether a resource is the device manager's business: it is registered, or some pod holds devices of it.

        Source: ``isDevicePluginResource``.
        """
        return resource in self.healthy or resource in self.allocated

    # Who holds what

    def free(self, resource: ResourceName) -> FreeDevices:
        """The healthy devices of a registered resource that nobody holds and that are not reserved."""
        if (free := self._free.get(resource)) is None:
            free = FreeDevices(self.healthy[resource] - self.allocated.get(resource, set()))
            self._free[resource] = free
        return free

    def reserve(self, resource: ResourceName, devices: Collection[DeviceID]) -> None:
        """Keep devices for a container whose plugin is about to be asked; from now on the resource is in use."""
        self.allocated.setdefault(resource, set()).update(devices)
        if (free := self._free.get(resource)) is not None:
            for device in devices:
                free.remove(device)

    def release_inactive(self, active: Collection[PodUID]) -> None:
        """Free the devices of pods that are no longer active; the checkpoint is not written for it.

        Source: ``UpdateAllocatedDevices``.
        """
        ended = self.pod_devices.pods().difference(active)
        if ended:
            self.pod_devices.delete(ended)
            self.forget_reservations()

    def forget_reservations(self) -> None:
        """Reset reservations to the recorded allocations, after a failed allocation or the end of pods."""
        before, self.allocated = self.allocated, self.pod_devices.allocated()
        for resource, free in self._free.items():
            healthy = self.healthy[resource]
            was, is_now = before.get(resource, set()), self.allocated.get(resource, set())
            for device in was - is_now:
                if device in healthy:
                    free.add(device)
            for device in is_now - was:
                free.remove(device)

    def checkpoint(self) -> Checkpoint:
        """What a restarted kubelet needs."""
        registered = {resource: self._registered_devices(resource) for resource in self.healthy}
        return Checkpoint(entries=tuple(self.pod_devices), registered=registered)

    def _registered_devices(self, resource: ResourceName) -> tuple[DeviceID, ...]:
        healthy = self.healthy[resource]
        known, devices = self._registered.get(resource, (None, ()))
        if known is not healthy:
            devices = tuple(healthy)
            self._registered[resource] = healthy, devices
        return devices


class FreeDevices:
    """A set of device ids that knows its smallest ones.

    Ids are kept in a heap; one that was removed stays there until it comes to the top,
    or until there are too many of them.
    """

    def __init__(self, devices: Iterable[DeviceID]) -> None:
        self._heap = sorted(devices)
        self._ids = set(self._heap)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[DeviceID]:
        return iter(self._ids)

    def __contains__(self, device: DeviceID) -> bool:
        return device in self._ids

    def add(self, device: DeviceID) -> None:
        if device not in self._ids:
            self._ids.add(device)
            heappush(self._heap, device)
            if len(self._heap) > 2 * len(self._ids) + _SPARE:
                self._heap = sorted(self._ids)

    def remove(self, device: DeviceID) -> None:
        """Take a device out; one that is not there may be named."""
        self._ids.discard(device)

    def first(self, count: int) -> list[DeviceID]:
        """The smallest ids, `count` at most, in order."""
        found: list[DeviceID] = []
        while self._heap and len(found) < count:
            device = heappop(self._heap)
            # An id that was removed and added again is in the heap twice.
            if device in self._ids and (not found or device != found[-1]):
                found.append(device)
        for device in found:
            heappush(self._heap, device)
        return found
