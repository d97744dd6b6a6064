from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.objects.objects import WallTime
from simkubelet.cluster.objects.pod_json import kubelet_status_json, read_pod_status
from simkubelet.model.clock import ManualClock
from simkubelet.model.pod_status import (
    Condition,
    ConditionType,
    ContainerStatus,
    PodPhase,
    PodStatus,
    ResourceHealth,
    ResourceStatus,
    Running,
    Terminated,
    Waiting,
)
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version

WALL = WallTime(ManualClock(), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
BY_KUBELET = sorted(set(ConditionType) - {ConditionType.DISRUPTION_TARGET})

words = st.text("abc XYZ%", max_size=8)
seconds = st.integers(0, 10**6).map(float)
ends = st.builds(Terminated, st.integers(0, 255), words, seconds, seconds, words)
states = st.one_of(st.builds(Waiting, words, words), st.builds(Running, seconds), ends)
health = st.builds(ResourceHealth, st.text("abc", min_size=1, max_size=3), st.sampled_from(["Healthy", "Unhealthy"]))
resources = st.builds(
    ResourceStatus, st.just(ResourceName("nvidia.com/gpu")), st.lists(health, min_size=1, max_size=2).map(tuple)
)


def containers(*names: str) -> st.SearchStrategy[tuple[ContainerStatus, ...]]:
    return st.tuples(
        *(
            st.builds(
                ContainerStatus,
                st.just(name),
                states,
                st.none() | ends,
                st.booleans(),
                st.integers(0, 9),
                st.booleans(),
                st.lists(resources, max_size=1).map(tuple),
            )
            for name in names
        )
    )


conditions = st.lists(st.sampled_from(BY_KUBELET), unique=True).flatmap(
    lambda types: st.tuples(*(st.builds(Condition, st.just(type_), st.booleans(), words, words) for type_ in types))
)
statuses = st.builds(
    PodStatus, st.sampled_from(PodPhase), words, words, conditions, containers("i"), containers("a", "b")
)


def pod(**status: Any) -> dict[str, Any]:
    spec = {
        "initContainers": [{"name": "i", "image": "busybox"}],
        "containers": [
            {"name": "a", "image": "busybox", "resources": {"requests": {"cpu": "1"}}},
            {"name": "b", "image": "registry.example:5000/x/y:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        ],
    }
    return {"metadata": {"uid": "u", "generation": 3}, "spec": spec, "status": status}


def written(stored: dict[str, Any], status: PodStatus, minor: str = "1.34") -> dict[str, Any]:
    return kubelet_status_json(stored, status, version(minor), WALL, ("127.0.0.1", "127.64.0.2"), {})


@given(statuses, st.sampled_from(["1.26", "1.31", "1.34"]))
def test_status_is_read_as_it_was_written(status: PodStatus, minor: str) -> None:
    assert read_pod_status(written(pod(), status, minor), WALL) == status


@given(statuses)
def test_status_that_is_written_twice_does_not_change(status: PodStatus) -> None:
    once = written(pod(), status)
    assert written(pod(**once), status) == once


def test_conditions_of_others_stay_before_the_kubelets_own() -> None:
    stored = pod(
        qosClass="Burstable",
        nominatedNodeName="node-9",
        conditions=[
            {"type": "Ready", "status": "False", "lastTransitionTime": "then"},
            {"type": "example.com/mine", "status": "True"},
        ],
    )
    ready = Condition(ConditionType.READY, False, "ContainersNotReady")
    new = written(stored, PodStatus(PodPhase.RUNNING, conditions=(ready,)))

    mine, kubelets = new["conditions"]
    assert mine == {"type": "example.com/mine", "status": "True"}
    assert kubelets["lastTransitionTime"] == "then"
    assert kubelets["observedGeneration"] == 3
    assert new["qosClass"] == "Burstable"
    assert "nominatedNodeName" not in new


def test_condition_that_turns_gets_the_date_of_now() -> None:
    stored = pod(conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": "then"}])
    new = written(stored, PodStatus(PodPhase.RUNNING, conditions=(Condition(ConditionType.READY, True),)))
    assert new["conditions"][0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_container_that_runs_has_names_digests_and_what_it_asked_for() -> None:
    status = PodStatus(PodPhase.RUNNING, containers=(ContainerStatus("a", Running(60.0), is_ready=True),))
    (container,) = written(pod(), status)["containerStatuses"]
    assert container["image"] == "docker.io/library/busybox:latest"
    assert container["imageID"].startswith("docker.io/library/busybox@sha256:")
    assert container["containerID"].startswith("containerd://")
    assert container["state"] == {"running": {"startedAt": "2026-01-02T03:05:05Z"}}
    assert container["allocatedResources"] == {"cpu": "1"}
    assert container["resources"] == {"requests": {"cpu": "1"}}


def test_container_that_never_ran_has_neither_id_nor_digest() -> None:
    status = PodStatus(containers=(ContainerStatus("b", Waiting("ContainerCreating")),))
    (container,) = written(pod(), status)["containerStatuses"]
    assert container["image"] == "registry.example:5000/x/y:1"
    assert container["imageID"] == ""
    assert "containerID" not in container
    assert container["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]


def test_container_in_back_off_is_the_one_that_ended() -> None:
    end = Terminated(1, "Error", 1.0, 2.0)
    status = PodStatus(containers=(ContainerStatus("a", Waiting("CrashLoopBackOff"), end, restart_count=2),))
    (container,) = written(pod(), status)["containerStatuses"]
    assert container["lastState"]["terminated"]["containerID"] == container["containerID"]


def test_container_that_runs_again_is_another_than_the_one_that_ended() -> None:
    end = Terminated(1, "Error", 1.0, 2.0)
    status = PodStatus(containers=(ContainerStatus("a", Running(3.0), end, restart_count=2),))
    (container,) = written(pod(), status)["containerStatuses"]
    assert container["lastState"]["terminated"]["containerID"] != container["containerID"]


def test_end_that_nobody_saw_has_no_dates() -> None:
    end = Terminated(137, "ContainerStatusUnknown", 0.0, 0.0)
    (container,) = written(pod(), PodStatus(containers=(ContainerStatus("a", end),)))["containerStatuses"]
    assert container["state"]["terminated"] == {
        "exitCode": 137,
        "startedAt": None,
        "finishedAt": None,
        "reason": "ContainerStatusUnknown",
    }


def test_old_kubelet_tells_no_generation_and_no_resources() -> None:
    running = ContainerStatus("a", Running(1.0))
    new = written(pod(), PodStatus(conditions=(Condition(ConditionType.READY, True),), containers=(running,)), "1.30")
    assert "observedGeneration" not in new
    assert "observedGeneration" not in new["conditions"][0]
    assert "resources" not in new["containerStatuses"][0]


def test_rejected_pod_has_a_start_and_no_address() -> None:
    new = written(pod(phase="Pending"), PodStatus(PodPhase.FAILED, "OutOfcpu", "Pod was rejected: x"))
    assert new == {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "Pod was rejected: x",
        "startTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 3,
    }


def test_status_that_no_kubelet_would_write_is_read_nevertheless() -> None:
    status = read_pod_status({"phase": "Strange", "conditions": [{"type": "example.com/mine", "status": "True"}]}, WALL)
    assert status == PodStatus()


@pytest.mark.parametrize(("release", "keeps"), [("1.31", False), ("1.32", True)])
def test_rejected_pod_loses_its_class_on_old_nodes(release: str, keeps: bool) -> None:
    rejected = PodStatus(PodPhase.FAILED, "OutOfcpu", "Pod was rejected: no")
    started = PodStatus(conditions=(Condition(ConditionType.READY, False),))

    def classes(status: PodStatus) -> Any:
        written = kubelet_status_json(pod(qosClass="BestEffort"), status, version(release), WALL, ("", ""), {})
        return written.get("qosClass")

    assert classes(rejected) == ("BestEffort" if keeps else None)
    assert classes(started) == "BestEffort"
