"""Spreads what is asked for over the GPUs that have the fewest replicas in use: the distributed policy; pure.

Among GPUs with equally many in use the first in the order of `available` wins; the original takes any.

A replica, a device that is offered several times, has the id ``<id>::<number>``.

Source: internal/rm/allocate.go, ``distributedAlloc``, and devices.go, ``AnnotatedID`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from ..framework.device import DeviceID

__all__ = ["NotEnoughDevicesError", "distributed_devices", "is_replica", "replica_id", "replicated_id"]

_SEPARATOR: Final = "::"


def replica_id(device_id: str, number: int) -> DeviceID:
    """The id of a device's replica; the first has number 0."""
    return DeviceID(f"{device_id}{_SEPARATOR}{number}")


def replicated_id(device_id: DeviceID) -> str:
    """The id of what is offered several times; any other id is its own."""
    return device_id.partition(_SEPARATOR)[0]


def is_replica(device_id: DeviceID) -> bool:
    """Whether an id is a replica's."""
    return _SEPARATOR in device_id


class NotEnoughDevicesError(Exception):
    """Fewer devices are available than are asked for; the message is the original's."""

    def __init__(self) -> None:
        super().__init__("not enough available devices to satisfy allocation")


def distributed_devices(
    devices: Collection[DeviceID], available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
) -> list[DeviceID]:
    """The required devices, then those picked one after the other; with too many required, all of them.

    Args:
        devices: all of the resource; ids that are not among them are passed over in `available`.
        available: what may be picked.
        required: what the answer begins with.
        size: how many are asked for.

    Raises:
        NotEnoughDevicesError: `available` has too few besides the required ones.
    """
    known, excluded = frozenset(devices), frozenset(required)
    candidates = [device for device in dict.fromkeys(available) if device in known and device not in excluded]
    needed = size - len(required)
    if len(candidates) < needed:
        raise NotEnoughDevicesError
    in_use = Counter(map(replicated_id, known))
    in_use.subtract(map(replicated_id, candidates))
    chosen = list(required)
    for _ in range(needed):
        pick = min(candidates, key=lambda device: in_use[replicated_id(device)])
        candidates.remove(pick)
        in_use[replicated_id(pick)] += 1
        chosen.append(pick)
    return chosen
