"""Whether a node and its kubelet are as a story expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, product

from ..story.expectations.expectation import NodeExpectation
from ..story.expectations.expected_checkpoint import CheckpointContent
from ..story.expectations.expected_devices import ABSENT
from ..trace.snapshot import CheckpointView, NodeView, Snapshot
from ..trace.trace import Trace, merged
from .container_evaluation import texts_differ
from .device_evaluation import devices_differ, listed_devices_differ, placed_devices_differ, registered_differ
from .mismatch import Mismatch, Mismatches, differs, shown

_NO_ANSWER = "no answer"


def node_differs(wanted: NodeExpectation, snapshot: Snapshot, trace: Trace) -> Mismatches:
    """What differs of a node."""
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
    for pod, told in wanted.pod_resources_get.items():
        yield from listed_devices_differ(("podResourcesGet", pod), told, node.pod_resources_get.get(pod, _NO_ANSWER))
    yield from _checkpoint(wanted, node)
    phases = Counter(pod.phase for pod in snapshot.pods.values() if pod.node == wanted.node)
    for phase, count in wanted.pods.items():
        yield from differs(("pods", phase), count, phases[phase])
    for resource, count in wanted.lists.items():
        yield from differs(("lists", resource), count, trace.lists(wanted.node, resource))
    for resource, history in wanted.capacity_history.items():
        seen = trace.capacity_history(wanted.node, resource)
        if seen not in _histories(history):
            yield from differs(("capacityHistory", resource), history, seen)


def _checkpoint(wanted: NodeExpectation, node: NodeView) -> Mismatches:
    content, seen, path = wanted.checkpoint, node.checkpoint, "checkpoint"
    if content is None:
        return
    if not isinstance(content, CheckpointContent) or not isinstance(seen, CheckpointView):
        expected = "a checkpoint" if isinstance(content, CheckpointContent) else content
        yield from differs((path,), expected, "a checkpoint" if isinstance(seen, CheckpointView) else seen)
        return
    yield from registered_differ((path, "registered"), content.registered, seen.registered)
    for pod, containers in content.pods.items():
        entries = seen.pods.get(pod)
        if entries is None or isinstance(containers, str):
            yield from differs((path, "pods", pod), containers, ABSENT if entries is None else entries)
            continue
        for container, devices in containers.items():
            yield from devices_differ((path, "pods", pod, container), devices, entries.get(container, {}))


def _histories(wanted: Sequence[int | str]) -> set[tuple[int, ...]]:
    """The histories that a story allows: with and without each quantity that has a question mark."""
    ways = ([(int(one[:-1]),), ()] if isinstance(one, str) else [(one,)] for one in wanted)
    return {merged(chain.from_iterable(way)) for way in product(*ways)}
