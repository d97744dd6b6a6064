from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scenarios.evaluation.evaluation import evaluate
from scenarios.evaluation.mismatch import Mismatch, shown
from scenarios.story.expectations import NodeExpectation, PluginExpectation, PodExpectation
from scenarios.trace.snapshot import CheckpointView, KubeletState, PluginState, PodEvent, Snapshot
from scenarios.trace.trace import Trace
from simkubelet.devices.pod_devices import DeviceNode, DeviceRunOptions, Mount
from simkubelet.model.events import DevicesAllocated, DevicesListed, NodeStatusUpdated

GPU = "nvidia.com/gpu"
PENDING = PodEvent("Warning", "FailedScheduling", "0/1 nodes are available.")


def seen_of(kind: type, snapshot: Snapshot, trace: Trace | None = None, /, **wanted: Any) -> list[str]:
    """What was seen instead, for each mismatch."""
    expectation = kind.model_validate(wanted)
    return [mismatch.actual for mismatch in evaluate(expectation, snapshot, trace or Trace())]


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


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no"}, [], id="agrees"),
        pytest.param({"phase": "Running"}, ["Failed"], id="phase"),
        pytest.param({"reason": ""}, ["UnexpectedAdmissionError"], id="no reason"),
        pytest.param({"devices": {GPU: 2}}, [], id="devices"),
        pytest.param({"devices": {GPU: ["b", "a"]}}, [], id="these devices"),
        pytest.param({"devices": {GPU: ["a", "c"]}}, ["[a, b]"], id="other devices"),
        pytest.param({"containers": {"main": {"devices": {GPU: ["a", "b"], "r": 0}}}}, [], id="of a container"),
        pytest.param({"containers": {"main": {"devices": {GPU: 1}}, "other": {"devices": {GPU: 1}}}}, ["2", "0"]),
        pytest.param({"devices": {GPU: 3, "other": 0}}, ["2"], id="none of a resource is 0"),
        pytest.param({"gone": False}, [], id="is there"),
        pytest.param({"gone": True}, ["a pod in phase Failed"], id="should be gone"),
    ],
)
def test_pod(frames: Any, wanted: dict[str, object], seen: list[str]) -> None:
    pod = frames.pod(phase="Failed", reason="UnexpectedAdmissionError", message="no", ids=("a", "b"))

    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", **wanted) == seen


def test_gone_pod_is_gone(frames: Any) -> None:
    assert seen_of(PodExpectation, frames.frame(), pod="trainer", gone=True) == []


@pytest.mark.parametrize(
    ("given", "held", "seen"),
    [
        pytest.param(("a", "b"), ("a", "b"), [], id="the same"),
        pytest.param(("b", "a"), ("a", "b"), [], id="order does not matter"),
        pytest.param(("a", "b"), ("a", "c"), [f"{GPU}: [a, c]"], id="others"),
        pytest.param(("a", "b"), ("a",), [f"{GPU}: [a]"], id="fewer"),
        pytest.param(("a",), (), ["none"], id="none left"),
        pytest.param((), ("a",), ["none so far"], id="never given any"),
    ],
)
def test_keeps_devices(frames: Any, given: tuple[str, ...], held: tuple[str, ...], seen: list[str]) -> None:
    trace = Trace()
    if given:
        trace.append(DevicesAllocated("node-1", "trainer", "main", GPU, given))
    snapshot = frames.frame(frames.pod(ids=held))

    assert seen_of(PodExpectation, snapshot, trace, pod="trainer", keepsDevices=True) == seen


@pytest.mark.parametrize(
    ("own", "others", "seen"),
    [
        pytest.param(("a",), ("b",), [], id="different"),
        pytest.param(("a", "b"), ("b", "c"), ["both hold b"], id="one in common"),
        pytest.param((), ("b",), ["trainer holds none"], id="own none yet"),
        pytest.param(("a",), (), ["other holds none"], id="the other none yet"),
    ],
)
def test_shares_no_device(frames: Any, own: tuple[str, ...], others: tuple[str, ...], seen: list[str]) -> None:
    snapshot = frames.frame(frames.pod(ids=own), frames.pod("other", ids=others))

    assert seen_of(PodExpectation, snapshot, pod="trainer", sharesNoDeviceWith=["other"]) == seen


