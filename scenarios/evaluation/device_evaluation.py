"""Whether devices are those that a story expects: so many, these, or these on their NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..story.expectations.expected_devices import ABSENT, Devices, PlacedDevices
from ..story.positioned import DataPath
from ..trace.snapshot import Ids, PlacedIds
from .mismatch import Mismatches, differs


def devices_differ(path: DataPath, wanted: Mapping[str, Devices], seen: Ids) -> Mismatches:
    """Compare what is wanted of each resource; of one that is not seen there is nothing."""
    for resource, devices in wanted.items():
        yield from _differ((*path, resource), devices, seen.get(resource, ()))


def placed_devices_differ(path: DataPath, wanted: Mapping[str, PlacedDevices], seen: PlacedIds) -> Mismatches:
    """Compare the same, with NUMA nodes where the story names them."""
    for resource, devices in wanted.items():
        held = seen.get(resource, {})
        if isinstance(devices, Mapping):
            expected = {device: sorted(nodes) for device, nodes in sorted(devices.items())}
            yield from differs((*path, resource), expected, {one: sorted(held[one]) for one in sorted(held)})
        else:
            yield from _differ((*path, resource), devices, held)


def listed_devices_differ(
    path: DataPath, wanted: Mapping[str, PlacedDevices] | str, seen: PlacedIds | str
) -> Mismatches:
    """Compare what is listed; a word stands for what is said in place of a list."""
    if isinstance(wanted, str) or isinstance(seen, str):
        yield from differs(path, wanted, seen if isinstance(seen, str) else counted(seen))
    else:
        yield from placed_devices_differ(path, wanted, seen)


def counted(devices: PlacedIds) -> dict[str, int]:
    """Resource -> how many devices."""
    return {resource: len(ids) for resource, ids in devices.items()}


def registered_differ(path: DataPath, wanted: Mapping[str, int | list[str] | str], seen: Ids) -> Mismatches:
    """Compare resources that need not be named at all."""
    for resource, devices in wanted.items():
        ids = seen.get(resource)
        if ids is None:
            yield from differs((*path, resource), devices, ABSENT)
        elif isinstance(devices, str):
            yield from differs((*path, resource), devices, sorted(ids))
        else:
            yield from _differ((*path, resource), devices, ids)


def _differ(path: DataPath, wanted: Devices, seen: Iterable[str]) -> Mismatches:
    ids = sorted(seen)
    if isinstance(wanted, int):
        yield from differs(path, wanted, len(ids))
    else:
        yield from differs(path, sorted(wanted), ids)
