"""Whether the world is as a story expects: pure, from one snapshot and the trace so far.

Every key that the story gives is one check by the same name; a check yields what differs and nothing where it agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product

from .expectation import (
    ABSENT,
    AnyExpectation,
    EventPattern,
    NodeExpectation,
    PluginExpectation,
    PodExpectation,
)
from .positioned import DataPath
from .snapshot import NodeView, PluginView, PodEvent, PodView, Snapshot
from .trace import Trace, merged

DEVICES = "{devices}"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference: where in the expectation (keys of the document), what it says, and what was seen last."""

    path: DataPath
    expected: str
    seen: str


Mismatches = Iterator[Mismatch]


def evaluate(expectation: AnyExpectation, snapshot: Snapshot, trace: Trace) -> tuple[Mismatch, ...]:
    """Compare; an empty answer means that the expectation is met.

    Args:
        expectation: What the story wants; its times play no part here.
        snapshot: The world now.
        trace: The record so far, for what the world was.
    """
    match expectation:
        case NodeExpectation():
            found = _node(expectation, snapshot, trace)
        case PodExpectation():
            found = _pod(expectation, snapshot, trace)
        case PluginExpectation():
            found = _plugin(expectation, snapshot)
    return tuple(found)


def shown(value: object) -> str:
    """A value as a story would write it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    return "''" if value == "" else str(value)


def _differs(path: DataPath, expected: object, seen: object) -> Mismatches:
    if expected != seen:
        yield Mismatch(path, shown(expected), shown(seen))


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
            yield from _differs((key, resource), quantity, published.get(resource, ABSENT))
    if wanted.kubelet is not None:
        yield from _differs(("kubelet",), wanted.kubelet, node.kubelet)
    if wanted.panic is not None and not node.panic.startswith(wanted.panic):
        yield Mismatch(("panic",), wanted.panic, shown(node.panic))
    for resource, count in wanted.pod_resources.items():
        yield from _differs(("podResources", resource), count, len(node.pod_resources.get(resource, ())))
    for resource, count in wanted.lists.items():
        yield from _differs(("lists", resource), count, trace.lists(wanted.node, resource))
    for resource, history in wanted.capacity_history.items():
        seen = trace.capacity_history(wanted.node, resource)
        if seen not in _histories(history):
            yield from _differs(("capacityHistory", resource), history, seen)


def _histories(wanted: Sequence[int | str]) -> set[tuple[int, ...]]:
    """The histories that a story allows: with and without each quantity that has a question mark."""
    ways = ([(int(one[:-1]),), ()] if isinstance(one, str) else [(one,)] for one in wanted)
    return {merged(chain.from_iterable(way)) for way in product(*ways)}


def _plugin(wanted: PluginExpectation, snapshot: Snapshot) -> Mismatches:
    plugin = next((view for view in snapshot.plugins if _is_meant(view, wanted)), None)
    if plugin is None:
        yield Mismatch(("plugin",), wanted.plugin, "no such plugin")
        return
    for key in ("state", "restarts", "registrations", "refusal"):
        if key in wanted.expected:
            yield from _differs((key,), getattr(wanted, key), getattr(plugin, key))
    for rpc, count in wanted.calls.items():
        yield from _differs(("calls", rpc), count, plugin.calls.get(rpc, 0))


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
            yield from _differs((key,), getattr(wanted, key), getattr(pod, key))
    for key, check in _POD_CHECKS.items():
        if key in wanted.expected:
            yield from check(wanted, pod, snapshot, trace)


def _devices(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    held = pod.held()
    for resource, count in wanted.devices.items():
        yield from _differs(("devices", resource), count, len(held.get(resource, ())))


def _keeps_devices(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    first = trace.first_devices(pod.name)
    if not first:
        yield Mismatch(("keepsDevices",), "devices given to the pod", "none so far")
        return
    containers = sorted({*first, *pod.devices})
    for container in containers:
        given = {resource: sorted(ids) for resource, ids in first.get(container, {}).items()}
        held = {resource: sorted(ids) for resource, ids in pod.devices.get(container, {}).items() if ids}
        yield from _differs(("keepsDevices",), given, held)


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
        told = pod.health.get(resource, {})
        for device, health in healths.items():
            yield from _differs(("health", resource, device), health, told.get(device, ABSENT))


def _pod_resources(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    listed, path = pod.pod_resources, ("podResources",)
    if listed is None or not isinstance(wanted.pod_resources, Mapping):
        seen = ABSENT if listed is None else {resource: len(ids) for resource, ids in listed.items()}
        yield from _differs(path, wanted.pod_resources, seen)
        return
    for resource, count in wanted.pod_resources.items():
        yield from _differs((*path, resource), count, len(listed.get(resource, ())))


def _located_devices(pod: PodView) -> set[tuple[tuple[str, str], str]]:
    return {((pod.node, resource), device) for resource, ids in pod.held().items() for device in ids}


def _env(wanted: PodExpectation, pod: PodView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    holders = {container: resources for container, resources in pod.devices.items() if any(resources.values())}
    # A kubelet that lost its checkpoint, or is not there, knows of no holder; the container runs as it was started.
    holders = holders or {name: {} for name, env in pod.env.items() if wanted.env.keys() <= env.keys()}
    if not holders:
        yield Mismatch(("env",), shown(wanted.env), "no container holds devices")
    for container, resources in holders.items():
        ids = sorted({device for held in resources.values() for device in held})
        for name, template in wanted.env.items():
            value = pod.env.get(container, {}).get(name)
            if value is None or not _reads(template, value, ids):
                expected = template.replace(DEVICES, ",".join(ids))
                yield Mismatch(("env", name), expected, "not set" if value is None else shown(value))


def _reads(template: str, value: str, ids: Sequence[str]) -> bool:
    """Whether a value is the template with the ids filled in, joined in any order: the kubelet promises none."""
    if template.count(DEVICES) != 1:
        return value == template.replace(DEVICES, ",".join(ids))
    before, after = template.split(DEVICES)
    middle = value.removeprefix(before).removesuffix(after)
    return value == before + middle + after and sorted(middle.split(",")) == list(ids)


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
    """The event that agrees most with the pattern, the latest of equals: a wrong text is best seen beside it."""
    if not events:
        return "no event"
    agreement = [sum(getattr(event, key) == value for key, value in pattern.items()) for event in events]
    best = max(range(len(events)), key=lambda index: (agreement[index], index))
    return shown({key: getattr(events[best], key) for key in pattern})


_POD_CHECKS: Mapping[str, Callable[[PodExpectation, PodView, Snapshot, Trace], Mismatches]] = {
    "devices": _devices,
    "keeps_devices": _keeps_devices,
    "shares_no_device_with": _shares_no_device_with,
    "env": _env,
    "health": _health,
    "pod_resources": _pod_resources,
    "event": _event,
}
