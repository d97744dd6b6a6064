"""What a story expects of a plugin's process and messages, and of its connection: from a view and a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scenarios.evaluation.evaluation import evaluate
from scenarios.evaluation.mismatch import shown
from scenarios.story.expectations import NodeExpectation, PluginExpectation
from scenarios.trace.events import PluginMeasured
from scenarios.trace.snapshot import NodeView, PluginState, PluginView, Snapshot
from scenarios.trace.trace import Event, Trace
from simkubelet.model.events import (
    DevicesListed,
    KubeletStopped,
    PluginDisconnected,
    PluginRegistered,
)
from tests.support.stories import seen_of

NODE, RESOURCE = "node-1", "example.com/gpu"
VIEW = PluginView("p", NODE, PluginState.RUNNING, 0, 1)
REGISTERED = PluginRegistered(NODE, RESOURCE, "p.sock")
GONE = PluginDisconnected(NODE, RESOURCE)
STOPPED = KubeletStopped(NODE)


def listed(*ids: str, unhealthy: Sequence[str] = ()) -> DevicesListed:
    return DevicesListed(NODE, RESOURCE, ids, tuple(unhealthy))


def measured(open_files: int, threads: int = 1, memory_mib: int = 10, cpu_s: float = 0.5) -> PluginMeasured:
    return PluginMeasured("p", NODE, open_files, threads, memory_mib << 20, cpu_s)


def traced(*events: Event) -> Trace:
    trace = Trace()
    for event in events:
        trace.append(event)
    return trace


def of_plugin(wanted: dict[str, Any], view: PluginView = VIEW, *events: Event) -> list[str]:
    expectation = PluginExpectation.model_validate({"plugin": "p", **wanted})
    found = evaluate(expectation, Snapshot({}, {}, (view,)), traced(*events))
    return [f"{one.expected}; {one.actual}" for one in found]


def of_node(wanted: dict[str, Any], *events: Event) -> list[str]:
    expectation = NodeExpectation.model_validate({"node": NODE, **wanted})
    found = evaluate(expectation, Snapshot({NODE: NodeView(NODE, "1.34", {}, {})}, {}, ()), traced(*events))
    return [f"{one.expected}; {one.actual}" for one in found]


@pytest.mark.parametrize(
    ("events", "connected"),
    [
        pytest.param([], "absent", id="nobody"),
        pytest.param([REGISTERED], "absent", id="no list yet"),
        pytest.param([REGISTERED, listed("a", "b", unhealthy=["c"])], 2, id="healthy devices"),
        pytest.param([REGISTERED, listed("a"), GONE], "absent", id="stream ended"),
        pytest.param([REGISTERED, listed("a"), STOPPED], "absent", id="kubelet is gone"),
        pytest.param([REGISTERED, listed("a"), STOPPED, GONE, REGISTERED, listed("a", "b")], 2, id="new kubelet"),
        pytest.param([REGISTERED, listed("a"), REGISTERED, listed("a", "b"), GONE], 2, id="older instance goes"),
        pytest.param([listed("a", "a")], 1, id="id listed twice"),
    ],
)
def test_connection_is_that_to_the_kubelet_that_runs(events: list[Event], connected: int | str) -> None:
    assert of_node({"connected": {RESOURCE: connected}}, *events) == []
    assert of_node({"connected": {RESOURCE: 7}}, *events) == [f"7; {connected}"]


@pytest.mark.parametrize(
    ("events", "are_same"),
    [
        pytest.param([], False, id="no list"),
        pytest.param([listed("a", "b"), listed("b", unhealthy=["a"])], True, id="other health"),
        pytest.param([listed("a"), listed("b"), listed("a")], True, id="in between others"),
        pytest.param([listed("a"), listed("b")], False, id="others"),
    ],
)
def test_devices_are_compared_by_their_ids(events: list[Event], are_same: bool) -> None:
    assert (of_node({"sameDevices": [RESOURCE]}, *events) == []) is are_same


@pytest.mark.parametrize(
    ("wanted", "events", "differences"),
    [
        pytest.param({"openFiles": 2, "threads": 0}, [measured(5), measured(7)], [], id="within"),
        pytest.param(
            {"openFiles": 1, "memoryMib": 3},
            [measured(5), measured(6, memory_mib=99), measured(7, memory_mib=20)],
            ["at most 1 more; 5, then 7", "at most 3 MiB more; 10 MiB, then 20 MiB"],
            id="first and last",
        ),
        pytest.param({"cpu": "1s"}, [measured(5), measured(5, cpu_s=1.5)], [], id="CPU time within"),
        pytest.param({"cpu": "1s"}, [measured(5), measured(5, cpu_s=2.0)], ["at most 1s more; 1.50s more"], id="CPU"),
        pytest.param({"threads": 1}, [measured(5)], ["a plugin that was measured twice; measured 1 time"], id="once"),
    ],
)
def test_growth_is_since_the_first_measurement(
    wanted: dict[str, Any], events: list[Event], differences: list[str]
) -> None:
    assert of_plugin({"growth": wanted}, VIEW, *events) == differences


@pytest.mark.parametrize(
    ("wanted", "changes", "differences"),
    [
        pytest.param({"exitStatus": 0}, {}, ["0; has not ended"], id="runs"),
        pytest.param({"exitStatus": 0}, {"exit_status": -9}, ["0; -9"], id="killed"),
        pytest.param({"endsWithin": "5s"}, {}, ["5s; has not ended after SIGTERM"], id="no end"),
        pytest.param({"endsWithin": "5s"}, {"exit_s": 6.0}, ["5s; 6.00s"], id="late"),
        pytest.param({"endsWithin": "5s"}, {"exit_s": 5.0}, [], id="in time"),
        pytest.param({"mostCalls": {"Register": 2}}, {"calls": {"Register": 2}}, [], id="most calls"),
        pytest.param({"mostCalls": {"Register": 2}}, {"calls": {"Register": 3}}, ["at most 2; 3"], id="too many calls"),
        pytest.param({"sockets": 1}, {"sockets": ("a", "b")}, ["1; a, b"], id="sockets"),
        pytest.param({"sockets": 0}, {}, [], id="no sockets"),
        pytest.param(
            {"options": {"preStart": True, "preferredAllocation": False}},
            {"options": ("preferredAllocation",)},
            ["true; false", "false; true"],
            id="options",
        ),
        pytest.param({"contract": ["version"]}, {"breaches": {"endpoint": ("x",)}}, [], id="another rule"),
        pytest.param(
            {"contract": ["endpoint", "version"]},
            {"breaches": {"version": ("one", "two")}},
            [
                "version: a plugin registers with the version `v1beta1`; one",
                "version: a plugin registers with the version `v1beta1`; two",
            ],
            id="rule broken twice",
        ),
    ],
)
def test_process_and_messages(wanted: dict[str, Any], changes: dict[str, Any], differences: list[str]) -> None:
    assert of_plugin(wanted, replace(VIEW, **changes)) == differences


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"state": "waiting", "restarts": 2, "registrations": 3}, [], id="agrees"),
        pytest.param({"state": "running"}, ["waiting"], id="state"),
        pytest.param({"restarts": 0, "registrations": 0}, ["2", "3"], id="zero is expected, too"),
    ],
)
def test_plugin(frames: Any, wanted: dict[str, object], seen: list[str]) -> None:
    snapshot = frames.frame(plugin=frames.plugin(PluginState.WAITING, 2, 3))

    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", **wanted) == seen


def test_calls_and_refusal_of_a_plugin(frames: Any) -> None:
    snapshot = frames.frame(plugin=replace(frames.plugin(), refusal="no", calls={"Allocate": 2}))

    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", calls={"Allocate": 2, "ListAndWatch": 0}) == []
    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", calls={"PreStartContainer": 1}) == ["0"]
    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", refusal="") == ["no"]


def test_calls_of_a_plugins_process_in_order_and_its_connections(frames: Any) -> None:
    log = ("GetDevicePluginOptions", "ListAndWatch")
    snapshot = frames.frame(plugin=replace(frames.plugin(), call_log=log, connections=2))

    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", callLog=log, connections=2) == []
    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", callLog=log[::-1], connections=0) == [
        "2",
        "[GetDevicePluginOptions, ListAndWatch]",
    ]
    assert seen_of(PluginExpectation, frames.frame(), plugin="nvidia", callLog=[]) == []
    assert seen_of(PluginExpectation, snapshot, plugin="nvidia", callLog=[]) == [shown(log)]