@pytest.mark.parametrize(
    ("ids", "value", "template", "seen"),
    [
        pytest.param(("a",), "a", "{devices}", [], id="one"),
        pytest.param(("a", "b"), "b,a", "{devices}", [], id="in any order"),
        pytest.param(("a", "b"), "x=b,a;", "x={devices};", [], id="inside other text"),
        pytest.param(("a", "b"), "a", "{devices}", ["a"], id="one is missing"),
        pytest.param(("a",), "a,a", "{devices}", ["a,a"], id="one twice"),
        pytest.param(("a",), "xa", "{devices}", ["xa"], id="something before"),
        pytest.param(("a",), "a", "", ["a"], id="should be empty"),
        pytest.param(("a",), "{other}", "{other}", [], id="other braces are text"),
        pytest.param(("a",), None, "{devices}", ["absent"], id="not set"),
        pytest.param(("a",), None, "absent", [], id="absent as expected"),
        pytest.param(("a",), "a", "absent", ["a"], id="should be absent"),
        pytest.param((), None, "{devices}", ["no container holds devices"], id="no devices"),
    ],
)
def test_env(frames: Any, ids: tuple[str, ...], value: str | None, template: str, seen: list[str]) -> None:
    pod = frames.pod(ids=ids, env={} if value is None else {"V": value})

    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", env={"V": template}) == seen


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        pytest.param({"type": "Warning", "reason": "FailedScheduling"}, [], id="agrees"),
        pytest.param({"message": PENDING.message}, [], id="message alone"),
        pytest.param({"reason": "Other"}, ["reason: FailedScheduling"], id="differs"),
        pytest.param(
            {"reason": "FailedScheduling", "message": "x"},
            [f"reason: FailedScheduling, message: {PENDING.message}"],
            id="the event shown is the likest",
        ),
    ],
)
def test_event(frames: Any, event: dict[str, str], seen: list[str]) -> None:
    pod = frames.pod(phase="Pending", events=[PENDING, PodEvent("Normal", "FailedScheduling", "x y")][:1])

    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", event=event) == seen


def test_pod_without_events_says_so(frames: Any) -> None:
    snapshot = frames.frame(frames.pod())

    assert seen_of(PodExpectation, snapshot, pod="trainer", event={"reason": "x"}) == ["no event"]


@pytest.mark.parametrize(
    ("kubernetes", "text"),
    [("1.26", "old"), ("1.28", "old"), ("1.29", "middle"), ("1.33", "middle"), ("1.34", "new"), ("1.35", "new")],
)
def test_message_is_that_of_the_highest_version_not_above_the_nodes(
    frames: Any, kubernetes: str, text: str, known: object
) -> None:
    pod = frames.pod(phase="Pending", events=[PodEvent("Warning", "R", text)])
    snapshot = frames.frame(pod, node=frames.node(kubernetes=kubernetes))
    by_version = {"1.34": "new", "1.9": "old", "1.29": "middle"}

    assert seen_of(PodExpectation, snapshot, pod="trainer", event={"message": by_version}) == []


def test_version_older_than_all_messages_is_a_mismatch(frames: Any) -> None:
    snapshot = frames.frame(frames.pod(events=[PENDING]), node=frames.node(kubernetes="1.26"))
    wanted = PodExpectation.model_validate({"pod": "trainer", "event": {"message": {"1.34": "new"}}})

    (mismatch,) = evaluate(wanted, snapshot, Trace())

    assert mismatch.expected == "message: a text for Kubernetes 1.26"


