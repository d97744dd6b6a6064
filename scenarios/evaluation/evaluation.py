"""Whether the world is as a story expects: pure, from one snapshot and the trace so far.

Every key that the story gives is one check by the same name; a check yields what differs and nothing where it agrees.
"""

from __future__ import annotations

from ..story.expectations.expectation import AnyExpectation, NodeExpectation, PluginExpectation, PodExpectation
from ..trace.snapshot import PluginView, Snapshot
from ..trace.trace import Trace
from .mismatch import Mismatch, Mismatches, differs
from .node_evaluation import node_differs
from .pod_evaluation import pod_differs


def evaluate(expectation: AnyExpectation, snapshot: Snapshot, trace: Trace) -> tuple[Mismatch, ...]:
    """Compare; an empty answer means that the expectation is met.

    Args:
        expectation: What the story wants; its times play no part here.
        snapshot: The world now.
        trace: The record so far, for what the world was.
    """
    match expectation:
        case NodeExpectation():
            found = node_differs(expectation, snapshot, trace)
        case PodExpectation():
            found = pod_differs(expectation, snapshot, trace)
        case PluginExpectation():
            found = _plugin(expectation, snapshot)
    return tuple(found)


def _plugin(wanted: PluginExpectation, snapshot: Snapshot) -> Mismatches:
    plugin = next((view for view in snapshot.plugins if _is_meant(view, wanted)), None)
    if plugin is None:
        yield Mismatch(("plugin",), wanted.plugin, "no such plugin")
        return
    for key in ("state", "restarts", "registrations", "refusal", "connections"):
        if key in wanted.expected:
            yield from differs((key,), getattr(wanted, key), getattr(plugin, key))
    for rpc, count in wanted.calls.items():
        yield from differs(("calls", rpc), count, plugin.calls.get(rpc, 0))
    if "call_log" in wanted.expected:
        yield from differs(("callLog",), wanted.call_log, plugin.call_log)


def _is_meant(view: PluginView, wanted: PluginExpectation) -> bool:
    return view.name == wanted.plugin and wanted.node in (None, view.node)
