"""Which devices a fault of a GPU befalls; pure.

Source: internal/rm/health.go, ``checkHealth``, ``parseMigDeviceUUID`` (k8s-device-plugin v0.19.0). The original keeps
one device for each GPU, the last that it came by: with replicas or several MIG devices the others stay healthy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ...framework.device import DeviceID

__all__ = ["NO_INSTANCE", "Placement", "Placements", "UnknownPlacementError", "placement_in_uuid"]

NO_INSTANCE: Final = 0xFFFFFFFF
"""What NVML tells in place of the id of an instance where there is none."""

_OLD_MIG_UUID: Final = re.compile(r"MIG-(GPU-[^/]*)/([0-9]+)/([0-9]+)", re.ASCII)


class UnknownPlacementError(Exception):
    """It cannot be told on which GPU a MIG device is."""


class Placement(NamedTuple):
    """The GPU of a device, and of a MIG device the ids of its GPU instance and its compute instance."""

    gpu_uuid: str
    gpu_instance: int = NO_INSTANCE
    compute_instance: int = NO_INSTANCE

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device's."""
        return self.gpu_instance != NO_INSTANCE

    def has_fault(self, fault: Placement) -> bool:
        """Whether a fault befalls what is here: one that names both instances befalls no other MIG device."""
        names_instance = NO_INSTANCE not in (fault.gpu_instance, fault.compute_instance)
        return fault.gpu_uuid == self.gpu_uuid and (not (self.is_mig and names_instance) or fault == self)


class Placements:
    """Where each device of a resource is."""

    def __init__(self, *, one_for_each_gpu: bool) -> None:
        self._one_for_each_gpu = one_for_each_gpu
        self._devices: dict[str, list[tuple[DeviceID, Placement]]] = {}

    def add(self, device_id: DeviceID, placement: Placement) -> None:
        """Take note of a device."""
        devices = self._devices.setdefault(placement.gpu_uuid, [])
        if self._one_for_each_gpu:
            devices.clear()
        devices.append((device_id, placement))

    def has_gpu(self, gpu_uuid: str) -> bool:
        """Whether any device is on this GPU."""
        return gpu_uuid in self._devices

    def befallen(self, fault: Placement) -> Iterator[DeviceID]:
        """The devices that a fault befalls, in the order of their discovery."""
        for device_id, placement in self._devices.get(fault.gpu_uuid, ()):
            if placement.has_fault(fault):
                yield device_id


def placement_in_uuid(uuid: str) -> Placement:
    """The placement that a MIG device's UUID of drivers before R470 contains.

    Raises:
        UnknownPlacementError: it contains none; the text is the original's.
    """
    found = _OLD_MIG_UUID.fullmatch(uuid)
    ids = [int(text) for text in found.groups()[1:]] if found else []
    if found is None or any(number > NO_INSTANCE for number in ids):
        raise UnknownPlacementError("unable to parse UUID as MIG device")
    return Placement(found.group(1), *ids)
