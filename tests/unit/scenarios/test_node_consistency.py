"""What must agree of a node, whatever happened: each rule with what breaks it, and what a real kubelet breaks, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scenarios.evaluation.consistency import inconsistencies
from scenarios.trace.events import CheckpointChanged, RuntimePaused, RuntimeResumed
from scenarios.trace.snapshot import CheckpointView, NodeView, PodView, Snapshot
from scenarios.trace.trace import Trace
from simkubelet.devices.pod_devices import DeviceRunOptions
from simkubelet.model.events import (
    DevicesListed,
    KubeletStarted,
    KubeletStopped,
    PluginDisconnected,
    PluginRegistered,
)

RED = "example.com/red"
STARTED = KubeletStarted("node-1", "v1.34.4")
REGISTERED = PluginRegistered("node-1", RED, "red.sock")
LISTED = DevicesListed("node-1", RED, ("red-0", "red-1"), ("red-2",))
ENDED = PluginDisconnected("node-1", RED)
HELD = {"main": {RED: ("red-0",)}}


def pod(name: str = "p1", held: Any = HELD, phase: str = "Running", **more: Any) -> PodView:
    listed = {name: {one: dict.fromkeys(ids, ()) for one, ids in resources.items()} for name, resources in held.items()}
    view = PodView(name, phase, "", "", "node-1", held, {}, (), pod_resources=listed)
    return replace(view, **more)


def checkpoint(*pods: PodView, healthy: Sequence[str] = ("red-0", "red-1")) -> CheckpointView:
    return CheckpointView({one.name: one.devices for one in pods}, {RED: tuple(healthy)})


def node(*pods: PodView, allocatable: int = 2, capacity: int = 3, **more: Any) -> NodeView:
    """A node as it has to be once the plugin has listed its devices and these pods hold theirs."""
    agrees: Mapping[str, Any] = {
        "pod_resources": {RED: {f"red-{index}": () for index in range(allocatable)}},
        "checkpoint": checkpoint(*pods),
    }
    return NodeView("node-1", "1.34", {RED: capacity}, {RED: allocatable}, **{**agrees, **more})


def found(view: NodeView, *pods: PodView, events: Sequence[Any] = (STARTED, REGISTERED, LISTED)) -> list[str]:
    trace = Trace(now=lambda: 0.0)
    for event in events:
        trace.append(event)
    snapshot = Snapshot({view.name: view}, {one.name: one for one in pods}, ())
    return [f"{one.expected}; {one.actual}" for one in inconsistencies(view, snapshot, trace)]


def test_node_on_which_all_agrees_is_consistent() -> None:
    assert found(node(pod()), pod()) == []


def test_device_held_by_two_pods_is_found() -> None:
    pods = pod("p1"), pod("p2")

    assert found(node(*pods), *pods) == [f"{RED} red-0 in one pod; in p1 and in p2"]


def test_device_of_two_resources_may_be_in_the_environment_of_two_pods() -> None:
    given = {"main": DeviceRunOptions(envs={"STUB_DEVICES": "red-0"})}
    pods = pod("p1", {}, options=given), pod("p2", {}, options=given)
    as_another = DevicesListed("node-1", "example.com/blue", ("red-0",), ())

    assert found(node(), *pods, events=(as_another, LISTED, KubeletStopped("node-1"))) == []


def test_device_in_the_environment_of_two_running_pods_is_found_while_the_kubelet_is_down() -> None:
    given = {"main": DeviceRunOptions(envs={"STUB_DEVICES": "red-1,red-0"})}
    pods = pod("p1", held={}, options=given), pod("p2", held={}, options=given)

    assert found(node(), *pods, events=[STARTED, REGISTERED, LISTED, KubeletStopped("node-1")]) == [
        "STUB_DEVICES red-0 in one pod; in p1 and in p2",
        "STUB_DEVICES red-1 in one pod; in p1 and in p2",
    ]


def test_devices_of_running_containers_are_given_again_after_a_lost_checkpoint() -> None:
    given = {"main": DeviceRunOptions(envs={"STUB_DEVICES": "red-0"})}
    pods = pod("p1", held={}, options=given), pod("p2", options=given)
    lost = [STARTED, REGISTERED, LISTED, CheckpointChanged("node-1", "removed")]

    assert found(node(pods[1]), *pods, events=lost) == []


@pytest.mark.parametrize(
    ("view", "complaint"),
    [
        pytest.param(node(allocatable=1), "2 allocatable, as listed; 1 published", id="allocatable"),
        pytest.param(node(capacity=2), "capacity of 3, as listed; 2 published", id="capacity"),
        pytest.param(
            node(pod_resources={RED: {"red-0": ()}}), "AllocatableResources of red-0, red-1; red-0", id="PodResources"
        ),
        pytest.param(
            node(checkpoint=checkpoint(healthy=["red-0"])), "registered with red-0, red-1; red-0", id="checkpoint"
        ),
    ],
)
def test_amount_that_is_not_the_listed_one_is_found(view: NodeView, complaint: str) -> None:
    assert any(one.endswith(complaint) for one in found(view))


def test_more_allocatable_than_capacity_is_found() -> None:
    view = node(allocatable=2, capacity=1)

    assert f"{RED}: at most its capacity of 1 allocatable; 2" in found(view)


def test_devices_of_a_plugin_that_has_gone_must_not_be_allocatable() -> None:
    gone = [STARTED, REGISTERED, LISTED, ENDED]

    assert found(node(allocatable=0), events=gone) == []
    assert f"{RED}: 0 allocatable, as listed; 2 published" in found(node(), events=gone)


def test_list_of_a_stream_that_outlived_a_newer_plugin_promises_nothing() -> None:
    orphaned = [STARTED, REGISTERED, REGISTERED, LISTED, ENDED, LISTED]

    assert found(node(allocatable=0, capacity=0), events=orphaned) == []
    assert found(node(), events=orphaned) == []
    again = found(node(allocatable=0), events=[*orphaned, REGISTERED, LISTED])
    assert f"{RED}: 2 allocatable, as listed; 0 published" in again


def test_pod_without_its_entry_in_the_checkpoint_is_found() -> None:
    assert found(node(), pod()) == [f"checkpoint: {{'{RED}': ('red-0',)}} in p1/main; nothing"]
    assert found(node(checkpoint="absent"), pod()) == ["a checkpoint with p1/main; absent"]


def test_rejected_pod_may_hold_what_the_checkpoint_does_not_have() -> None:
    assert found(node(), pod(phase="Failed")) == []


def test_running_pod_that_pod_resources_lists_otherwise_is_found() -> None:
    other = pod(pod_resources={"main": {RED: {"red-1": ()}}})
    without = pod(pod_resources=None)

    assert found(node(pod()), other) == [
        f"List of the PodResources API: {{'{RED}': ['red-0']}} in p1/main; {{'{RED}': ['red-1']}}"
    ]
    assert found(node(pod()), without) == ["pod p1 in List of the PodResources API; absent"]


def test_kubelet_whose_runtime_is_silent_publishes_nothing_that_has_to_agree() -> None:
    paused = [STARTED, REGISTERED, LISTED, RuntimePaused("node-1")]

    assert found(node(allocatable=0), events=paused) == []
    assert found(node(allocatable=0), events=[*paused, RuntimeResumed("node-1")]) != []