def test_pod_on_a_node_is_spoken_of_in_that_nodes_version(frames: Any, world: Callable[..., object]) -> None:
    pod = frames.pod(phase="Running", events=[PodEvent("Warning", "R", "old")])
    old = frames.node(kubernetes="1.26")
    snapshot = Snapshot({"first": frames.node(kubernetes="1.35"), "node-1": old}, {"trainer": pod}, {})

    assert seen_of(PodExpectation, snapshot, pod="trainer", event={"message": {"1.26": "old", "1.34": "new"}}) == []


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


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"health": {GPU: {"0": "Unhealthy", "1": "absent"}}}, [], id="health as reported"),
        pytest.param({"health": {GPU: {"0": "Healthy"}, "r": {"0": "Healthy"}}}, ["Unhealthy", "absent"], id="health"),
        pytest.param({"podResources": {GPU: 1, "r": 0}}, [], id="listed"),
        pytest.param({"podResources": {GPU: 2}}, ["1"], id="another number"),
        pytest.param({"podResources": "absent"}, [f"{GPU}: 1"], id="listed after all"),
        pytest.param({"podResources": {GPU: {"0": [1]}}}, [], id="listed with its node"),
        pytest.param({"podResources": {GPU: {"0": []}}}, ["0: [1]"], id="another node"),
        pytest.param(
            {"containers": {"main": {"podResources": {GPU: ["0"]}}, "init": {"podResources": "absent"}}},
            [],
            id="listed containers",
        ),
        pytest.param(
            {"containers": {"main": {"podResources": "absent"}, "init": {"podResources": {GPU: 0}}}},
            [f"{GPU}: 1", "absent"],
            id="other containers",
        ),
        pytest.param({"restarts": 1}, ["3"], id="restarts"),
    ],
)
def test_node_reports_a_pod(frames: Any, wanted: dict[str, Any], seen: list[str]) -> None:
    listed = {"main": {GPU: {"0": (1,)}}}
    pod = replace(frames.pod(), restarts=3, health={GPU: {"0": "Unhealthy"}}, pod_resources=listed)

    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", **wanted) == seen


def test_pod_that_is_not_listed_is_absent_not_without_devices(frames: Any) -> None:
    snapshot = frames.frame(frames.pod())

    assert seen_of(PodExpectation, snapshot, pod="trainer", podResources="absent") == []
    assert seen_of(PodExpectation, snapshot, pod="trainer", podResources={GPU: 0}) == ["absent"]


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ({"/dev/a0": "/dev/a2"}, []),
        ({"/dev/a0": "/dev/a0"}, ["/dev/a0: /dev/a2"]),
        ({"/dev/a0": "/dev/a2", "/dev/a1": "/dev/a3"}, ["/dev/a0: /dev/a2"]),
        ({}, ["/dev/a0: /dev/a2"]),
        ({"/dev/a0": {"hostPath": "/dev/a2", "permissions": "rw"}}, []),
        ({"/dev/a0": {"permissions": "rw"}}, []),
        ({"/dev/a0": {"permissions": "r"}}, ["/dev/a0: {permissions: rw}"]),
        ({"/dev/a0": {"hostPath": "/dev/a2", "permissions": "m"}}, ["/dev/a0: {hostPath: /dev/a2, permissions: rw}"]),
    ],
)
def test_device_nodes_are_compared_as_a_whole(frames: Any, wanted: dict[str, Any], seen: list[str]) -> None:
    options = DeviceRunOptions(devices=(DeviceNode("/dev/a2", "/dev/a0", "rw"),))
    pod = replace(frames.pod(), options={"main": options})

    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", deviceNodes=wanted) == seen
    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", containers={"main": {"deviceNodes": wanted}}) == (
        seen
    )


