"""The cells of tables."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.api.endpoints.tables import human_duration, table_of
from simkubelet.cluster.api.registry.kinds import KINDS, kind_named
from simkubelet.cluster.objects.objects import JSON, WallTime
from simkubelet.model.clock import ManualClock


def cells(kind: str, obj: JSON) -> dict[str, Any]:
    """The cells of an object by column."""
    columns, ((row, _),) = table_of(kind_named(kind), [obj], WallTime(ManualClock()))
    return dict(zip((column["name"] for column in columns), row["cells"], strict=True))


def container(name: str = "main", **fields: Any) -> JSON:
    return {"name": name, "restartCount": 0, "ready": False, "state": {}, **fields}


def running(name: str = "main", **fields: Any) -> JSON:
    return container(name, **{"ready": True, "state": {"running": {}}, **fields})


def ended(code: int, reason: str = "", name: str = "main") -> JSON:
    return container(name, state={"terminated": {"exitCode": code, **({"reason": reason} if reason else {})}})


def waiting(reason: str, name: str = "main") -> JSON:
    return container(name, state={"waiting": {"reason": reason}})


def a_pod(status: JSON, init: tuple[JSON, ...] = (), **metadata: Any) -> JSON:
    names = [one["name"] for one in status.get("containerStatuses", ())] or ["main"]
    spec = {"containers": [{"name": name} for name in names], "initContainers": list(init)}
    return {"metadata": {"name": "p", **metadata}, "spec": spec, "status": status}


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        (a_pod({"phase": "Pending"}), "0/1", "Pending"),
        (a_pod({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}), "0/1", "ContainerCreating"),
        (a_pod({"phase": "Running", "containerStatuses": [running()]}), "1/1", "Running"),
        (a_pod({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}), "0/1", "CrashLoopBackOff"),
        (a_pod({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}), "0/1", "Completed"),
        (a_pod({"phase": "Failed", "containerStatuses": [ended(3, "Error")]}), "0/1", "Error"),
        (a_pod({"phase": "Failed", "containerStatuses": [ended(3)]}), "0/1", "ExitCode:3"),
        (a_pod({"phase": "Failed", "reason": "UnexpectedAdmissionError"}), "0/1", "UnexpectedAdmissionError"),
        (a_pod({"phase": "Running", "containerStatuses": [running()]}, deletionTimestamp="now"), "1/1", "Terminating"),
        (
            a_pod(
                {"phase": "Running", "containerStatuses": [ended(0, "Completed"), running("b")], "conditions": READY}
            ),
            "1/2",
            "Running",
        ),
        (
            a_pod({"phase": "Running", "containerStatuses": [ended(0, "Completed"), running("b")]}),
            "1/2",
            "NotReady",
        ),
        (
            a_pod({"phase": "Pending", "initContainerStatuses": [running("i")]}, ({"name": "i"}, {"name": "j"})),
            "0/1",
            "Init:0/2",
        ),
        (
            a_pod({"phase": "Pending", "initContainerStatuses": [ended(2, "Error", "i")]}, ({"name": "i"},)),
            "0/1",
            "Init:Error",
        ),
        (
            a_pod(
                {
                    "phase": "Running",
                    "initContainerStatuses": [running("s", started=True)],
                    "containerStatuses": [running()],
                },
                ({"name": "s", "restartPolicy": "Always"},),
            ),
            "2/2",
            "Running",
        ),
        (
            a_pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "0/1",
            "SchedulingGated",
        ),
    ],
)
def test_ready_and_status_of_a_pod(pod: JSON, ready: str, status: str) -> None:
    found = cells("pods", pod)
    assert (found["Ready"], found["Status"]) == (ready, status)


def test_restarts_tell_when_the_last_was() -> None:
    wall_time = WallTime(ManualClock())
    last = {"terminated": {"finishedAt": wall_time.date(-90)}}
    pod = a_pod({"phase": "Running", "containerStatuses": [running(restartCount=2, lastState=last)]})
    (row, _) = table_of(kind_named("pods"), [pod], wall_time)[1][0]
    assert row["cells"][3] == "2 (90s ago)"


def test_row_of_a_pod_that_has_ended_says_so() -> None:
    (row, _) = table_of(kind_named("pods"), [a_pod({"phase": "Failed"})], WallTime(ManualClock()))[1][0]
    assert row["conditions"][0]["message"] == "The pod failed."


@pytest.mark.parametrize(
    ("condition", "unschedulable", "status"),
    [("True", False, "Ready"), ("False", False, "NotReady"), ("Unknown", True, "NotReady,SchedulingDisabled")],
)
def test_status_of_a_node(condition: str, unschedulable: bool, status: str) -> None:
    labels = {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}
    node = {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"unschedulable": unschedulable},
        "status": {"conditions": [{"type": "Ready", "status": condition}], "nodeInfo": {"kubeletVersion": "v1.34.4"}},
    }
    found = cells("nodes", node)
    assert (found["Status"], found["Roles"], found["Version"]) == (status, "control-plane,worker", "v1.34.4")
    assert (found["Internal-IP"], found["OS-Image"]) == ("<none>", "<unknown>")


def test_event_without_dates_counts_once() -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "source": {"component": "kubelet", "host": "n"},
        "message": " text ",
    }
    found = cells("events", event)
    assert (found["Object"], found["Source"], found["Message"]) == ("pod/p", "kubelet, n", "text")
    assert (found["Last Seen"], found["Count"]) == ("<unknown>", 1)


def test_daemon_set_counts_and_selector() -> None:
    selector = {"matchLabels": {"b": "1"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}
    found = cells(
        "daemonsets.apps", {"metadata": {"name": "d"}, "spec": {"selector": selector}, "status": {"numberReady": 2}}
    )
    assert (found["Ready"], found["Desired"], found["Node Selector"]) == (2, 0, "<none>")
    assert found["Selector"] == "a in (x,y),b=1"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource))
def test_bare_object_of_any_kind_has_a_row(kind: Any) -> None:
    assert cells(kind.key_kind, {"metadata": {"name": "x"}})["Name"] == "x"


@pytest.mark.parametrize(
    "kind", ["selfsubjectreviews.authentication.k8s.io", "selfsubjectaccessreviews.authorization.k8s.io"]
)
def test_review_has_a_row_without_a_name(kind: str) -> None:
    assert cells(kind, {"metadata": {}}) == {"Name": "", "Created At": "0001-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-1, "0s"), (0.9, "0s"), (119, "119s"), (120, "2m"), (330, "5m30s"), (600, "10m"),
        (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"), (9 * 3600, "9h"), (50 * 3600, "2d2h"), (9 * 86400, "9d"),
        (800 * 86400, "2y70d"), (3000 * 86400, "8y"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text
