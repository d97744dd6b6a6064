"""Devices that are offered several times; pure.

Source: internal/rm/device_map.go, ``updateDeviceMapWithReplicas`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...framework.device import ResourceName
from ...preference.replica_id import replica_id
from ..config.settings import ReplicatedResource, ReplicatedResources
from .resources import NvidiaDevice

__all__ = ["with_replicas"]


def with_replicas(
    devices: Mapping[ResourceName, Sequence[NvidiaDevice]], shared: ReplicatedResources
) -> dict[ResourceName, list[NvidiaDevice]]:
    """The devices of each resource after sharing; a shared resource that the node lacks is passed over."""
    names = {resource.name for resource in shared.resources}
    found = {name: list(those) for name, those in devices.items() if name not in names}
    for resource in shared.resources:
        if replicas := [*_replicas(devices.get(resource.name, ()), resource)]:
            found.setdefault(resource.rename or resource.name, []).extend(replicas)
    return found


def _replicas(devices: Sequence[NvidiaDevice], resource: ReplicatedResource) -> Iterator[NvidiaDevice]:
    for device in devices:
        for number in range(resource.replicas):
            yield replace(device, device_id=replica_id(device.uuid, number), replicas=resource.replicas)
