"""What a real cluster's objects become: events of a trace and observations, in the story's names."""

import base64
import json
from typing import Any

import pytest

from scenarios.backends.kind.backend import reason_of_end
from scenarios.backends.kind.state import ClusterState
from scenarios.backends.world.pod_resources import PodResourcesAnswers
from scenarios.trace.snapshot import CheckpointView, KubeletState
from scenarios.trace.trace import Trace
from simkubelet.apis import deviceplugin as api
from simkubelet.devices.checkpoint import checksum
from simkubelet.devices.pod_devices import DeviceNode, DeviceRunOptions
from simkubelet.dra.checkpoint import encode
from simkubelet.dra.claim_info import ClaimInfo, PreparedDevice
from simkubelet.model.events import (
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    EventRecorded,
    NodeStatusUpdated,
)
from simkubelet.model.pod import PodUID
from simkubelet.model.version import version


@pytest.fixture
def trace() -> Trace:
    return Trace()


@pytest.fixture
def state(trace: Trace) -> ClusterState:
    return ClusterState({"dev-control-plane": "node-1"}, {"node-1": "1.34"}, trace)


def pod(name: str = "trainer", node: str | None = "dev-control-plane", **status: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "x"}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec, "status": status}


def container(restarts: int, state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": "main", "restartCount": restarts, "state": state, "lastState": last or {}}


def kinds(trace: Trace) -> list[str]:
    return [event.kind for event in trace]


def test_only_resources_of_plugins_make_a_node_status(state: ClusterState, trace: Trace) -> None:
    for gpus in ("2", "2", "1"):
        amounts = {"cpu": "8", "hugepages-2Mi": "0", "example.com/gpu": gpus}
        status = {"capacity": amounts, "allocatable": {**amounts, "cpu": gpus}}
        state.seen("node", {"metadata": {"name": "dev-control-plane"}, "status": status}, True)

    assert [event.capacity for event in trace.of(NodeStatusUpdated)] == [{"example.com/gpu": 2}, {"example.com/gpu": 1}]
    assert state.snapshot((), {}).nodes["node-1"].capacity == {"example.com/gpu": 1}


def test_pod_is_scheduled_once_and_its_status_recorded_when_it_changes(state: ClusterState, trace: Trace) -> None:
    state.seen("pod", pod(node=None, phase="Pending"), True)
    state.seen("pod", pod(phase="Pending"), True)
    state.seen("pod", pod(phase="Running"), True)
    state.seen("pod", pod(phase="Running"), True)
    state.seen("pod", pod(phase="Running"), False)

    assert kinds(trace) == ["pod-scheduled", "pod-status", "pod-removed"]
    assert not state.snapshot((), {}).pods


def test_a_pod_that_the_story_binds_was_scheduled_by_nobody(state: ClusterState, trace: Trace) -> None:
    state.bound.add("trainer")

    state.seen("pod", pod(phase="Pending"), True)

    assert not kinds(trace)


def test_lives_between_two_looks_are_reported_one_by_one(state: ClusterState, trace: Trace) -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    state.seen("pod", pod(phase="Running", containerStatuses=[container(0, {"running": {}})]), True)
    state.seen("pod", pod(phase="Running", containerStatuses=[container(2, {"running": {}}, ended)]), True)

    lives = [
        (one.kind, one.event.attempt) for one in trace if isinstance(one.event, ContainerStarted | ContainerExited)
    ]
    assert lives == [
        ("container-started", 0),
        ("container-exited", 0),
        ("container-started", 1),
        ("container-exited", 1),
        ("container-started", 2),
    ]
    assert state.snapshot((), {}).pods["trainer"].restarts == 2


def test_a_container_that_waits_for_its_first_start_has_no_life(state: ClusterState, trace: Trace) -> None:
    state.seen("pod", pod(phase="Pending", containerStatuses=[container(0, {"waiting": {}})]), True)

    assert kinds(trace) == ["pod-scheduled"]


def test_a_container_that_never_began_has_no_end(state: ClusterState, trace: Trace) -> None:
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}

    state.seen("pod", pod(containerStatuses=[container(0, unknown)]), True)
    assert kinds(trace) == ["pod-scheduled"]

    state.seen("pod", pod(containerStatuses=[container(0, {"running": {}})]), True)
    state.seen("pod", pod(containerStatuses=[container(0, unknown)]), True)
    assert kinds(trace) == ["pod-scheduled", "container-started", "container-exited"]


