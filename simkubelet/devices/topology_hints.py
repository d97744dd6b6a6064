"""On which NUMA nodes the devices for a container or a pod could come from.

Source: devicemanager/topology_hints.go (kubernetes v1.34.4, v1.36.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Final

from ..model.config import MAX_NUMA_NODES
from ..model.errors import KubeletPanicError
from ..model.pod import Container, Pod, PodUID
from ..model.resources import ResourceName
from ..model.version import Difference, Version
from ..topology.hint import NumaMask, ProviderHints, TopologyHint, check_masks, masks_over, numa_mask
from .allocation import has_topology
from .device_list import DeviceList
from .device_manager import DeviceManager
from .pod_devices import DeviceID

__all__ = ["CRASHES_ON_VANISHED_DEVICES", "DeviceHintProvider", "Request", "hints_for"]

CRASHES_ON_VANISHED_DEVICES: Final = Difference(
    "a device that leaves its plugin's list while Allocate is called crashes the kubelet with a nil pointer",
    {"1.26": False, "1.34": True},
    "devicemanager/manager.go, ``allocateContainerResources``: devices are values up to v1.33.4 and pointers from "
    "v1.34.4",
)
_HINTS_ONLY_AT_DEVICES: Final = Difference(
    "hints are made of the NUMA nodes that have devices of the resource; before, of all nodes of the machine",
    {"1.26": False, "1.36": True},
    "devicemanager/topology_hints.go (kubernetes v1.35.4, v1.36.3)",
)

Reusable = Mapping[ResourceName, Set[DeviceID]]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of one resource, and what it can be given.

    Attributes:
        size: devices asked for.
        candidates: healthy devices that nobody holds, or those that the container or pod holds already.
        reusable: devices of the pod's init containers; nodes without all of them are no answer.
    """

    size: int
    candidates: Set[DeviceID]
    reusable: Set[DeviceID] = frozenset()


class DeviceHintProvider:
    """Proposes NUMA nodes for the devices of one kubelet instance; reads its books and changes nothing.

    Args:
        devices: the books.
        numa_nodes: the machine's NUMA nodes in their order.
        version: the Kubernetes minor to behave as.
        reusable: the devices that a pod's init containers have left to its next container.
        enter_admission: called with the pod in admission; frees the devices of ended pods.
    """

    def __init__(
        self,
        devices: DeviceManager,
        numa_nodes: Sequence[int],
        version: Version,
        *,
        reusable: Callable[[PodUID], Reusable],
        enter_admission: Callable[[PodUID], None],
    ) -> None:
        self._devices = devices
        self._numa_nodes = numa_nodes
        self._version = version
        self._reusable = reusable
        self._enter_admission = enter_admission

    def container_hints(self, pod: Pod, container: Container) -> ProviderHints:
        """Hints for each device resource that a container asks for.

        Source: ``GetTopologyHints``.

        Raises:
            EndlessEnumerationError: the kubelet would walk over too many sets of NUMA nodes.
            KubeletPanicError: a device that is held is no longer listed.
        """
        self._enter_admission(pod.uid)
        reusable = self._reusable(pod.uid)

        def held(resource: ResourceName) -> frozenset[DeviceID]:
            return self._devices.pod_devices.container_devices(pod.uid, container.name, resource) or frozenset()

        return {
            resource: self._hints(resource, size, held(resource), reusable.get(resource, frozenset()))
            for resource, size in container.limits.items()
            if self._devices.knows(resource)
        }

    def pod_hints(self, pod: Pod) -> ProviderHints:
        """Hints for each device resource, for all that the pod asks for at one time.

        Source: ``GetPodTopologyHints``; the limit of an extended resource is its request.

        Raises:
            EndlessEnumerationError: the kubelet would walk over too many sets of NUMA nodes.
            KubeletPanicError: a device that is held is no longer listed.
        """
        self._enter_admission(pod.uid)

        def held(resource: ResourceName) -> frozenset[DeviceID]:
            books = self._devices.pod_devices
            of_containers = (books.container_devices(pod.uid, each.name, resource) for each in pod.containers)
            return frozenset[DeviceID]().union(*(devices for devices in of_containers if devices))

        return {
            resource: self._hints(resource, size, held(resource), frozenset())
            for resource, size in pod.requests().items()
            if self._devices.knows(resource)
        }

    def _hints(
        self, resource: ResourceName, size: int, held: frozenset[DeviceID], reusable: Set[DeviceID]
    ) -> Sequence[TopologyHint] | None:
        listed = self._devices.listed(resource)
        if not has_topology(listed):
            return None
        if held:
            request = Request(size, held)
            is_possible = len(held) == size
        else:
            healthy = self._devices.healthy.get(resource, frozenset())
            request = Request(size, healthy - self._devices.allocated.get(resource, set()), reusable)
            is_possible = len(request.candidates | reusable) >= size
        if not is_possible:
            return ()
        self._check_listed(resource, listed, request)
        nodes = self._numa_nodes
        if _HINTS_ONLY_AT_DEVICES.at(self._version):
            nodes = sorted(frozenset(chain.from_iterable(listed.numa_nodes.values())).intersection(nodes)) or nodes
        return hints_for(request, listed.numa_nodes, nodes)

    def _check_listed(self, resource: ResourceName, listed: DeviceList, request: Request) -> None:
        vanished = sorted(device for device in request.candidates | request.reusable if device not in listed)
        if vanished and self._numa_nodes and CRASHES_ON_VANISHED_DEVICES.at(self._version):
            raise KubeletPanicError(
                "runtime error: invalid memory address or nil pointer dereference "
                f"[{resource}: {', '.join(vanished)} is held and left the list]"
            )


