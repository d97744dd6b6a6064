"""The devices of one resource as its plugin listed them last.

Lists come often and can be long, so a list in the usual form is read by ``native/device_list.c``, and every other one
by protobuf. A `Device` is made when one is asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import compress
from types import MappingProxyType
from typing import Final, cast

from .._internal import native
from ..apis.deviceplugin import HEALTHY, UNHEALTHY, Device, ListAndWatchResponse, NUMANode, TopologyInfo
from .pod_devices import DeviceID

__all__ = ["DeviceList", "read_devices"]

_NO_NUMA_NODES: Final[Mapping[DeviceID, tuple[int, ...]]] = MappingProxyType({})
_INVERTED: Final = bytes([1]) + bytes(255)


class DeviceList(Mapping[DeviceID, Device]):
    """Device id -> `Device`, in the plugin's order.

    Attributes:
        healthy: the ids that are healthy, a set in the plugin's order.
        unhealthy: the others. An id that is listed twice with different health is in both, and the last one gives
            the health that is reported.
        health: id -> health in the plugin's own word.
        numa_nodes: id -> its NUMA nodes, of the devices that come with a topology; it may name none.
        ambiguous: ids that are listed more than once, with more than one word for their health.
    """

    __slots__ = ("ambiguous", "health", "healthy", "numa_nodes", "unhealthy")

    def __init__(
        self,
        healthy: Mapping[DeviceID, str],
        unhealthy: Mapping[DeviceID, str],
        health: Mapping[DeviceID, str],
        numa_nodes: Mapping[DeviceID, tuple[int, ...]] = _NO_NUMA_NODES,
        ambiguous: Set[DeviceID] = frozenset(),
    ) -> None:
        self.healthy = healthy.keys()
        self.unhealthy = unhealthy.keys()
        self.health = health
        self.numa_nodes = numa_nodes
        self.ambiguous = ambiguous

    @classmethod
    def of(cls, devices: Iterable[Device]) -> DeviceList:
        """Take devices in the order in which the plugin listed them."""
        healthy: dict[DeviceID, str] = {}
        unhealthy: dict[DeviceID, str] = {}
        health: dict[DeviceID, str] = {}
        numa_nodes: dict[DeviceID, tuple[int, ...]] = {}
        ambiguous: set[DeviceID] = set()
        for device in devices:
            device_id = DeviceID(device.ID)
            if health.setdefault(device_id, device.health) != device.health:
                ambiguous.add(device_id)
            health[device_id] = device.health
            (healthy if device.health == HEALTHY else unhealthy)[device_id] = device.health
            numa_nodes.pop(device_id, None)
            if device.HasField("topology"):
                numa_nodes[device_id] = tuple(node.ID for node in device.topology.nodes)
        return cls(healthy, unhealthy, health, numa_nodes, ambiguous)

    def __getitem__(self, device: DeviceID) -> Device:
        health = self.health[device]
        if (nodes := self.numa_nodes.get(device)) is None:
            return Device(ID=device, health=health)
        return Device(ID=device, health=health, topology=TopologyInfo(nodes=[NUMANode(ID=node) for node in nodes]))

    def __iter__(self) -> Iterator[DeviceID]:
        return iter(self.health)

    def __len__(self) -> int:
        return len(self.health)

    def __contains__(self, device: object) -> bool:
        return device in self.health


def read_devices(
    message: bytes, read: Callable[[bytes], ListAndWatchResponse] = ListAndWatchResponse.FromString
) -> DeviceList:
    """Read a serialized ListAndWatchResponse.

    Args:
        message: its bytes.
        read: reads what is not in the usual form; what it raises is raised.

    Raises:
        DecodeError: it is none, or an id is not UTF-8; raised by the usual `read`.
    """
    ids = ctypes.create_string_buffer(len(message) + 1)
    is_healthy = ctypes.create_string_buffer(len(message) + 1)
    ids_length = ctypes.c_size_t()
    count = native.library().simkubelet_read_devices(message, len(message), ids, ctypes.byref(ids_length), is_healthy)
    if count < 0:
        return DeviceList.of(read(message).devices)
    try:
        names = cast(list[DeviceID], ctypes.string_at(ids, ids_length.value).decode().split("\0")[:-1])
    except UnicodeDecodeError:
        return DeviceList.of(read(message).devices)
    health = dict.fromkeys(names, HEALTHY)
    if len(health) != count:
        # Which entry of an id counts is for the general reader.
        return DeviceList.of(read(message).devices)
    flags = ctypes.string_at(is_healthy, count)
    if 0 not in flags:
        return DeviceList(health, {}, health)
    unhealthy = dict.fromkeys(compress(names, flags.translate(_INVERTED)), UNHEALTHY)
    health.update(unhealthy)
    return DeviceList(dict.fromkeys(compress(names, flags), HEALTHY), unhealthy, health)
