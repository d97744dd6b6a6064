"""The health of drivers' devices, as their plugins report it on a stream.

A report is complete: a device that is in none for 30 s, or whose driver's stream has ended, is unknown. The cache is
kept in a file of the kubelet, ``dra_health_state``.

Source: pkg/kubelet/cm/dra/healthinfo.go; manager.go, ``HandleWatchResourcesStream`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from .._internal.replaced_file import FileNotReplacedError, replace_file
from ..apis.documents import LARGEST_CHECKPOINT, load_json, read_file
from ..apis.drahealth import HEALTHY, UNHEALTHY, NodeWatchResourcesResponse
from ..golang.text import json_string
from ..model.version import Difference

__all__ = ["FOLLOWS_HEALTH", "DeviceKey", "DriverHealth"]

FOLLOWS_HEALTH: Final = Difference(
    "with the gate ``ResourceHealthStatus`` the kubelet asks drivers for the health of their devices, and "
    "the status of a container has it",
    {"1.26": False, "1.34": True},
    "pkg/kubelet/cm/dra/manager.go, ``HandleWatchResourcesStream``; cm/container_manager_linux.go, "
    "``UpdateAllocatedResourcesStatus`` (kubernetes v1.33.13, v1.34.4)",
)

DeviceKey = tuple[str, str]
"""Pool and name of a driver's device."""

_FILE: Final = "dra_health_state"
_TIMEOUT_S: Final = 30.0
_MOST_DEVICES: Final = 10_000
"""Of a driver, unless it has more in one report. A kubelet keeps all."""
_MOST_TEXT: Final = 4 << 20
"""Characters of the devices of all drivers, as `_size` counts them, so that the file can be written at each change.

Of a report that has more, the last devices are kept; a kubelet keeps all.
"""
_ENTRY: Final = 100
"""Characters of a device in the file, beside its names."""
_UNKNOWN: Final = "Unknown"
_STATES: Final[Mapping[int, str]] = {HEALTHY: "Healthy", UNHEALTHY: "Unhealthy"}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Report:
    """What is known of a device, since when (Unix time)."""

    health: str
    updated: float


class DriverHealth:
    """Driver -> device -> its last report.

    Args:
        folder: where the file is, which is read here; one that cannot be read is passed over.
        unix_time: the time of now on the node, in seconds since 1970.
    """

    def __init__(self, folder: Path, unix_time: Callable[[], float]) -> None:
        self._folder = folder
        self._unix_time = unix_time
        self._drivers: dict[str, dict[DeviceKey, _Report]] = _load(folder / _FILE)
        self._sizes = {driver: sum(map(_size, known)) for driver, known in self._drivers.items()}
        self._texts: dict[str, str] = {}
        """Of drivers of which nothing has come since the file was written, what it has of them."""
        self._is_save_due = False

    def of_device(self, driver: str, device: DeviceKey) -> str:
        """``Healthy``, ``Unhealthy`` or ``Unknown``."""
        report = self._drivers.get(driver, {}).get(device)
        return _UNKNOWN if report is None or self._is_old(report) else report.health

    def update(self, driver: str, report: NodeWatchResourcesResponse) -> list[DeviceKey]:
        """Take a driver's report; the devices whose health is another one than before."""
        known = self._drivers.setdefault(driver, {})
        self._texts.pop(driver, None)
        now, changed, reported = self._unix_time(), list[DeviceKey](), set[DeviceKey]()
        for one in report.devices:
            device = (one.device.pool_name, one.device.device_name)
            before, health = known.pop(device, None), _STATES.get(one.health, _UNKNOWN)
            known[device] = _Report(health, now)
            reported.add(device)
            if before is None or before.health != health:
                changed.append(device)
        for device in known.keys() - reported:
            if known[device].health != _UNKNOWN and self._is_old(known[device]):
                known[device] = _Report(_UNKNOWN, now)
                changed.append(device)
        if changed:
            self._save_soon()
        for device in list(known)[: max(0, len(known) - max(_MOST_DEVICES, len(reported)))]:
            # The oldest ones: what is reported goes to the end.
            del known[device]
        self._sizes[driver] = sum(map(_size, known))
        self._drop_oldest()
        return changed

    def _drop_oldest(self) -> None:
        """Keep within `_MOST_TEXT`: a driver that reports much loses its own devices, not those of others."""
        total = sum(self._sizes.values())
        while total > _MOST_TEXT:
            driver = max(self._sizes, key=self._sizes.__getitem__)
            known = self._drivers[driver]
            self._texts.pop(driver, None)
            next_size = max((size for other, size in self._sizes.items() if other != driver), default=0)
            while total > _MOST_TEXT and self._sizes[driver] >= next_size:
                oldest = next(iter(known))
                del known[oldest]
                self._sizes[driver] -= _size(oldest)
                total -= _size(oldest)

    def forget(self, driver: str) -> None:
        """Drop all reports of a driver: its stream has ended."""
        for by_driver in (self._drivers, self._sizes, self._texts):
            by_driver.pop(driver, None)
        self._save_soon()

    def _is_old(self, report: _Report) -> bool:
        return self._unix_time() - report.updated > _TIMEOUT_S

    def _save_soon(self) -> None:
        """Write the file once for reports that come together."""
        if not self._is_save_due:
            self._is_save_due = True
            asyncio.get_running_loop().call_soon(self._save)

    def _save(self) -> None:
        self._is_save_due = False
        try:
            replace_file(self._folder, _FILE, self._encoded().encode())
        except FileNotReplacedError as error:
            _log.error("Failed to save health checkpoint after update: %s", error)

    def _encoded(self) -> str:
        for driver in self._drivers.keys() - self._texts.keys():
            self._texts[driver] = f'{json_string(driver)}:{{"Devices":{_map(_devices(self._drivers[driver]))}}}'
        return _map(self._texts[driver] for driver in sorted(self._drivers))


def _size(device: DeviceKey) -> int:
    """Characters of a device in the file: its names are there twice."""
    pool, name = device
    return 2 * (len(pool) + len(name)) + _ENTRY


def _devices(reports: Mapping[DeviceKey, _Report]) -> Iterable[str]:
    for key in sorted(reports, key="/".join):
        pool, name = key
        updated = datetime.fromtimestamp(reports[key].updated, UTC).isoformat().replace("+00:00", "Z")
        yield (
            f'{json_string(f"{pool}/{name}")}:{{"PoolName":{json_string(pool)},"DeviceName":{json_string(name)},'
            f'"Health":"{reports[key].health}","LastUpdated":"{updated}"}}'
        )


def _map(entries: Iterable[str]) -> str:
    return f"{{{','.join(entries)}}}"


def _load(path: Path) -> dict[str, dict[DeviceKey, _Report]]:
    try:
        document = load_json(read_file(path, LARGEST_CHECKPOINT, within_s=0).decode())
        return {driver: _reports(state) for driver, state in document.items()}
    except FileNotFoundError:
        return {}
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        _log.error("Failed to load health checkpoint, proceeding with empty cache: %s", error)
        return {}


def _reports(state: Mapping[str, Any]) -> dict[DeviceKey, _Report]:
    reports = {
        (one["PoolName"], one["DeviceName"]): _Report(
            one["Health"], datetime.fromisoformat(one["LastUpdated"]).timestamp()
        )
        for one in (state.get("Devices") or {}).values()
    }
    # Raises where one of them is no text.
    "".join(text for (pool, device), report in reports.items() for text in (pool, device, report.health)).encode()
    return reports
