"""Which devices lie on the NUMA nodes that a container was given.

Source: devicemanager/manager.go, ``filterByAffinity``, and topology_hints.go, ``deviceHasTopologyAlignment``
(kubernetes v1.26.15 to v1.37.0, unchanged).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..topology.numa_mask import NumaMask
from .device_list import DeviceList
from .pod_devices import NO_NUMA_NODE, DeviceID

__all__ = ["DevicesByAffinity", "by_affinity", "has_topology"]


@dataclass(frozen=True, slots=True)
class DevicesByAffinity:
    """Devices that could be taken, each in one of the sets; they are taken in this order.

    Attributes:
        aligned: on at least one NUMA node of the container's.
        unaligned: on other NUMA nodes.
        without_affinity: on no NUMA node; all devices when there is nothing to align.
    """

    aligned: frozenset[DeviceID]
    unaligned: frozenset[DeviceID]
    without_affinity: frozenset[DeviceID]


def has_topology(listed: DeviceList) -> bool:
    """Whether a resource cares for alignment: at least one of its devices names a NUMA node, known or not."""
    return any(listed.numa_nodes.values())


def by_affinity(available: frozenset[DeviceID], listed: DeviceList, affinity: NumaMask | None) -> DevicesByAffinity:
    """Divide the available devices of one resource."""
    if affinity is None or not has_topology(listed):
        return DevicesByAffinity(frozenset(), frozenset(), available)
    aligned: set[DeviceID] = set()
    unaligned: set[DeviceID] = set()
    for device in available:
        nodes = listed.numa_nodes.get(device, ())
        if any(node >= 0 and affinity >> node & 1 for node in nodes):
            aligned.add(device)
        elif any(node != NO_NUMA_NODE for node in nodes):
            unaligned.add(device)
    return DevicesByAffinity(frozenset(aligned), frozenset(unaligned), available - aligned - unaligned)
