"""Which container of which pod holds which devices: the device manager's book, kept in the checkpoint.

Source: devicemanager/pod_devices.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NewType

from ..apis.deviceplugin import ContainerAllocateResponse
from ..model.pod import PodUID
from ..model.resources import ResourceName

__all__ = ["NO_NUMA_NODE", "Allocation", "AllocationEntry", "DeviceID", "PodDevices", "by_numa_node"]

DeviceID = NewType("DeviceID", str)

NO_NUMA_NODE: Final = -1


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container holds of one resource.

    Attributes:
        device_ids: NUMA node -> ids; `NO_NUMA_NODE` for devices without topology. A device on two nodes stands
            under both.
        response: what the plugin answered to Allocate, as it goes into the container.
    """

    device_ids: Mapping[int, tuple[DeviceID, ...]]
    response: ContainerAllocateResponse

    def devices(self) -> frozenset[DeviceID]:
        return frozenset(device for devices in self.device_ids.values() for device in devices)


@dataclass(frozen=True, slots=True)
class AllocationEntry:
    """An `Allocation` with its place: one line of the checkpoint."""

    pod_uid: PodUID
    container: str
    resource: ResourceName
    allocation: Allocation


class PodDevices:
    """Pod -> container -> resource -> `Allocation`."""

    def __init__(self, entries: Iterable[AllocationEntry] = ()) -> None:
        self._pods: dict[PodUID, dict[str, dict[ResourceName, Allocation]]] = {}
        self._entries: dict[tuple[PodUID, str, ResourceName], AllocationEntry] = {}
        for entry in entries:
            self.insert(entry)

    def __iter__(self) -> Iterator[AllocationEntry]:
        """Every allocation, in the order in which they were made."""
        return iter(self._entries.values())

    def pods(self) -> frozenset[PodUID]:
        return frozenset(self._pods)

    def insert(self, entry: AllocationEntry) -> None:
        containers = self._pods.setdefault(entry.pod_uid, {})
        containers.setdefault(entry.container, {})[entry.resource] = entry.allocation
        self._entries[entry.pod_uid, entry.container, entry.resource] = entry

    def delete(self, pods: Iterable[PodUID]) -> None:
        for pod_uid in pods:
            for container, resources in self._pods.pop(pod_uid, {}).items():
                for resource in resources:
                    del self._entries[pod_uid, container, resource]

    def container(self, pod_uid: PodUID, container: str) -> Mapping[ResourceName, Allocation]:
        """Resource -> allocation of one container; empty when it holds nothing."""
        return self._pods.get(pod_uid, {}).get(container, {})

    def container_devices(self, pod_uid: PodUID, container: str, resource: ResourceName) -> frozenset[DeviceID] | None:
        """Devices that a container holds of a resource; None when nothing was ever allocated to it."""
        allocation = self.container(pod_uid, container).get(resource)
        return None if allocation is None else allocation.devices()

    def allocated(self) -> dict[ResourceName, set[DeviceID]]:
        """Resource -> every device that some container holds."""
        held: dict[ResourceName, set[DeviceID]] = {}
        for entry in self:
            held.setdefault(entry.resource, set()).update(entry.allocation.devices())
        return held


def by_numa_node(
    devices: Iterable[DeviceID], numa_nodes: Mapping[DeviceID, Sequence[int]]
) -> dict[int, tuple[DeviceID, ...]]:
    """Sort devices under their NUMA nodes as the checkpoint keeps them.

    A device that its plugin no longer lists counts as one without topology, as it did up to 1.33.

    Args:
        devices: the devices of one resource.
        numa_nodes: device -> its NUMA nodes, of the devices with a topology.

    Source: devicemanager/manager.go, end of ``allocateContainerResources`` (kubernetes v1.33.4, v1.34.4).
    """
    nodes: dict[int, list[DeviceID]] = {}
    for device in sorted(devices):
        for node in numa_nodes.get(device) or (NO_NUMA_NODE,):
            nodes.setdefault(node, []).append(device)
    return {node: tuple(devices) for node, devices in nodes.items()}
