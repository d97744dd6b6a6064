"""What differs between the expected and the actual: values of any kind, and devices by number, id or NUMA node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from ..story.expected_values import ABSENT, Devices, PlacedDevices
from ..story.part import DataPath
from ..trace.snapshot import Ids, PlacedIds

_T = TypeVar("_T")

_DEVICES: Final = "{devices}"
MOST_SHOWN: Final = 64
"""Items of a list or mapping that are all shown."""
SHOWN_OF_MORE: Final = 8
"""Items that are shown of a longer one, as that of all megabytes of a GPU."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference: where in the expectation (keys of the document), what it says, and the actual value."""

    path: DataPath
    expected: str
    actual: str


Mismatches = Iterator[Mismatch]


def shown(value: object) -> str:
    """A value as a story would write it; of more items than people read, the first and how many there are."""
    if isinstance(value, Mapping):
        return _listed([f"{key}: {_inside(item)}" for key, item in _first(value.items())], len(value)) or "none"
    if isinstance(value, list | tuple):
        return "[" + _listed([_inside(item) for item in _first(value)], len(value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)


def _inside(value: object) -> str:
    return "{" + (shown(value) if value else "") + "}" if isinstance(value, Mapping) else shown(value)


def _first(items: Collection[_T]) -> Iterable[_T]:
    return islice(items, len(items) if len(items) <= MOST_SHOWN else SHOWN_OF_MORE)


def _listed(items: Sequence[str], number: int) -> str:
    return ", ".join(items if len(items) == number else (*items, f"... ({number} in all)"))


def differs(path: DataPath, expected: object, actual: object) -> Mismatches:
    """One mismatch where two values are not equal."""
    if expected != actual:
        yield Mismatch(path, shown(expected), shown(actual))


def devices_differ(path: DataPath, wanted: Mapping[str, Devices], actual: Ids) -> Mismatches:
    """Compare what is wanted of each resource; a resource that is missing has none."""
    for resource, devices in wanted.items():
        yield from _differ((*path, resource), devices, actual.get(resource, ()))


def placed_devices_differ(path: DataPath, wanted: Mapping[str, PlacedDevices], actual: PlacedIds) -> Mismatches:
    """Compare the same, with NUMA nodes where the story names them."""
    for resource, devices in wanted.items():
        held = actual.get(resource, {})
        if isinstance(devices, Mapping):
            expected = {device: sorted(nodes) for device, nodes in sorted(devices.items())}
            yield from differs((*path, resource), expected, {one: sorted(held[one]) for one in sorted(held)})
        else:
            yield from _differ((*path, resource), devices, held)


def listed_devices_differ(
    path: DataPath, wanted: Mapping[str, PlacedDevices] | str, actual: PlacedIds | str
) -> Mismatches:
    """Compare what is listed; a word stands for what is said in place of a list."""
    if isinstance(wanted, str) or isinstance(actual, str):
        yield from differs(path, wanted, actual if isinstance(actual, str) else counted(actual))
    else:
        yield from placed_devices_differ(path, wanted, actual)


def counted(devices: PlacedIds) -> dict[str, int]:
    """Resource -> how many devices."""
    return {resource: len(ids) for resource, ids in devices.items()}


def registered_differ(path: DataPath, wanted: Mapping[str, int | list[str] | str], actual: Ids) -> Mismatches:
    """Compare the devices of resources, or of drivers, that need not be named at all."""
    for resource, devices in wanted.items():
        ids = actual.get(resource)
        if ids is None:
            yield from differs((*path, resource), devices, ABSENT)
        elif isinstance(devices, str):
            yield from differs((*path, resource), devices, sorted(ids))
        else:
            yield from _differ((*path, resource), devices, ids)


def _differ(path: DataPath, wanted: Devices, actual: Iterable[str]) -> Mismatches:
    ids = sorted(actual)
    if isinstance(wanted, int):
        yield from differs(path, wanted, len(ids))
    else:
        yield from differs(path, sorted(wanted), ids)


def texts_differ(
    path: DataPath, wanted: Mapping[str, str], actual: Mapping[str, str], ids: Sequence[str] = ()
) -> Mismatches:
    """Compare variables, labels or annotations with what is wanted of some.

    Args:
        path: Where they are in the expectation.
        wanted: Name, or with ``*`` at the end how it begins -> text, ``absent`` for none.
        actual: Name -> text.
        ids: Filled in for ``{devices}``.
    """
    for name, template in wanted.items():
        values = [value for key, value in actual.items() if _is_called(key, name)] or [ABSENT]
        if not any(_reads(template, value, ids) for value in values):
            expected = shown(template.replace(_DEVICES, ",".join(ids)))
            yield Mismatch((*path, name), expected, ", ".join(map(shown, values)))


def _is_called(key: str, name: str) -> bool:
    return key.startswith(name[:-1]) if name.endswith("*") else key == name


def _reads(template: str, value: str, ids: Sequence[str]) -> bool:
    """Whether a value is the template with the ids filled in, joined in any order: the kubelet promises none."""
    if template.count(_DEVICES) != 1:
        return value == template.replace(_DEVICES, ",".join(ids))
    before, after = template.split(_DEVICES)
    middle = value.removeprefix(before).removesuffix(after)
    return value == before + middle + after and sorted(middle.split(",")) == list(ids)