SCHEDULED = {
    "metadata": {"uid": "1"},
    "involvedObject": {"kind": "Pod", "name": "trainer", "uid": "uid-of-trainer"},
    "type": "Normal",
    "reason": "Scheduled",
    "message": "Successfully assigned default/trainer to dev-control-plane",
}


def messages(trace: Trace) -> list[str]:
    return [event.message for event in trace.of(EventRecorded)]


@pytest.mark.parametrize("told", [["pod", "event", "event"], ["event", "event", "pod"], ["event", "pod", "event"]])
def test_an_event_is_reported_once_in_the_storys_names_whichever_watch_is_quicker(
    state: ClusterState, trace: Trace, told: list[str]
) -> None:
    for kind in told:
        state.seen(kind, SCHEDULED if kind == "event" else pod(node=None), True)

    assert messages(trace) == ["Successfully assigned default/trainer to node-1"]


def test_an_event_about_a_static_pod_counts_after_its_mirror_is_gone(state: ClusterState, trace: Trace) -> None:
    mirror = pod("agent", phase="Running")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "uid-of-the-file"}
    state.seen("pod", mirror, True)
    state.seen("pod", mirror, False)
    about = SCHEDULED["involvedObject"]
    state.seen("event", {**SCHEDULED, "involvedObject": {**about, "name": "agent", "uid": "uid-of-the-file"}}, True)

    assert len(messages(trace)) == 1


def test_an_event_about_a_pod_of_an_earlier_story_is_none_of_this_one(state: ClusterState, trace: Trace) -> None:
    late = {**SCHEDULED, "involvedObject": {"kind": "Pod", "name": "trainer", "uid": "uid-of-its-namesake"}}

    state.seen("event", late, True)
    state.seen("pod", pod(node=None), True)

    assert messages(trace) == []


def test_an_event_about_no_certain_pod_is_none(state: ClusterState, trace: Trace) -> None:
    state.seen("pod", pod(node=None), True)
    state.seen("event", {**SCHEDULED, "involvedObject": {"kind": "Pod", "name": "trainer"}}, True)

    assert messages(trace) == []


def test_a_name_that_begins_like_another_nodes_is_told_apart(trace: Trace) -> None:
    names = {"dev-worker": "node-2", "dev-worker2": "node-3"}
    state = ClusterState(names, {"node-2": "1.34", "node-3": "1.34"}, trace)

    state.seen("pod", pod(node="dev-worker2", phase="Pending", message="on dev-worker2, not on dev-worker"), True)

    assert state.snapshot((), {}).pods["trainer"].node == "node-3"
    assert state.snapshot((), {}).pods["trainer"].message == "on node-3, not on node-2"


@pytest.mark.parametrize("pod_first", [True, False])
def test_a_checkpoint_tells_who_holds_what_whichever_comes_first(
    state: ClusterState, trace: Trace, pod_first: bool
) -> None:
    text = _checkpoint("uid-of-trainer", "gpu-0")
    if not pod_first:
        state.seen_checkpoint("node-1", text)
    state.seen("pod", pod(phase="Running"), True)
    if pod_first:
        state.seen_checkpoint("node-1", text)

    assert kinds(trace).count("devices-allocated") == 1
    assert state.snapshot((), {}).pods["trainer"].held() == {"example.com/gpu": ("gpu-0",)}


