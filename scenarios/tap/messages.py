"""The messages of the kubelet's device plugin API as far as the tap reads or changes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from google.protobuf.message import DecodeError

from simkubelet.apis import deviceplugin as api

from ..story.tap_answer import Rpc

PATHS: Final = {
    f"/v1beta1.{'Registration' if rpc is Rpc.REGISTER else 'DevicePlugin'}/{rpc}".encode(): rpc for rpc in Rpc
}
_FILLING: Final = b"\x7a"
"""Tag of field 15 with a length, which no message of the API has."""
_FILLING_BYTES: Final = 6


def devices_of(rpc: Rpc, request: bytes) -> list[str]:
    """The device ids that a call names; of what cannot be read, none."""
    asked: Any
    try:
        match rpc:
            case Rpc.ALLOCATE:
                asked = api.AllocateRequest.FromString(request)
                return [device for one in asked.container_requests for device in one.devices_ids]
            case Rpc.GET_PREFERRED_ALLOCATION:
                asked = api.PreferredAllocationRequest.FromString(request)
                return [device for one in asked.container_requests for device in one.available_deviceIDs]
            case Rpc.PRE_START_CONTAINER:
                return list(api.PreStartContainerRequest.FromString(request).devices_ids)
            case _:
                return []
    except DecodeError:
        return []


def registration(request: bytes) -> tuple[str, str]:
    """Resource and endpoint of a Register call; of what cannot be read, empty ones."""
    try:
        asked = api.RegisterRequest.FromString(request)
    except DecodeError:
        return "", ""
    return asked.resource_name, asked.endpoint


def device_list(devices: Sequence[dict[str, Any]]) -> bytes:
    """A list of devices, each with ``id``, ``health`` and ``numa``."""
    listed = api.ListAndWatchResponse()
    for one in devices:
        nodes = [api.NUMANode(ID=node) for node in one["numa"]]
        topology = api.TopologyInfo(nodes=nodes) if nodes else None
        listed.devices.add(ID=one["id"], health=one["health"], topology=topology)
    return listed.SerializeToString()


def in_parts(message: bytes, count: int) -> list[bytes]:
    """A list of devices as several, as even as can be, in their order; what cannot be read stays whole."""
    try:
        devices = list(api.ListAndWatchResponse.FromString(message).devices)
    except DecodeError:
        return [message]
    size, longer = divmod(len(devices), count)
    begins = [part * size + min(part, longer) for part in range(count + 1)]
    return [api.ListAndWatchResponse(devices=devices[begin:end]).SerializeToString() for begin, end in pairwise(begins)]


def filled(message: bytes, size: int) -> bytes:
    """A message with a field that nobody knows, so that it has at least so many bytes."""
    count = size - len(message) - _FILLING_BYTES
    if count < 0:
        return message
    length = bytes((count >> shift) & 0x7F | 0x80 for shift in (0, 7, 14, 21)) + bytes((count >> 28,))
    return message + _FILLING + length + bytes(count)