ANSWERED = DeviceRunOptions(
    envs={"IDS": "b,a", "MODE": "x"},
    mounts=(Mount("/opt/lib", "/lib/x", read_only=True), Mount("/run/a.sock", "/run/a.sock", read_only=False)),
    devices=(DeviceNode("/dev/n/a", "/dev/a", "rw"), DeviceNode("/dev/n/b", "/dev/b", "rw")),
    annotations={"example.com/ids": "a,b"},
    cdi_devices=("example.com/gpu=b", "example.com/gpu=a"),
)


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        pytest.param({"env": {"IDS": "{devices}", "OTHER": "absent"}}, [], id="env"),
        pytest.param({"env": {"MODE": "y", "OTHER": "z"}}, ["x", "absent"], id="other env"),
        pytest.param({"annotations": {"example.com/ids": "{devices}", "no": "absent"}}, [], id="annotations"),
        pytest.param({"annotations": {"example.com/ids": "a"}}, ["a,b"], id="other annotation"),
        pytest.param({"annotations": {"example.com/*": "{devices}", "no*": "absent"}}, [], id="how a name begins"),
        pytest.param({"annotations": {"example.com/*": "absent", "no*": "a"}}, ["a,b", "absent"], id="no such name"),
        pytest.param({"mounts": {"/lib/x": "/opt/lib", "/run/a.sock": {"readOnly": False}}}, [], id="mounts"),
        pytest.param(
            {"mounts": {"/lib/x": {"readOnly": False}}},
            ["/lib/x: {readOnly: true}, /run/a.sock: /run/a.sock"],
            id="other mounts",
        ),
        pytest.param({"mounts": {}}, ["/lib/x: /opt/lib, /run/a.sock: /run/a.sock"], id="no mounts"),
        pytest.param({"deviceNodes": {"/dev/{device}": "/dev/n/{device}"}}, [], id="a node for each device"),
        pytest.param(
            {"deviceNodes": {"/dev/{device}": {"hostPath": "/dev/n/{device}", "permissions": "r"}}},
            ["/dev/a: {hostPath: /dev/n/a, permissions: rw}, /dev/b: {hostPath: /dev/n/b, permissions: rw}"],
            id="other permissions",
        ),
        pytest.param({"cdiDevices": ["example.com/gpu={device}"]}, [], id="a CDI device for each"),
        pytest.param({"cdiDevices": ["example.com/gpu=b", "example.com/gpu=a"]}, [], id="in any order"),
        pytest.param({"cdiDevices": []}, ["[example.com/gpu=a, example.com/gpu=b]"], id="no CDI device"),
    ],
)
def test_what_plugins_added_to_a_container(frames: Any, wanted: dict[str, Any], seen: list[str]) -> None:
    pod = replace(frames.pod(ids=("a", "b")), options={"main": ANSWERED})

    assert seen_of(PodExpectation, frames.frame(pod), pod="trainer", containers={"main": wanted}) == seen


@pytest.mark.parametrize(
    "wanted", [{"deviceNodes": {"/dev/{device}": "/dev/{device}"}}, {"cdiDevices": ["a={device}"]}]
)
def test_an_entry_for_each_device_is_not_met_without_devices(frames: Any, wanted: dict[str, Any]) -> None:
    snapshot = frames.frame(frames.pod(ids=()))

    assert len(seen_of(PodExpectation, snapshot, pod="trainer", containers={"main": wanted})) == 1


def test_labels_and_annotations_of_a_node_and_a_pod(frames: Any) -> None:
    node = replace(frames.node(), labels={"rack": "7"}, annotations={"seen": ""})
    snapshot = frames.frame(replace(frames.pod(), labels={"app": "x"}), node=node)

    assert seen_of(NodeExpectation, snapshot, node="node-1", labels={"rack": "7", "zone": "absent"}) == []
    assert seen_of(NodeExpectation, snapshot, node="node-1", labels={"rack": "8", "zone": "a"}) == ["7", "absent"]
    assert seen_of(NodeExpectation, snapshot, node="node-1", annotations={"seen": "", "x": "y"}) == ["absent"]
    assert seen_of(PodExpectation, snapshot, pod="trainer", labels={"app": "x", "a": "absent"}) == []
    assert seen_of(PodExpectation, snapshot, pod="trainer", labels={"app": "absent"}) == ["x"]


def test_environment_outlives_what_the_kubelet_knows(frames: Any) -> None:
    snapshot = frames.frame(frames.pod(ids=(), env={"DEVICES": "a"}))

    assert seen_of(PodExpectation, snapshot, pod="trainer", env={"DEVICES": "a"}) == []
    assert seen_of(PodExpectation, snapshot, pod="trainer", env={"DEVICES": "b"}) == ["a"]
    assert seen_of(PodExpectation, snapshot, pod="trainer", env={"OTHER": "a"}) == ["no container holds devices"]