def test_what_a_plugin_gave_to_a_pod(state: ClusterState, trace: Trace) -> None:
    device = api.DeviceSpec(host_path="/dev/a2", container_path="/dev/a0", permissions="rw")
    response = api.ContainerAllocateResponse(envs={"DEVICES": "gpu-0"}, devices=[device])

    state.seen_checkpoint("node-1", _checkpoint("uid-of-trainer", "gpu-0", response.SerializeToString()))
    state.seen("pod", pod(phase="Running"), True)

    view = state.snapshot((), {}).pods["trainer"]
    given = DeviceRunOptions(envs={"DEVICES": "gpu-0"}, devices=(DeviceNode("/dev/a2", "/dev/a0", "rw"),))
    assert view.options == {"main": given}
    (told,) = [event.response for event in trace.of(DevicesAllocated)]
    node = {"container_path": "/dev/a0", "host_path": "/dev/a2", "permissions": "rw"}
    assert told == {"envs": {"DEVICES": "gpu-0"}, "devices": [node]}


def test_labels_and_annotations_of_a_node_go_by_the_storys_names(state: ClusterState) -> None:
    metadata = {"name": "dev-control-plane", "labels": {"host": "dev-control-plane"}, "annotations": {"a": "b"}}

    state.seen("node", {"metadata": metadata, "status": {}}, True)

    view = state.snapshot((), {}).nodes["node-1"]
    assert (view.labels, view.annotations) == ({"host": "node-1"}, {"a": "b"})


def test_a_mirror_holds_what_its_static_pod_holds_and_goes_by_the_storys_node(
    state: ClusterState, trace: Trace
) -> None:
    mirror = pod("agent-dev-control-plane", phase="Running")
    mirror["metadata"]["annotations"] = {
        "kubernetes.io/config.source": "file",
        "kubernetes.io/config.mirror": "uid-of-the-file",
    }

    state.seen_checkpoint("node-1", _checkpoint("uid-of-the-file", "gpu-0"))
    state.seen("pod", mirror, True)

    assert kinds(trace) == ["devices-allocated", "pod-status"]
    assert state.snapshot((), {}).pods["agent-node-1"].held() == {"example.com/gpu": ("gpu-0",)}


def test_containers_start_in_the_order_of_the_manifest(state: ClusterState, trace: Trace) -> None:
    running = {"restartCount": 0, "state": {"running": {}}}
    both = pod(containerStatuses=[{"name": "a", **running}, {"name": "b", **running}])
    both["spec"]["containers"] = [{"name": "b"}, {"name": "a"}]

    state.seen("pod", both, True)

    assert [event.container for event in trace.of(ContainerStarted)] == ["b", "a"]


def test_a_checkpoint_is_seen_as_the_file_says(state: ClusterState) -> None:
    def seen() -> object:
        return state.snapshot((), {}).nodes["node-1"].checkpoint

    assert seen() == "absent"

    state.seen("pod", pod(phase="Running"), True)
    state.seen_checkpoint("node-1", _checkpoint("uid-of-trainer", "gpu-0"))
    state.seen("pod", pod(phase="Running"), False)

    gone = {"trainer": {"main": {"example.com/gpu": ("gpu-0",)}}}
    assert seen() == CheckpointView(gone, {"example.com/gpu": ("gpu-0",)})

    state.seen_checkpoint("node-1", _checkpoint("uid-of-nobody", "gpu-1"))
    assert isinstance(view := seen(), CheckpointView)
    assert list(view.pods) == ["uid-of-nobody"]

    for text, word in (("", "corrupt"), ("{", "corrupt"), (None, "absent")):
        state.seen_checkpoint("node-1", text)
        assert seen() == word


def test_what_the_api_of_a_node_lists_is_of_its_pods(state: ClusterState) -> None:
    placed = {"example.com/gpu": {"gpu-0": [0]}}
    state.seen("pod", pod(phase="Running"), True)
    state.seen("pod", pod("agent-dev-control-plane", phase="Running"), True)
    state.seen("pod", pod("waits", node=None), True)
    told = PodResourcesAnswers(
        {"trainer": {"main": placed}, "agent-dev-control-plane": {}}, placed, {"other": "not found"}
    )

    snapshot = state.snapshot((), {"node-1": told})

    listed = {name: view.pod_resources for name, view in snapshot.pods.items()}
    assert listed == {"trainer": {"main": placed}, "agent-node-1": {}, "waits": None}
    assert snapshot.nodes["node-1"].pod_resources == placed
    assert snapshot.nodes["node-1"].pod_resources_get == {"other": "not found"}


