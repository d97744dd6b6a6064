"""Whether the world is as a story expects: pure, from one snapshot and the trace so far.

Every key that the story gives is one check by the same name; a check yields what differs and nothing where it agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, product
from typing import Any, Final

from simkubelet.model.words import number_of

from ..story.expectations import Expectation, Growth, NodeExpectation, PluginExpectation, PodExpectation
from ..story.expected_values import ABSENT, CheckpointContent
from ..story.part import format_duration
from ..trace.events import PluginMeasured
from ..trace.snapshot import RULES, CheckpointView, NodeView, PluginView, Snapshot
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
from .pod import pod_differs

_NO_ANSWER: Final = "no answer"


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
        yield Mismatch(("growth",), "a plugin that was measured twice", f"measured {number_of(len(measured), 'time')}")
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


_DIFFERENCES: Final[Mapping[type[Expectation], Callable[[Any, Snapshot, Trace], Mismatches]]] = {
    NodeExpectation: _node,
    PodExpectation: pod_differs,
    PluginExpectation: _plugin,
}
