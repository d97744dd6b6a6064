"""What a story expects of a pod and its containers: from a snapshot and a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scenarios.evaluation.evaluation import evaluate
from scenarios.story.expectations import PodExpectation
from scenarios.trace.snapshot import PodEvent, Snapshot
from scenarios.trace.trace import Trace
from simkubelet.devices.pod_devices import DeviceNode, DeviceRunOptions, Mount
from simkubelet.model.events import DevicesAllocated
from tests.support.stories import seen_of

GPU = "nvidia.com/gpu"
PENDING = PodEvent("Warning", "FailedScheduling", "0/1 nodes are available.")


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


def test_environment_outlives_what_the_kubelet_knows(frames: Any) -> None:
    snapshot = frames.frame(frames.pod(ids=(), env={"DEVICES": "a"}))

    assert seen_of(PodExpectation, snapshot, pod="trainer", env={"DEVICES": "a"}) == []
    assert seen_of(PodExpectation, snapshot, pod="trainer", env={"DEVICES": "b"}) == ["a"]
    assert seen_of(PodExpectation, snapshot, pod="trainer", env={"OTHER": "a"}) == ["no container holds devices"]
