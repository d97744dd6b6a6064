"""Whether the world is as a story expects: pure, from one snapshot and the trace so far.

Every key that the story gives is one check by the same name; a check yields what differs and nothing where it agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from typing import Any, Final

from simkubelet.devices import DeviceRunOptions

from ..story.expectations import (
    ContainerExpectation,
    Expectation,
    Growth,
    NodeExpectation,
    PluginExpectation,
    PodExpectation,
)
from ..story.expected_values import (
    ABSENT,
    CheckpointContent,
    DeviceNodes,
    EventPattern,
    ExpectedDeviceNode,
    ExpectedMount,
)
from ..story.part import DataPath, format_duration
from ..trace.events import PluginMeasured
from ..trace.snapshot import RULES, CheckpointView, Ids, NodeView, PluginView, PodEvent, PodView, Snapshot, together
from ..trace.trace import Trace, merged
from .consistency import inconsistencies
from .mismatch import (
    Mismatch,
    Mismatches,
    devices_differ,
    differs,
    listed_devices_differ,
    placed_devices_differ,
    registered_differ,
    shown,
    texts_differ,
)

_NO_ANSWER: Final = "no answer"
_DEVICE: Final = "{device}"
_Facts = Mapping[str, object]
"""What is known of a mount or a device file, by the keys of a story."""


def evaluate(expectation: Expectation, snapshot: Snapshot, trace: Trace) -> tuple[Mismatch, ...]:
    """Compare; an empty answer means that the expectation is met.

    Args:
        expectation: What the story wants; its times play no part here.
        snapshot: The world now.
        trace: The record so far, for what the world was.
    """
    return tuple(_DIFFERENCES[type(expectation)](expectation, snapshot, trace))


def _node(wanted: NodeExpectation, snapshot: Snapshot, trace: Trace) -> Mismatches:
    node = snapshot.nodes.get(wanted.node)
    if node is None:
        yield Mismatch(("node",), wanted.node, "no such node")
        return
    for key, quantities, published in (
        ("capacity", wanted.capacity, node.capacity),
        ("allocatable", wanted.allocatable, node.allocatable),
    ):
        for resource, quantity in quantities.items():
            yield from differs((key, resource), quantity, published.get(resource, ABSENT))
    yield from texts_differ(("labels",), wanted.labels, node.labels)
    yield from texts_differ(("annotations",), wanted.annotations, node.annotations)
    if wanted.kubelet is not None:
        yield from differs(("kubelet",), wanted.kubelet, node.kubelet)
    if wanted.panic is not None and not node.panic.startswith(wanted.panic):
        yield Mismatch(("panic",), wanted.panic, shown(node.panic))
    yield from placed_devices_differ(("podResources",), wanted.pod_resources, node.pod_resources)
    for pod, answer in wanted.pod_resources_get.items():
        yield from listed_devices_differ(("podResourcesGet", pod), answer, node.pod_resources_get.get(pod, _NO_ANSWER))
    yield from _checkpoint(wanted, node)
    for claim, users in wanted.claims.items():
        known = node.claims.get(claim)
        yield from differs(("claims", claim), _in_order(users), ABSENT if known is None else _in_order(known))
    yield from registered_differ(("resourceSlices",), wanted.resource_slices, node.resource_slices)
    phases = Counter(pod.phase for pod in snapshot.pods.values() if pod.node == wanted.node)
    for phase, count in wanted.pods.items():
        yield from differs(("pods", phase), count, phases[phase])
    for resource, count in wanted.lists.items():
        yield from differs(("lists", resource), count, trace.lists(wanted.node, resource))
    for resource, quantity in wanted.connected.items():
        yield from differs(("connected", resource), quantity, trace.connected(wanted.node, resource))
    for index, resource in enumerate(wanted.same_devices):
        if not trace.has_first_devices(wanted.node, resource):
            yield Mismatch(("sameDevices", index), f"the ids of the first list of {resource}", "others")
    for resource, history in wanted.capacity_history.items():
        actual = trace.capacity_history(wanted.node, resource)
        if actual not in _histories(history):
            yield from differs(("capacityHistory", resource), history, actual)
    if wanted.consistent:
        yield from inconsistencies(node, snapshot, trace)


def _checkpoint(wanted: NodeExpectation, node: NodeView) -> Mismatches:
    content, actual, path = wanted.checkpoint, node.checkpoint, "checkpoint"
    if content is None:
        return
    if not isinstance(content, CheckpointContent) or not isinstance(actual, CheckpointView):
        expected = "a checkpoint" if isinstance(content, CheckpointContent) else content
        yield from differs((path,), expected, "a checkpoint" if isinstance(actual, CheckpointView) else actual)
        return
    yield from registered_differ((path, "registered"), content.registered, actual.registered)
    for pod, containers in content.pods.items():
        entries = actual.pods.get(pod)
        if entries is None or isinstance(containers, str):
            yield from differs((path, "pods", pod), containers, ABSENT if entries is None else entries)
            continue
        for container, devices in containers.items():
            yield from devices_differ((path, "pods", pod, container), devices, entries.get(container, {}))


def _in_order(users: str | Sequence[str]) -> str | list[str]:
    return users if isinstance(users, str) else sorted(users)


def _histories(wanted: Sequence[int | str]) -> set[tuple[int, ...]]:
    """The histories that a story allows: with and without each quantity that has a question mark."""
    ways = ([(int(one[:-1]),), ()] if isinstance(one, str) else [(one,)] for one in wanted)
    return {merged(chain.from_iterable(way)) for way in product(*ways)}


def _plugin(wanted: PluginExpectation, snapshot: Snapshot, trace: Trace) -> Mismatches:
    plugin = next((view for view in snapshot.plugins if _is_meant(view, wanted)), None)
    if plugin is None:
        yield Mismatch(("plugin",), wanted.plugin, "no such plugin")
        return
    for key in ("state", "restarts", "registrations", "refusal", "connections"):
        if key in wanted.expected:
            yield from differs((key,), getattr(wanted, key), getattr(plugin, key))
    for rpc, count in wanted.calls.items():
        yield from differs(("calls", rpc), count, plugin.calls.get(rpc, 0))
    for rpc, most in wanted.most_calls.items():
        if (count := plugin.calls.get(rpc, 0)) > most:
            yield Mismatch(("mostCalls", rpc), f"at most {most}", shown(count))
    yield from _kept_contract(wanted, plugin)
    if wanted.options is not None:
        for option, is_on in wanted.options.wanted.items():
            yield from differs(("options", option), is_on, option in plugin.options)
    if wanted.sockets is not None and wanted.sockets != len(plugin.sockets):
        yield Mismatch(("sockets",), shown(wanted.sockets), ", ".join(plugin.sockets) or "none")
    if wanted.exit_status is not None:
        ended = "has not ended" if plugin.exit_status is None else plugin.exit_status
        yield from differs(("exitStatus",), wanted.exit_status, ended)
    if wanted.ends_within is not None and not (plugin.exit_s is not None and plugin.exit_s <= wanted.ends_within):
        took = "has not ended after SIGTERM" if plugin.exit_s is None else f"{plugin.exit_s:.2f}s"
        yield Mismatch(("endsWithin",), format_duration(wanted.ends_within), took)
    if wanted.growth is not None:
        yield from _growth(wanted.growth, [one for one in trace.of(PluginMeasured) if one.plugin == wanted.plugin])
    if "call_log" in wanted.expected:
        yield from differs(("callLog",), wanted.call_log, plugin.call_log)


def _kept_contract(wanted: PluginExpectation, plugin: PluginView) -> Mismatches:
    for index, rule in enumerate(wanted.contract):
        for detail in plugin.breaches.get(rule, ()):
            yield Mismatch(("contract", index), f"{rule}: a plugin {RULES[rule]}", detail)


def _growth(wanted: Growth, measured: Sequence[PluginMeasured]) -> Mismatches:
    if len(measured) < 2:
        yield Mismatch(("growth",), "a plugin that was measured twice", f"measured {len(measured)} times")
        return
    before, now = measured[0], measured[-1]
    for key, most, first, last, unit in (
        ("openFiles", wanted.open_files, before.open_files, now.open_files, ""),
        ("threads", wanted.threads, before.threads, now.threads, ""),
        ("memoryMib", wanted.memory_mib, before.memory_bytes >> 20, now.memory_bytes >> 20, " MiB"),
    ):
        if most is not None and last - first > most:
            yield Mismatch(("growth", key), f"at most {most}{unit} more", f"{first}{unit}, then {last}{unit}")
    if wanted.cpu is not None and (used_s := now.cpu_s - before.cpu_s) > wanted.cpu:
        yield Mismatch(("growth", "cpu"), f"at most {format_duration(wanted.cpu)} more", f"{used_s:.2f}s more")


def _is_meant(view: PluginView, wanted: PluginExpectation) -> bool:
    return view.name == wanted.plugin and wanted.node in (None, view.node)


def _pod(wanted: PodExpectation, snapshot: Snapshot, trace: Trace) -> Mismatches:
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
_DIFFERENCES: Final[Mapping[type[Expectation], Callable[[Any, Snapshot, Trace], Mismatches]]] = {
    NodeExpectation: _node,
    PodExpectation: _pod,
    PluginExpectation: _plugin,
}
