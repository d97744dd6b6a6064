"""The devices of one resource that can be given away, without looking at all of them for each container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

from .pod_devices import DeviceID

__all__ = ["FreeDevices"]

_SPARE: Final = 64


class FreeDevices:
    """A set of device ids that knows its smallest ones.

    Ids lie in a heap; one that was removed stays there until it comes to the top,
    or until there are too many of them.
    """

    def __init__(self, devices: Iterable[DeviceID]) -> None:
        self._heap = sorted(devices)
        self._ids = set(self._heap)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[DeviceID]:
        return iter(self._ids)

    def __contains__(self, device: DeviceID) -> bool:
        return device in self._ids

    def add(self, device: DeviceID) -> None:
        if device not in self._ids:
            self._ids.add(device)
            heappush(self._heap, device)
            if len(self._heap) > 2 * len(self._ids) + _SPARE:
                self._heap = sorted(self._ids)

    def remove(self, device: DeviceID) -> None:
        """Take a device out; one that is not there may be named."""
        self._ids.discard(device)

    def first(self, count: int) -> list[DeviceID]:
        """The smallest ids, `count` at most, in order."""
        found: list[DeviceID] = []
        while self._heap and len(found) < count:
            device = heappop(self._heap)
            # An id that was removed and added again is in the heap twice.
            if device in self._ids and (not found or device != found[-1]):
                found.append(device)
        for device in found:
            heappush(self._heap, device)
        return found
