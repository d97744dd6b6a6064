"""Whether a pod and its containers are as a story expects: the part of `evaluation` about pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from simkubelet.devices import DeviceRunOptions

from ..story.expectations import (
    ContainerExpectation,
    PodExpectation,
)
from ..story.expected_values import (
    ABSENT,
    DeviceNodes,
    EventPattern,
    ExpectedDeviceNode,
    ExpectedMount,
)
from ..story.part import DataPath
from ..trace.snapshot import Ids, NodeView, PodEvent, PodView, Snapshot, together
from ..trace.trace import Trace
from .mismatch import (
    Mismatch,
    Mismatches,
    devices_differ,
    differs,
    listed_devices_differ,
    shown,
    texts_differ,
)

_DEVICE: Final = "{device}"
_Facts = Mapping[str, object]
"""What is known of a mount or a device file, by the keys of a story."""


def pod_differs(wanted: PodExpectation, snapshot: Snapshot, trace: Trace) -> Mismatches:
    """Compare a pod with what is wanted of it."""
    pod = snapshot.pods.get(wanted.pod)
    if wanted.gone:
        if pod is not None:
            yield Mismatch(("gone",), "no such pod", f"a pod in phase {pod.phase}")
        return
    if pod is None:
        yield Mismatch(("pod",), wanted.pod, "no such pod")
        return
    for key in ("phase", "reason", "message", "restarts"):
        if key in wanted.expected:
            yield from differs((key,), getattr(wanted, key), getattr(pod, key))
    for key, check in _POD_CHECKS.items():
        if key in wanted.expected:
            yield from check(wanted, pod, snapshot, trace)


def _devices(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    yield from devices_differ(("devices",), wanted.devices, pod.held())


def _containers(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    for name, container in wanted.containers.items():
        yield from _container(("containers", name), container, pod, name)


def _keeps_devices(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    first = trace.first_devices(pod.name)
    if not first:
        yield Mismatch(("keepsDevices",), "devices given to the pod", "none so far")
        return
    containers = sorted({*first, *pod.devices})
    for container in containers:
        given = {resource: sorted(ids) for resource, ids in first.get(container, {}).items()}
        held = {resource: sorted(ids) for resource, ids in pod.devices.get(container, {}).items() if ids}
        yield from differs(("keepsDevices",), given, held)


def _shares_no_device_with(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    own = _located_devices(pod)
    for index, name in enumerate(wanted.shares_no_device_with):
        path = ("sharesNoDeviceWith", index)
        other = snapshot.pods.get(name)
        theirs = set() if other is None else _located_devices(other)
        if not own or not theirs:
            without = pod.name if not own else name
            yield Mismatch(path, f"devices of {pod.name} and of {name}", f"{without} holds none")
        elif shared := sorted(device for _, device in own & theirs):
            yield Mismatch(path, "no device in common", f"both hold {', '.join(shared)}")


def _health(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    for resource, healths in wanted.health.items():
        reported = pod.health.get(resource, {})
        for device, health in healths.items():
            yield from differs(("health", resource, device), health, reported.get(device, ABSENT))


def _pod_resources(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    if wanted.pod_resources is not None:
        listed = ABSENT if pod.pod_resources is None else together(pod.pod_resources.values())
        yield from listed_devices_differ(("podResources",), wanted.pod_resources, listed)


def _located_devices(pod: PodView) -> set[tuple[tuple[str, str], str]]:
    return {((pod.node, resource), device) for resource, ids in pod.held().items() for device in ids}


def _env(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    holders = {container: resources for container, resources in pod.devices.items() if any(resources.values())}
    # A kubelet that lost its checkpoint, or is not there, knows of no holder; the container runs as it was started.
    holders = holders or {name: {} for name, one in pod.options.items() if wanted.env.keys() <= one.envs.keys()}
    if not holders:
        yield Mismatch(("env",), shown(wanted.env), "no container holds devices")
    for container, resources in holders.items():
        options = pod.options.get(container, DeviceRunOptions())
        yield from texts_differ(("env",), wanted.env, options.envs, _ids_of(resources))


def _device_nodes(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    yield from _device_nodes_differ(("deviceNodes",), wanted.device_nodes, pod.options.values(), _ids_of(pod.held()))


def _labels(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    yield from texts_differ(("labels",), wanted.labels, pod.labels)


def _annotations(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    yield from texts_differ(("annotations",), wanted.annotations, pod.annotations)


def _event(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    if wanted.event is None:
        return
    pattern = {key: value for key in ("type", "reason") if (value := getattr(wanted.event, key)) is not None}
    message = _message_for(wanted.event, _node_of(pod, snapshot))
    if message is not None:
        pattern["message"] = message
    if not any(_is_like(event, pattern) for event in pod.events):
        yield Mismatch(("event",), shown(pattern), _likest(pod.events, pattern))


def _node_of(pod: PodView, snapshot: Snapshot) -> NodeView | None:
    """The pod's node, or the first of all: a pod that waits is spoken of in its cluster's version."""
    return snapshot.nodes.get(pod.node) or next(iter(snapshot.nodes.values()), None)


def _message_for(pattern: EventPattern, node: NodeView | None) -> str | None:
    if not isinstance(pattern.message, Mapping) or node is None:
        return pattern.message if isinstance(pattern.message, str) else None
    reached = [minor for minor in pattern.message if _number(minor) <= _number(node.kubernetes)]
    return pattern.message[max(reached, key=_number)] if reached else f"a text for Kubernetes {node.kubernetes}"


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))


def _is_like(event: PodEvent, pattern: Mapping[str, str]) -> bool:
    return all(getattr(event, key) == value for key, value in pattern.items())


def _likest(events: Sequence[PodEvent], pattern: Mapping[str, str]) -> str:
    """The event that agrees most with the pattern, the latest of equals: a wrong text is clearest beside it."""
    if not events:
        return "no event"
    agreement = [sum(getattr(event, key) == value for key, value in pattern.items()) for event in events]
    best = max(range(len(events)), key=lambda index: (agreement[index], index))
    return shown({key: getattr(events[best], key) for key in pattern})


def _container(path: DataPath, wanted: ContainerExpectation, pod: PodView, name: str) -> Mismatches:
    """What differs of a container of a pod."""
    held, options = pod.devices.get(name, {}), pod.options.get(name, DeviceRunOptions())
    ids = _ids_of(held)
    yield from devices_differ((*path, "devices"), wanted.devices, held)
    if wanted.pod_resources is not None:
        listed = (pod.pod_resources or {}).get(name, ABSENT)
        yield from listed_devices_differ((*path, "podResources"), wanted.pod_resources, listed)
    yield from texts_differ((*path, "env"), wanted.env, options.envs, ids)
    if "mounts" in wanted.model_fields_set:
        mounts = {one.container_path: _facts(one.host_path, readOnly=one.read_only) for one in options.mounts}
        yield from _entries_differ((*path, "mounts"), wanted.mounts, mounts, ids)
    if "device_nodes" in wanted.model_fields_set:
        yield from _device_nodes_differ((*path, "deviceNodes"), wanted.device_nodes, [options], ids)
    yield from texts_differ((*path, "annotations"), wanted.annotations, options.annotations, ids)
    if "cdi_devices" in wanted.model_fields_set:
        expected = sorted(name.replace(_DEVICE, one) for name in wanted.cdi_devices for one in _each(name, ids))
        yield from differs((*path, "cdiDevices"), expected, sorted(options.cdi_devices))


def _ids_of(held: Ids) -> list[str]:
    """The ids of all devices that a container holds."""
    return sorted({device for ids in held.values() for device in ids})


def _device_nodes_differ(
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


_POD_CHECKS: Mapping[str, Callable[[PodExpectation, PodView, Snapshot, Trace], Mismatches]] = {
    "devices": _devices,
    "containers": _containers,
    "keeps_devices": _keeps_devices,
    "shares_no_device_with": _shares_no_device_with,
    "env": _env,
    "device_nodes": _device_nodes,
    "labels": _labels,
    "annotations": _annotations,
    "health": _health,
    "pod_resources": _pod_resources,
    "event": _event,
}
