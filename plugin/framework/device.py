"""One device as the kubelet sees it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, NewType, TypeAlias

from simkubelet.apis import deviceplugin as api

__all__ = ["Device", "DeviceID", "DeviceList", "Health", "ResourceName"]

DeviceID = NewType("DeviceID", str)
ResourceName = NewType("ResourceName", str)


class Health(StrEnum):
    """Whether the kubelet may give the device to a new container; the values are the wire's."""

    HEALTHY = api.HEALTHY
    UNHEALTHY = api.UNHEALTHY


class Device(NamedTuple):
    """A device with its health; `numa_nodes` is empty when nothing is known about its place in the machine."""

    device_id: DeviceID
    health: Health = Health.HEALTHY
    numa_nodes: tuple[int, ...] = ()

    def to_message(self) -> api.Device:
        """The device as it goes into ListAndWatch; without NUMA nodes it has no topology at all."""
        message = api.Device(ID=self.device_id, health=self.health)
        if self.numa_nodes:
            message.topology.nodes.extend(api.NUMANode(ID=node) for node in self.numa_nodes)
        return message


DeviceList: TypeAlias = tuple[Device, ...]
"""All devices of one resource at one moment, in the order in which they are listed."""
