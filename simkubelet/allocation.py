"""Which devices a container gets: the kubelet's three flows, as decisions without I/O.

`devices_to_allocate` is a generator because the kubelet asks the plugin for its preference half way: it yields a
`PreferenceQuery` and is sent the preferred devices (None when the plugin has no opinion to offer). Between the two the
manager's state may change, as it may in the kubelet, which lets go of its lock there.

Source: devicemanager/manager.go, ``devicesToAllocate`` (kubernetes v1.34.4), one function for each of its flows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from .device_manager import DeviceManager
from .pod import PodUID
from .pod_devices import DeviceID
from .resources import ResourceName

__all__ = ["AllocationError", "DeviceRequest", "PreferenceQuery", "devices_to_allocate"]


class AllocationError(Exception):
    """Devices cannot be given; the message is the kubelet's and reaches the pod's status."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """What one container asks of one resource.

    Attributes:
        reusable: devices of the pod's finished init containers, taken first.
        is_container_running: the kubelet has just restarted, its sources are not ready, and the runtime reported
            this container as running.
    """

    pod_uid: PodUID
    container: str
    resource: ResourceName
    size: int
    reusable: frozenset[DeviceID] = field(default_factory=frozenset)
    is_container_running: bool = False


@dataclass(frozen=True, slots=True)
class PreferenceQuery:
    """The arguments of a GetPreferredAllocation call."""

    resource: ResourceName
    available: frozenset[DeviceID]
    must_include: frozenset[DeviceID]
    size: int


Decision = Generator[PreferenceQuery, frozenset[DeviceID] | None, frozenset[DeviceID]]


def devices_to_allocate(manager: DeviceManager, request: DeviceRequest) -> Decision:
    """Choose devices and reserve them in `manager.allocated`.

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
    _check_after_reboot(manager, request.resource, held or frozenset())
    if held is not None or request.size == 0:
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
    if not healthy >= held:
        raise AllocationError(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )


def _choose(manager: DeviceManager, request: DeviceRequest) -> Decision:
    """Steady operation: reusable devices first, then what the plugin prefers, then any."""
    resource, chosen = request.resource, set[DeviceID]()

    def take(candidates: Iterable[DeviceID]) -> bool:
        # The map of reservations may have been made anew while the plugin was asked.
        reserved = manager.allocated.setdefault(resource, set())
        for device in sorted(set(candidates) - chosen):
            if len(chosen) == request.size:
                break
            reserved.add(device)
            chosen.add(device)
        return len(chosen) == request.size

    if take(request.reusable):
        return frozenset(chosen)
    needed = request.size - len(chosen)
    available = frozenset(manager.healthy[resource] - manager.allocated[resource])
    if len(available) < needed:
        raise AllocationError(
            f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {len(available)}"
        )
    preferred = yield PreferenceQuery(resource, available | chosen, frozenset(chosen), request.size)
    if take((preferred or frozenset()) & available) or take(available):
        return frozenset(chosen)
    raise AllocationError(
        f"unexpectedly allocated less resources than required. Requested: {request.size}, Got: {len(chosen)}"
    )
