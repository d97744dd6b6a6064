"""Ids of devices that are offered several times: ``<id>::<number>``; pure.

Source: internal/rm/devices.go, ``AnnotatedID`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from typing import Final

from ..framework.device import DeviceID

__all__ = ["is_replica", "replica_id", "replicated_id"]

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
