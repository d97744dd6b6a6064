"""Whether a container has what a story expects plugins to give it: devices, and what their answers add to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from simkubelet.devices import DeviceRunOptions

from ..story.expectations.pod_expectation import (
    ContainerExpectation,
    DeviceNodes,
    ExpectedDeviceNode,
    ExpectedMount,
)
from ..story.expectations.values import ABSENT
from ..story.positioned import DataPath
from ..trace.snapshot import Ids, PodView
from .mismatch import Mismatch, Mismatches, devices_differ, differs, listed_devices_differ, shown

_DEVICES: Final = "{devices}"
_DEVICE: Final = "{device}"
_Facts = Mapping[str, object]
"""What is known of a mount or a device file, by the keys of a story."""


def container_differs(path: DataPath, wanted: ContainerExpectation, pod: PodView, name: str) -> Mismatches:
    """What differs of a container of a pod."""
    held, options = pod.devices.get(name, {}), pod.options.get(name, DeviceRunOptions())
    ids = ids_of(held)
    yield from devices_differ((*path, "devices"), wanted.devices, held)
    if wanted.pod_resources is not None:
        listed = (pod.pod_resources or {}).get(name, ABSENT)
        yield from listed_devices_differ((*path, "podResources"), wanted.pod_resources, listed)
    yield from texts_differ((*path, "env"), wanted.env, options.envs, ids)
    if "mounts" in wanted.model_fields_set:
        mounts = {one.container_path: _facts(one.host_path, readOnly=one.read_only) for one in options.mounts}
        yield from _entries_differ((*path, "mounts"), wanted.mounts, mounts, ids)
    if "device_nodes" in wanted.model_fields_set:
        yield from device_nodes_differ((*path, "deviceNodes"), wanted.device_nodes, [options], ids)
    yield from texts_differ((*path, "annotations"), wanted.annotations, options.annotations, ids)
    if "cdi_devices" in wanted.model_fields_set:
        expected = sorted(name.replace(_DEVICE, one) for name in wanted.cdi_devices for one in _each(name, ids))
        yield from differs((*path, "cdiDevices"), expected, sorted(options.cdi_devices))


def ids_of(held: Ids) -> list[str]:
    """The ids of all devices that a container holds."""
    return sorted({device for ids in held.values() for device in ids})


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


def device_nodes_differ(
    path: DataPath, wanted: DeviceNodes, options: Iterable[DeviceRunOptions], ids: Sequence[str]
) -> Mismatches:
    """Compare all device files of some containers."""
    nodes = (node for one in options for node in one.devices)
    given = {node.container_path: _facts(node.host_path, permissions=node.permissions) for node in nodes}
    yield from _entries_differ(path, wanted, given, ids)


def _facts(host_path: str, **others: object) -> _Facts:
    return {"hostPath": host_path, **others}


def _entries_differ(
    path: DataPath,
    wanted: Mapping[str, str | ExpectedMount | ExpectedDeviceNode],
    given: Mapping[str, _Facts],
    ids: Sequence[str],
) -> Mismatches:
    """Compare all that is given at paths of a container; where a text is wanted that is the path on the node."""
    expected = {
        place.replace(_DEVICE, device): _filled(entry, device)
        for place, entry in wanted.items()
        for device in _each(f"{place} {entry}", ids)
    }
    actual = {place: _in_the_form_of(expected.get(place), facts) for place, facts in given.items()}
    yield from differs(path, dict(sorted(expected.items())), dict(sorted(actual.items())))


def _filled(entry: str | ExpectedMount | ExpectedDeviceNode, device: str) -> str | dict[str, object]:
    if isinstance(entry, str):
        return entry.replace(_DEVICE, device)
    facts: dict[str, object] = entry.model_dump(by_alias=True, exclude_unset=True)
    return {key: value.replace(_DEVICE, device) if isinstance(value, str) else value for key, value in facts.items()}


def _in_the_form_of(expected: object, facts: _Facts) -> object:
    return {key: facts[key] for key in expected} if isinstance(expected, Mapping) else facts["hostPath"]


def _each(text: str, ids: Sequence[str]) -> Sequence[str]:
    """What a text is filled with, once for each; where no device is held it stays as it is, which nothing is like."""
    return (ids or (_DEVICE,)) if _DEVICE in text else ("",)


def _reads(template: str, value: str, ids: Sequence[str]) -> bool:
    """Whether a value is the template with the ids filled in, joined in any order: the kubelet promises none."""
    if template.count(_DEVICES) != 1:
        return value == template.replace(_DEVICES, ",".join(ids))
    before, after = template.split(_DEVICES)
    middle = value.removeprefix(before).removesuffix(after)
    return value == before + middle + after and sorted(middle.split(",")) == list(ids)
