"""Which devices a container gets: the kubelet's three flows, as decisions without I/O.

`devices_to_allocate` is a generator because the kubelet asks the plugin for its preference half way: it yields a
`PreferenceQuery` and is sent the preferred devices. Between the two the manager's state may change, as it may in the
kubelet, which releases its lock there: a device can be promised twice.

Source: devicemanager/manager.go, ``devicesToAllocate`` (kubernetes v1.26.4, v1.26.8, v1.34.4), one function for each of
its flows; ``filterByAffinity``, and topology_hints.go, ``deviceHasTopologyAlignment`` (kubernetes v1.26.15 to v1.37.0,
unchanged).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from ..model.errors import AllocationError
from ..model.pod import PodUID
from ..model.resources import ResourceName
from ..topology.hint import NO_HINT, NumaMask, TopologyHint
from .device_list import DeviceList
from .device_manager import DeviceManager
from .pod_devices import NO_NUMA_NODE, DeviceID

__all__ = [
    "DeviceRequest",
    "DevicesByAffinity",
    "PreferenceQuery",
    "by_affinity",
    "devices_to_allocate",
    "has_topology",
]


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What one container asks of one resource.

    Attributes:
        reusable: devices of the pod's finished init containers, taken first.
        is_container_running: the kubelet has just restarted, its sources are not ready, and the runtime reported
            this container as running.
        checks_held: devices that the container holds already must be healthy; before, they are taken as they are.
        affinity: what the topology manager chose for the container.
    """

    pod_uid: PodUID
    container: str
    resource: ResourceName
    size: int
    reusable: frozenset[DeviceID] = field(default_factory=frozenset)
    is_container_running: bool = False
    checks_held: bool = True
    affinity: TopologyHint = NO_HINT


@dataclass(frozen=True, slots=True)
class PreferenceQuery:
    """The arguments of a GetPreferredAllocation call."""

    resource: ResourceName
    available: frozenset[DeviceID]
    must_include: frozenset[DeviceID]
    size: int


Decision = Generator[PreferenceQuery, frozenset[DeviceID], frozenset[DeviceID]]


def devices_to_allocate(manager: DeviceManager, request: DeviceRequest) -> Decision:
    """Choose devices and reserve them in `manager`.

    Returns:
        The devices for which the plugin's Allocate is to be called; empty when the container has all it needs.

    Raises:
        AllocationError: see the flows.
    """
    held = manager.pod_devices.container_devices(request.pod_uid, request.container, request.resource)
    if held is not None and len(held) != request.size:
        raise AllocationError(
            f'pod "{request.pod_uid}" container "{request.container}" changed request for resource '
            f'"{request.resource}" from {len(held)} to {request.size}'
        )
    if request.is_container_running:
        return frozenset()
    needs_none = held is not None or request.size == 0
    if request.checks_held:
        _check_after_reboot(manager, request.resource, held or frozenset())
    elif not needs_none and request.resource not in manager.healthy:
        raise AllocationError(f"can't allocate unregistered device {request.resource}")
    if needs_none:
        return frozenset()
    return (yield from _choose(manager, request))


def _check_after_reboot(manager: DeviceManager, resource: ResourceName, held: frozenset[DeviceID]) -> None:
    """Refuse while the plugin is not back: a pod may arrive before it when a node boots.

    Steady operation passes, as the scheduler sends no pod to a node that reports too few devices.
    """
    if resource not in manager.healthy:
        raise AllocationError(f"cannot allocate unregistered device {resource}")
    healthy = manager.healthy[resource]
    if not healthy:
        raise AllocationError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not held <= healthy:
        raise AllocationError(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )


def _choose(manager: DeviceManager, request: DeviceRequest) -> Decision:
    """Steady operation: reusable devices first, then aligned ones, then what the plugin prefers, then any."""
    chosen = _Chosen(manager, request)
    if chosen.take(request.reusable):
        return chosen.devices
    free, needed = manager.free(request.resource), request.size - len(chosen)
    if len(free) < needed:
        raise AllocationError(
            f"requested number of devices unavailable for {request.resource}. "
            f"Requested: {needed}, Available: {len(free)}"
        )
    if request.affinity.nodes is None and not _has_preference(manager, request.resource):
        # The usual case: there is nothing to align and nobody to ask, so that not all free devices are looked at.
        chosen.take(free.first(needed))
        return chosen.devices
    return (yield from _choose_among(manager, request, chosen))


def _choose_among(manager: DeviceManager, request: DeviceRequest, chosen: _Chosen) -> Decision:
    resource, needed = request.resource, request.size - len(chosen)
    available = frozenset(manager.free(resource))
    devices = by_affinity(available, manager.listed(resource), request.affinity.nodes)
    if needed < len(devices.aligned):
        preferred = yield from _preferred(manager, request, devices.aligned, chosen.devices)
        if chosen.take(preferred & devices.aligned) or chosen.take(devices.aligned):
            return chosen.devices
    else:
        # The aligned devices are taken before the plugin is asked: an alignment that was promised is kept.
        if chosen.take(devices.aligned):
            return chosen.devices
        preferred = yield from _preferred(manager, request, available, chosen.devices)
        if (
            chosen.take(preferred & available)
            or chosen.take(devices.unaligned)
            or chosen.take(devices.without_affinity)
        ):
            return chosen.devices
    raise AllocationError(
        f"unexpectedly allocated less resources than required. Requested: {request.size}, Got: {len(chosen)}"
    )


def _preferred(
    manager: DeviceManager, request: DeviceRequest, available: frozenset[DeviceID], chosen: frozenset[DeviceID]
) -> Decision:
    """What the plugin would take; nothing when it has no opinion to offer."""
    if not _has_preference(manager, request.resource):
        return frozenset()
    return (yield PreferenceQuery(request.resource, available | chosen, chosen, request.size))


def _has_preference(manager: DeviceManager, resource: ResourceName) -> bool:
    registered = manager.endpoints.get(resource)
    if registered is None:
        raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
    return registered.options is not None and registered.options.get_preferred_allocation_available


class _Chosen:
    """The devices of one request so far."""

    def __init__(self, manager: DeviceManager, request: DeviceRequest) -> None:
        self._manager = manager
        self._request = request
        self._devices: set[DeviceID] = set()

    def __len__(self) -> int:
        return len(self._devices)

    @property
    def devices(self) -> frozenset[DeviceID]:
        return frozenset(self._devices)

    def take(self, candidates: Iterable[DeviceID]) -> bool:
        """Reserve as many of the candidates as are still needed, the smallest ids first; whether that is all."""
        missing = self._request.size - len(self._devices)
        taken = sorted(set(candidates) - self._devices)[:missing]
        self._manager.reserve(self._request.resource, taken)
        self._devices.update(taken)
        return len(self._devices) == self._request.size


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