def hints_for(
    request: Request, numa_nodes: Mapping[DeviceID, Sequence[int]], nodes: Sequence[int]
) -> tuple[TopologyHint, ...]:
    """Every set of NUMA nodes from which the request can be served, those of one node first.

    Preferred are those with as few nodes as the request would need if all devices of the resource were free.

    Source: ``generateDeviceTopologyHints``.

    Args:
        request: what is asked for.
        numa_nodes: device -> the NUMA nodes it says it is on, of all devices of the resource with a topology.
        nodes: the NUMA nodes that are considered.

    Raises:
        EndlessEnumerationError: the kubelet would walk over too many sets.
    """
    check_masks(len(nodes))
    groups = _groups(request, numa_nodes)
    reused = [_mask_of(numa_nodes[device]) for device in request.reusable if device in numa_nodes]
    fewest = len(nodes)
    fitting: list[NumaMask] = []
    for mask in masks_over(nodes):
        size, matching = 0, len(reused)
        for group, devices, candidates in groups:
            if group & mask:
                size += devices
                matching += candidates
        if size >= request.size:
            fewest = min(fewest, mask.bit_count())
        if matching >= request.size and all(mask & of_device for of_device in reused):
            fitting.append(mask)
    return tuple(TopologyHint(mask, preferred=mask.bit_count() == fewest) for mask in fitting)


def _groups(request: Request, numa_nodes: Mapping[DeviceID, Sequence[int]]) -> list[tuple[NumaMask, int, int]]:
    """Devices on the same nodes: the nodes, how many devices there are, how many of them are candidates."""
    devices = Counter(tuple(nodes) for nodes in numa_nodes.values())
    candidates = Counter(tuple(nodes) for device, nodes in numa_nodes.items() if device in request.candidates)
    return [(_mask_of(nodes), count, candidates[nodes]) for nodes, count in devices.items()]


def _mask_of(nodes: Sequence[int]) -> NumaMask:
    """The nodes of a device; those that no mask can hold are left out."""
    return numa_mask(node for node in nodes if 0 <= node < MAX_NUMA_NODES)
