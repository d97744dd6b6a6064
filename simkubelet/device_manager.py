"""The state of the device manager: devices by health, endpoints, who holds what.

Nothing here waits or does I/O: the registration server reports plugins and their lists, the `Allocator` takes devices
for containers, the node status asks for the capacity. A device id of a resource is healthy or unhealthy; an id that a
plugin lists twice with different health is in both sets, as in the kubelet.

Source: devicemanager/manager.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from .apis.deviceplugin import HEALTHY, Device, DevicePluginOptions
from .checkpoint import Checkpoint
from .endpoint import Endpoint
from .pod import PodUID
from .pod_devices import DeviceID, PodDevices
from .resources import ResourceName

__all__ = ["DeviceCapacity", "DeviceManager", "Registered"]


@dataclass(frozen=True, slots=True)
class Registered:
    """A resource's newest endpoint; `options` is None for one restored from a checkpoint."""

    endpoint: Endpoint
    options: DevicePluginOptions | None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """What the device manager tells the node status.

    Attributes:
        capacity: resource -> devices known.
        allocatable: resource -> healthy devices. A resource whose first list has not come is absent from both.
        deleted: resources forgotten since the last time, told once.
    """

    capacity: Mapping[ResourceName, int]
    allocatable: Mapping[ResourceName, int]
    deleted: frozenset[ResourceName] = field(default_factory=frozenset)


class DeviceManager:
    """Devices, endpoints and allocations of one kubelet instance.

    Args:
        checkpoint: what the last instance left, None on a new node.
        now: the kubelet's clock; resources of the checkpoint get five minutes from here to register again.
    """

    def __init__(self, checkpoint: Checkpoint | None, now: float) -> None:
        self.endpoints: dict[ResourceName, Registered] = {}
        self.devices: dict[ResourceName, dict[DeviceID, Device]] = {}
        self.healthy: dict[ResourceName, set[DeviceID]] = {}
        self.unhealthy: dict[ResourceName, set[DeviceID]] = {}
        self.pod_devices = PodDevices(checkpoint.entries if checkpoint else ())
        self.allocated: dict[ResourceName, set[DeviceID]] = self.pod_devices.allocated()
        for resource in checkpoint.registered if checkpoint else ():
            # Capacity stays 0 until the plugin registers again.
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
            self.endpoints[resource] = Registered(Endpoint(resource, None, stop_time=now), None)

    def connect(self, endpoint: Endpoint, options: DevicePluginOptions) -> None:
        """A plugin registered and told its options; its devices, if it had any, stay as they are."""
        self.endpoints[endpoint.resource] = Registered(endpoint, options)

    def disconnect(self, resource: ResourceName, now: float) -> None:
        """A plugin is gone: its devices turn unhealthy and its endpoint stops.

        Source: ``PluginDisconnected``.
        """
        registered = self.endpoints.get(resource)
        if registered is None:
            return
        lost = self.healthy.get(resource, set())
        if resource in self.healthy:
            self.healthy[resource] = set()
        self.unhealthy[resource] = self.unhealthy.get(resource, set()) | lost
        registered.endpoint.stop_time = now

    def update(self, resource: ResourceName, devices: Iterable[Device]) -> None:
        """Take a ListAndWatch response, the whole list of a resource.

        Source: ``genericDeviceUpdateCallback``.
        """
        listed: dict[DeviceID, Device] = {}
        healthy: set[DeviceID] = set()
        unhealthy: set[DeviceID] = set()
        for device in devices:
            device_id = DeviceID(device.ID)
            listed[device_id] = device
            (healthy if device.health == HEALTHY else unhealthy).add(device_id)
        self.devices[resource] = listed
        self.healthy[resource] = healthy
        self.unhealthy[resource] = unhealthy

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
            self.endpoints.pop(resource, None)
            self.healthy.pop(resource, None)
            self.unhealthy.pop(resource, None)
        return frozenset(expired)

    def knows(self, resource: ResourceName) -> bool:
        """Whether a resource is the device manager's business: it is registered, or some pod holds devices of it.

        Source: ``isDevicePluginResource``.
        """
        return resource in self.healthy or resource in self.allocated

    def release_inactive(self, active: Collection[PodUID]) -> None:
        """Free the devices of pods that are no longer active; the checkpoint is not written for it.

        Source: ``UpdateAllocatedDevices``.
        """
        ended = self.pod_devices.pods().difference(active)
        if ended:
            self.pod_devices.delete(ended)
            self.allocated = self.pod_devices.allocated()

    def forget_reservations(self) -> None:
        """Go back to what the book says after an allocation that failed half way."""
        self.allocated = self.pod_devices.allocated()

    def checkpoint(self) -> Checkpoint:
        """What a restarted kubelet needs."""
        return Checkpoint(
            entries=tuple(self.pod_devices),
            registered={resource: tuple(sorted(devices)) for resource, devices in self.healthy.items()},
        )
