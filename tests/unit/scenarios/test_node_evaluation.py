"""What a story expects of a node, and what it may say of nodes and pods alike: from a snapshot and a trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scenarios.evaluation.evaluation import evaluate
from scenarios.evaluation.mismatch import Mismatch
from scenarios.story.expectations import NodeExpectation, PluginExpectation, PodExpectation
from scenarios.trace.snapshot import CheckpointView, KubeletState, Snapshot
from scenarios.trace.trace import Trace
from simkubelet.model.events import DevicesListed, NodeStatusUpdated
from tests.support.stories import seen_of

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("capacity", "wanted", "seen"),
    [
        pytest.param(8, 8, [], id="agrees"),
        pytest.param(0, 8, ["0"], id="differs"),
        pytest.param(None, 0, ["absent"], id="absent is not 0"),
        pytest.param(None, "absent", [], id="absent as expected"),
        pytest.param(0, "absent", ["0"], id="0 is not absent"),
    ],
)
def test_capacity(frames: Any, capacity: int | None, wanted: object, seen: list[str]) -> None:
    snapshot = frames.frame(node=frames.node(capacity))

    assert seen_of(NodeExpectation, snapshot, node="node-1", capacity={GPU: wanted}) == seen


def test_every_difference_of_a_node_is_reported_with_its_path(frames: Any) -> None:
    trace = Trace()
    for amount in (8, 8, 0, 8):
        trace.append(NodeStatusUpdated("node-1", {GPU: amount}, {}))
    wanted = NodeExpectation.model_validate(
        {"node": "node-1", "capacity": {GPU: 7}, "allocatable": {"r": 1}, "capacityHistory": {GPU: [8]}}
    )

    found = evaluate(wanted, frames.frame(), trace)

    assert found == (
        Mismatch(("capacity", GPU), "7", "8"),
        Mismatch(("allocatable", "r"), "1", "absent"),
        Mismatch(("capacityHistory", GPU), "[8]", "[8, 0, 8]"),
    )


@pytest.mark.parametrize(
    ("published", "wanted", "agrees"),
    [
        ((8, 0, 8), [8, "0?", 8], True),
        ((8,), [8, "0?", 8], True),
        ((8, 4, 8), [8, "0?", 8], False),
        ((8, 0), [8, "0?", 8], False),
        ((8, 0, 4, 8), [8, "0?", "4?", 8], True),
        ((8, 4, 0, 8), [8, "0?", "4?", 8], False),
        ((8,), [8, 0, 8], False),
    ],
)
def test_a_capacity_that_may_be_passed_over(
    frames: Any, published: tuple[int, ...], wanted: list[object], agrees: bool
) -> None:
    trace = Trace()
    for amount in published:
        trace.append(NodeStatusUpdated("node-1", {GPU: amount}, {}))

    seen = seen_of(NodeExpectation, frames.frame(), trace, node="node-1", capacityHistory={GPU: wanted})

    assert bool(seen) is not agrees


def test_pods_count_by_node_and_phase(frames: Any) -> None:
    elsewhere = replace(frames.pod("c", phase="Failed"), node="node-2")
    here = [replace(frames.pod(name, phase="Failed"), node="node-1") for name in "ab"]
    snapshot = frames.frame(*here, elsewhere, frames.pod("d"), frames.pod("e", phase="Pending"))

    assert seen_of(NodeExpectation, snapshot, node="node-1", pods={"Failed": 2, "Running": 1, "Pending": 0}) == []
    assert seen_of(NodeExpectation, snapshot, node="node-1", pods={"Failed": 3, "Succeeded": 1}) == ["2", "0"]


def test_lists_count_by_node_and_resource(frames: Any) -> None:
    trace = Trace()
    for node, resource in (("node-1", GPU), ("node-1", "r"), ("node-2", GPU), ("node-1", GPU)):
        trace.append(DevicesListed(node, resource, (), ()))

    assert seen_of(NodeExpectation, frames.frame(), trace, node="node-1", lists={GPU: 2, "r": 1, "none": 0}) == []
    assert seen_of(NodeExpectation, frames.frame(), trace, node="node-1", lists={GPU: 3}) == ["2"]


def test_devices_that_pods_may_get_are_those_of_the_pod_resources_api(frames: Any) -> None:
    snapshot = frames.frame(node=replace(frames.node(), pod_resources={GPU: {"gpu-0": (0,), "gpu-1": ()}}))

    for agreed in (2, ["gpu-1", "gpu-0"], {"gpu-1": [], "gpu-0": [0]}):
        assert seen_of(NodeExpectation, snapshot, node="node-1", podResources={GPU: agreed, "none": 0}) == []
    assert seen_of(NodeExpectation, snapshot, node="node-1", podResources={GPU: 8, "none": 1}) == ["2", "0"]
    assert seen_of(NodeExpectation, snapshot, node="node-1", podResources={GPU: ["gpu-0"]}) == ["[gpu-0, gpu-1]"]
    assert seen_of(NodeExpectation, snapshot, node="node-1", podResources={GPU: {"gpu-0": [0], "gpu-1": [1]}}) == [
        "gpu-0: [0], gpu-1: []"
    ]


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"p": {GPU: ["a"]}, "q": "no q"}, [], id="agrees"),
        pytest.param({"p": {GPU: 2}}, ["1"], id="another number"),
        pytest.param({"p": "no p"}, [f"{GPU}: 1"], id="an answer instead of an error"),
        pytest.param({"q": {GPU: 1}}, ["no q"], id="an error instead of an answer"),
        pytest.param({"r": "no r"}, ["no answer"], id="no kubelet"),
    ],
)
def test_get_is_answered_with_devices_or_an_error(frames: Any, wanted: dict[str, Any], seen: list[str]) -> None:
    node = replace(frames.node(), pod_resources_get={"p": {GPU: {"a": ()}}, "q": "no q"})

    assert seen_of(NodeExpectation, frames.frame(node=node), node="node-1", podResourcesGet=wanted) == seen


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"pods": {"p": {"main": {GPU: ["b", "a"]}}, "q": "absent"}}, [], id="entries"),
        pytest.param({"registered": {GPU: 1, "gone": 0, "never": "absent"}}, [], id="registered"),
        pytest.param({"pods": {"p": {"main": {GPU: 1, "r": 1}}}}, ["2", "0"], id="other numbers"),
        pytest.param({"pods": {"p": {"init": {GPU: 1}}}}, ["0"], id="another container"),
        pytest.param({"pods": {"p": "absent"}}, [f"main: {{{GPU}: [a, b]}}"], id="an entry too many"),
        pytest.param({"pods": {"q": {"main": {GPU: 1}}}}, ["absent"], id="no entry"),
        pytest.param({"registered": {GPU: ["b"], "gone": "absent", "never": 0}}, ["[a]", "[]", "absent"], id="others"),
        pytest.param("absent", ["a checkpoint"], id="there"),
    ],
)
def test_checkpoint(frames: Any, wanted: object, seen: list[str]) -> None:
    content = CheckpointView({"p": {"main": {GPU: ("a", "b")}}}, {GPU: ("a",), "gone": ()})
    snapshot = frames.frame(node=replace(frames.node(), checkpoint=content))

    assert seen_of(NodeExpectation, snapshot, node="node-1", checkpoint=wanted) == seen


def test_checkpoint_that_is_none(frames: Any) -> None:
    absent = frames.frame()
    corrupt = frames.frame(node=replace(frames.node(), checkpoint="corrupt"))

    assert seen_of(NodeExpectation, absent, node="node-1", checkpoint="absent") == []
    assert seen_of(NodeExpectation, corrupt, node="node-1", checkpoint="corrupt") == []
    assert seen_of(NodeExpectation, corrupt, node="node-1", checkpoint="absent") == ["corrupt"]
    assert seen_of(NodeExpectation, absent, node="node-1", checkpoint={"registered": {GPU: 1}}) == ["absent"]


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"gpu": ["q", "p"], "gone": "absent"}, [], id="in any order"),
        pytest.param({"gpu": ["p"]}, ["[p, q]"], id="a pod too many"),
        pytest.param({"gpu": "absent"}, ["[p, q]"], id="a claim too many"),
        pytest.param({"gone": ["p"]}, ["absent"], id="no claim"),
    ],
)
def test_pods_that_use_claims(frames: Any, wanted: object, seen: list[str]) -> None:
    node = replace(frames.node(), claims={"gpu": ("p", "q")})

    assert seen_of(NodeExpectation, frames.frame(node=node), node="node-1", claims=wanted) == seen


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"a.example.com": 2, "b.example.com": 0, "c.example.com": "absent"}, [], id="as published"),
        pytest.param({"a.example.com": ["device-1", "device-0"]}, [], id="in any order"),
        pytest.param({"a.example.com": "absent"}, ["[device-0, device-1]"], id="a driver too many"),
        pytest.param({"c.example.com": 0}, ["absent"], id="no slice"),
    ],
)
def test_devices_that_drivers_publish(frames: Any, wanted: object, seen: list[str]) -> None:
    node = replace(frames.node(), resource_slices={"a.example.com": ("device-0", "device-1"), "b.example.com": ()})

    assert seen_of(NodeExpectation, frames.frame(node=node), node="node-1", resourceSlices=wanted) == seen


def test_nobody_of_that_name_is_a_mismatch_not_an_error(frames: Any) -> None:
    empty = Snapshot({}, {}, {})

    assert seen_of(NodeExpectation, empty, node="n", capacity={GPU: 1}) == ["no such node"]
    assert seen_of(PodExpectation, empty, pod="p", phase="Running") == ["no such pod"]
    assert seen_of(PluginExpectation, empty, plugin="p", restarts=0) == ["no such plugin"]


@pytest.mark.parametrize(
    ("state", "panic", "wanted", "seen"),
    [
        pytest.param(KubeletState.RUNNING, "", {"kubelet": "running"}, [], id="runs"),
        pytest.param(KubeletState.RUNNING, "", {"kubelet": "crashed"}, ["running"], id="has not crashed"),
        pytest.param(KubeletState.CRASHED, "nil pointer [x]", {"panic": "nil pointer"}, [], id="panic begins so"),
        pytest.param(KubeletState.CRASHED, "nil pointer", {"panic": "index"}, ["nil pointer"], id="another panic"),
        pytest.param(KubeletState.STOPPED, "", {"kubelet": "crashed", "panic": "x"}, ["stopped", "''"], id="stopped"),
    ],
)
def test_kubelet_of_a_node(
    frames: Any, state: KubeletState, panic: str, wanted: dict[str, str], seen: list[str]
) -> None:
    snapshot = frames.frame(node=replace(frames.node(), kubelet=state, panic=panic))

    assert seen_of(NodeExpectation, snapshot, node="node-1", **wanted) == seen


def test_labels_and_annotations_of_a_node_and_a_pod(frames: Any) -> None:
    node = replace(frames.node(), labels={"rack": "7"}, annotations={"seen": ""})
    snapshot = frames.frame(replace(frames.pod(), labels={"app": "x"}), node=node)

    assert seen_of(NodeExpectation, snapshot, node="node-1", labels={"rack": "7", "zone": "absent"}) == []
    assert seen_of(NodeExpectation, snapshot, node="node-1", labels={"rack": "8", "zone": "a"}) == ["7", "absent"]
    assert seen_of(NodeExpectation, snapshot, node="node-1", annotations={"seen": "", "x": "y"}) == ["absent"]
    assert seen_of(PodExpectation, snapshot, pod="trainer", labels={"app": "x", "a": "absent"}) == []
    assert seen_of(PodExpectation, snapshot, pod="trainer", labels={"app": "absent"}) == ["x"]