def test_a_corrupt_checkpoint_holds_nothing(state: ClusterState) -> None:
    state.seen("pod", pod(phase="Running"), True)
    state.seen_checkpoint("node-1", _checkpoint("uid-of-trainer", "gpu-0"))

    state.seen_checkpoint("node-1", "{")

    assert state.snapshot((), {}).pods["trainer"].held() == {}


def test_a_panic_counts_once_and_a_new_kubelet_forgets_it(state: ClusterState, trace: Trace) -> None:
    state.panicked("node-1", "first line")
    state.panicked("node-1", "second line")

    assert state.snapshot((), {}).nodes["node-1"].kubelet is KubeletState.CRASHED
    assert state.snapshot((), {}).nodes["node-1"].panic == "first line"

    state.serves("node-1")

    assert kinds(trace) == ["kubelet-crashed", "kubelet-started"]
    assert state.snapshot((), {}).nodes["node-1"].panic == ""


def test_a_claims_cdi_devices_come_before_those_of_plugins(state: ClusterState) -> None:
    claimed = pod(phase="Running")
    claimed["metadata"]["namespace"] = "default"
    claimed["spec"] |= {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        "containers": [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}, {"name": "other"}],
    }
    claimed["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": "trainer-gpu-x"}]
    response = api.ContainerAllocateResponse(cdi_devices=[api.CDIDevice(name="plugin.com/gpu=1")])
    device = PreparedDevice("node", "device-0", cdi_ids=("example.com/claim=gpu",))
    info = ClaimInfo("u", "trainer-gpu-x", "default", {PodUID("uid-of-trainer"): None}, {"example.com": (device,)})

    state.seen("pod", claimed, True)
    state.seen_checkpoint("node-1", _checkpoint("uid-of-trainer", "gpu-0", response.SerializeToString()))
    before = state.snapshot((), {})
    state.seen_claims("node-1", encode([info], version("1.34")))
    snapshot = state.snapshot((), {})

    options = snapshot.pods["trainer"].options
    assert before.pods["trainer"].options["main"].cdi_devices == ("plugin.com/gpu=1",)
    assert options["main"].cdi_devices == ("example.com/claim=gpu", "plugin.com/gpu=1")
    assert options["other"].cdi_devices == ()
    assert snapshot.nodes["node-1"].claims == {"trainer-gpu-x": ("trainer",)}

    state.seen_claims("node-1", "garbage")
    assert state.snapshot((), {}).nodes["node-1"].claims == {}


def test_slices_are_those_of_the_storys_node(state: ClusterState) -> None:
    spec = {"driver": "dra.example.com", "nodeName": "dev-control-plane", "devices": [{"name": "device-0"}]}
    item = {"metadata": {"name": "devices", "uid": "u"}, "spec": spec}

    state.seen("slice", item, True)
    assert state.snapshot((), {}).nodes["node-1"].resource_slices == {"dra.example.com": ("device-0",)}

    state.seen("slice", item, False)
    assert state.snapshot((), {}).nodes["node-1"].resource_slices == {}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            "panic: runtime error: index out of range [3] with length 3 [recovered]",
            "runtime error: index out of range [3] with length 3",
        ),
        (
            r'E1127 05:50:36.4 7 run.go:72] "command failed" err="failed to run Kubelet: \x1b \"a\""',
            'failed to run Kubelet: \x1b "a"',
        ),
        ('I1127 05:50:36.4 7 kubelet.go:1] "SyncLoop ADD"', None),
    ],
)
def test_log_says_why_a_kubelet_ended(line: str, reason: str | None) -> None:
    assert reason_of_end(line) == reason


def _checkpoint(uid: str, device: str, response: bytes = b"") -> str:
    entry = {
        "PodUID": uid,
        "ContainerName": "main",
        "ResourceName": "example.com/gpu",
        "DeviceIDs": {"-1": [device]},
        "AllocResp": base64.b64encode(response).decode(),
    }
    data = {"PodDeviceEntries": [entry], "RegisteredDevices": {"example.com/gpu": [device]}}
    return json.dumps({"Data": data, "Checksum": checksum(data)})
