from __future__ import annotations

import pytest

from scenarios.evaluation.timeline import LENGTH, timeline
from scenarios.trace.events import PluginStarted, StepStarted
from scenarios.trace.trace import Event, Trace
from simkubelet.model.events import NodeStatusUpdated, PodStatusUpdated

MINE = PodStatusUpdated("mine", "Pending", "", "")
OTHER = PluginStarted("other", "node-1", 1)


def trace_of(*events: Event) -> Trace:
    trace = Trace(now=lambda: 0.0, real=lambda: 0.0)
    for event in events:
        trace.append(event)
    return trace


def status(allocatable: int | None, capacity: int = 8, cpu: int = 4000) -> NodeStatusUpdated:
    native = {"cpu": cpu, "memory": 1 << 30, "pods": 110}
    extended = {} if allocatable is None else {"example.com/gpu": allocatable}
    return NodeStatusUpdated("node-1", {**native, "example.com/gpu": capacity}, {**native, **extended})


def test_steps_and_what_concerns_the_subject_come_first() -> None:
    shown = timeline(trace_of(MINE, StepStarted(1, "a"), *[OTHER] * 20), "mine", 5)

    assert [entry.seq for entry in shown] == [0, 1, 19, 20, 21]


@pytest.mark.parametrize("related", [0, 3, LENGTH, 30])
def test_timeline_is_never_longer_than_asked(related: int) -> None:
    assert len(timeline(trace_of(*[MINE] * related, OTHER), "mine")) == min(LENGTH, related + 1)


def test_node_status_shows_extended_resources_that_changed() -> None:
    shown = timeline(trace_of(status(8), status(8, cpu=1), status(7), status(7, capacity=9)))

    changes = [(entry.seq, entry.event.capacity, entry.event.allocatable) for entry in shown]  # type: ignore[union-attr]
    gpu = "example.com/gpu"
    assert changes == [(0, {gpu: 8}, {gpu: 8}), (2, {}, {gpu: 7}), (3, {gpu: 9}, {})]


def test_node_status_without_a_resource_that_it_had_shows_all_others() -> None:
    before = NodeStatusUpdated("node-1", {"a/a": 1, "a/b": 1}, {})

    shown = timeline(trace_of(before, NodeStatusUpdated("node-1", {"a/b": 1}, {})))

    assert [entry.event.capacity for entry in shown] == [{"a/a": 1, "a/b": 1}, {"a/b": 1}]  # type: ignore[union-attr]
