from __future__ import annotations

import asyncio
import io
import os
from itertools import pairwise
from typing import get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.trace.events import FaultInjected, StepStarted
from scenarios.trace.trace import Entry, Event, Trace, merged, read_lines, write_lines
from simkubelet.model.events import DevicesAllocated, NodeStatusUpdated, PodStatusUpdated
from tests.support.patience import LIMIT_S

GPU = "nvidia.com/gpu"


def status(capacity: dict[str, int], node: str = "node-1") -> NodeStatusUpdated:
    return NodeStatusUpdated(node, capacity, capacity)


def test_event_has_order_time_kind_and_fields() -> None:
    now_s = 100.0
    trace = Trace(now=lambda: now_s)

    now_s = 100.25
    trace.append(FaultInjected("node-1", "GPU-1", 79))

    assert (trace[0].seq, trace[0].time_s, trace[0].kind) == (0, 0.25, "fault-injected")
    assert trace[0].event == FaultInjected("node-1", "GPU-1", 79)


def test_recorded_event_does_not_change_with_its_source() -> None:
    trace = Trace()
    capacity = {GPU: 8}
    trace.append(status(capacity))

    capacity[GPU] = 0

    assert trace[0].event == status({GPU: 8})


def test_forgotten_entries_leave_positions_as_they_were() -> None:
    trace = Trace()
    for index in range(3):
        trace.append(StepStarted(index, "a step"))
    trace.forget()
    trace.append(StepStarted(4, "a step"))

    (kept,) = trace
    assert (len(trace), kept.seq, trace[3], trace[-1]) == (4, 3, kept, kept)
    assert (trace[1:], trace[:3], trace[3:]) == ((kept,), (), (kept,))
    assert list(trace.of(StepStarted)) == [kept.event]
    with pytest.raises(IndexError, match="entry 2 was forgotten"):
        trace[2]


async def test_waiter_wakes_when_an_event_is_recorded() -> None:
    trace = Trace()
    waiter = asyncio.create_task(trace.longer_than(0))
    await asyncio.sleep(0)
    assert not waiter.done()

    trace.append(StepStarted(1, "a step"))

    await asyncio.wait_for(waiter, LIMIT_S)


async def test_wait_for_what_has_happened_returns_at_once() -> None:
    trace = Trace()
    trace.append(StepStarted(1, "a step"))

    await asyncio.wait_for(trace.longer_than(0), LIMIT_S)


def test_first_devices_are_those_given_first() -> None:
    trace = Trace()
    for pod, ids in (("a", ("g1",)), ("b", ("g2",)), ("a", ("g3",))):
        trace.append(DevicesAllocated("node-1", pod, "main", GPU, ids))

    assert trace.first_devices("a") == {"main": {GPU: ("g1",)}}
    assert trace.first_devices("stranger") == {}


def test_capacity_history_leaves_out_repetitions_absence_and_other_nodes() -> None:
    trace = Trace()
    for event in (
        status({}),
        status({GPU: 8}),
        status({GPU: 8}),
        status({GPU: 3}, "node-2"),
        status({}),
        status({GPU: 8}),
    ):
        trace.append(event)
    trace.append(status({GPU: 0}))

    assert trace.capacity_history("node-1", GPU) == (8, 0)


@given(st.lists(st.integers(min_value=0, max_value=3)))
def test_merged_values_have_no_equal_neighbours_and_keep_the_order(values: list[int]) -> None:
    result = merged(values)

    assert all(left != right for left, right in pairwise(result))
    assert merged(result) == result
    assert set(result) == set(values)
    remaining = iter(values)
    assert all(value in remaining for value in result)


def test_entry_has_node_time_and_real_time() -> None:
    node_s, real_s = 40.0, 7.0
    trace = Trace(now=lambda: node_s, real=lambda: real_s)

    node_s, real_s = 340.0, 7.25
    trace.append(StepStarted(1, "five minutes later"))

    assert (trace[0].time_s, trace[0].real_s) == (300.0, 0.25)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("story verdict", id="no JSON"),
        pytest.param("[]", id="list"),
        pytest.param("3", id="number"),
        pytest.param('{"kind": "node-rebooted", "node": "node-1"}', id="no place"),
        pytest.param('{"story": "a", "seq": 0, "time_s": 0, "real_s": 0, "kind": "no-such"}', id="kind"),
        pytest.param('{"story": "a", "seq": 0, "time_s": 0, "real_s": 0, "kind": "node-rebooted"}', id="no field"),
        pytest.param(
            '{"story": "a", "seq": 0, "time_s": 0, "real_s": 0, "kind": "node-rebooted", "node": 3}', id="field"
        ),
        pytest.param(
            '{"story": "a", "seq": {}, "time_s": 0, "real_s": 0, "kind": "disk-freed", "node": "n"}', id="seq"
        ),
        *(
            pytest.param(
                f'{{"story": "a", "seq": 0, "time_s": {number}, "real_s": 0, "kind": "disk-freed", "node": "n"}}',
                id=f"time that is {number[:9]}",
            )
            for number in ("Infinity", "NaN", "1e999", "9" * 400)
        ),
        pytest.param(
            '{"story": "a", "seq": Infinity, "time_s": 0, "real_s": 0, "kind": "disk-freed", "node": "n"}',
            id="seq that is Infinity",
        ),
    ],
)
def test_line_that_is_none_of_a_trace_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"^no line of a trace: "):
        next(read_lines([line]))


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.kind)
@given(data=st.data())
@settings(max_examples=10)
def test_each_event_is_read_as_it_was_written(kind: type[Event], data: st.DataObject) -> None:
    # NaN is unlike itself, and no amount or time.
    fields = {name: st.floats(allow_nan=False) for name, type_ in get_type_hints(kind).items() if type_ is float}
    response = {"response": st.just({"envs": {"A": "1"}})} if kind is DevicesAllocated else {}
    event = data.draw(st.builds(kind, **fields, **response))
    stream = io.StringIO()

    write_lines([Entry(3, 1.5, event, 0.25)], stream, "a-story")

    assert list(read_lines([stream.getvalue()])) == [("a-story", Entry(3, 1.5, event, 0.25))]


def test_name_that_is_not_utf_8_can_be_written_to_a_file_and_read_again() -> None:
    trace = Trace(now=lambda: 0.0)
    trace.append(FaultInjected("node-1", os.fsdecode(b"\xff"), 79))
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    write_lines(trace, stream, "a-story")
    stream.seek(0)

    assert list(read_lines(stream)) == [("a-story", event) for event in trace]


def test_written_lines_are_read_again() -> None:
    trace = Trace(now=lambda: 0.0)
    trace.append(FaultInjected("node-1", "GPU-1", 79))
    trace.append(PodStatusUpdated("mine", "Pending", "", "zwölf\nlines"))
    stream = io.StringIO()

    write_lines(trace, stream, "a-story")

    assert list(read_lines(stream.getvalue().splitlines())) == [("a-story", event) for event in trace]
