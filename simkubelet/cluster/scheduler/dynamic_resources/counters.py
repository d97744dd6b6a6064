"""The counters that the devices of a pool share: what is left of them in a search.

Source: k8s.io/dynamic-resource-allocation v0.36.3, v0.37.0, structured/internal/incubating/allocator_incubating.go,
``checkAvailableCounters``, ``deallocateCountersForDevice``.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Final

from ....model.version import Difference, Version
from .pools import Device, DeviceID, Pool

__all__ = ["FreeCounters"]

_COUNTS_BY_NAME: Final = Difference(
    "pools of the same name share their counters, those of the driver that comes first, though their drivers differ",
    {"1.26": True, "1.36.4": False},
    "k8s.io/dynamic-resource-allocation v0.36.3, v0.36.4, structured/internal/incubating/allocator_incubating.go",
)
_COUNTS_SHARES: Final = Difference(
    "a device of which claims have shares keeps its counters in use",
    {"1.26": True, "1.36": False, "1.36.2": True},
    "k8s.io/dynamic-resource-allocation v0.36.1, v0.36.2, structured/internal/incubating/allocator_incubating.go, "
    "``checkAvailableCounters``",
)


class FreeCounters:
    """What the devices that are allocated, and those of the search so far, leave of the counters.

    Args:
        allocated: the devices that other claims have.
        shared: those of which other claims have shares.
        release: the scheduler's.
    """

    def __init__(self, allocated: Collection[DeviceID], shared: Collection[DeviceID], release: Version) -> None:
        self._allocated = allocated
        self._shared = shared if _COUNTS_SHARES.at(release) else ()
        self._counts_by_name = _COUNTS_BY_NAME.at(release)
        self._free: dict[str, dict[tuple[str, str], Decimal]] = {}

    def take(self, device: Device, pool: Pool) -> bool:
        """Count a device; not where that would exceed any counter of its pool."""
        if not device.consumed:
            return True
        free = self._of(pool)
        _add(free, device, -1)
        if min(free.values()) >= 0:
            return True
        _add(free, device)
        return False

    def give_back(self, device: Device, pool: Pool) -> None:
        """Count a device no longer."""
        if device.consumed:
            _add(self._of(pool), device)

    def _of(self, pool: Pool) -> dict[tuple[str, str], Decimal]:
        key = pool.name if self._counts_by_name else pool.id
        if key not in self._free:
            free = self._free[key] = dict(pool.counters)
            for device in pool.devices_of_all_nodes:
                if device.id in self._allocated or device.id in self._shared:
                    _add(free, device, -1)
        return self._free[key]


def _add(free: dict[tuple[str, str], Decimal], device: Device, sign: int = 1) -> None:
    for counter, amount in device.consumed.items():
        if counter in free:
            free[counter] += sign * amount
