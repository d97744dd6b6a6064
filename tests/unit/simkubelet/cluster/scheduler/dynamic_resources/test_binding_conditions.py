"""Pods whose devices have binding conditions: they wait on their node until the driver reports the conditions."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.objects import JSON, Key
from tests.support.device_claims import DRIVER, claim_for, device, request, slice_of
from tests.support.scheduled_cluster import CLAIMS, CLASSES, SLICES, USES_CLAIM, DeviceCluster

ATTACHED, FAILED = "example.com/attached", "example.com/failed"
WAITS = {"bindingConditions": [ATTACHED], "bindingFailureConditions": [FAILED]}
PRE_BIND = 'running PreBind plugin "DynamicResources": '
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def devices_of(*names: str, **parts: Any) -> JSON:
    return slice_of([{**device(name), **WAITS, **parts} for name in names])


@pytest.fixture
def cluster() -> DeviceCluster:
    """A cluster with a pod, which waits for the only device."""
    cluster = DeviceCluster("1.37", devices=0)
    cluster.write(SLICES, devices_of("gpu-0"))
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")
    cluster.try_all()
    return cluster


def report(cluster: DeviceCluster, condition: str, status: str = "True", name: str = "gpu-0", **parts: str) -> None:
    claim = cluster.claim()
    reported = {"type": condition, "status": status, "reason": "ByTest", "message": 'says "so"', **parts}
    device = {"driver": DRIVER, "pool": "node-1", "device": name, "conditions": [reported]}
    cluster.write(CLAIMS, {**claim, "status": {**claim["status"], "devices": [device]}})


def pod_of(cluster: DeviceCluster) -> JSON:
    return cluster.object("pods", "pod")


def test_pod_waits_with_its_claim_reserved(cluster: DeviceCluster) -> None:
    assert cluster.events == [
        ("pod", "BindingConditionsPending", "waiting for binding conditions for device on node node-1")
    ]
    assert cluster.node_of("pod") is None
    assert pod_of(cluster)["status"]["nominatedNodeName"] == "node-1"
    status = cluster.claim()["status"]
    assert [consumer["name"] for consumer in status["reservedFor"]] == ["pod"]
    assert status["allocation"]["allocationTimestamp"]
    (result,) = status["allocation"]["devices"]["results"]
    assert WAITS.items() <= result.items()


def test_pod_is_bound_at_the_next_look(cluster: DeviceCluster) -> None:
    cluster.advance(1)
    report(cluster, ATTACHED, "False")
    cluster.advance(4)
    assert cluster.node_of("pod") is None

    report(cluster, ATTACHED)
    cluster.advance(4.9)
    assert cluster.node_of("pod") is None
    cluster.advance(0.1)

    assert cluster.node_of("pod") == "node-1"
    assert "nominatedNodeName" not in pod_of(cluster)["status"]
    assert [reason for _, reason, _ in cluster.events] == ["BindingConditionsPending", "Scheduled"]


def test_pod_whose_claim_is_ready_is_bound_at_once(cluster: DeviceCluster) -> None:
    report(cluster, ATTACHED)
    cluster.claim_pod("other")
    cluster.try_all()

    assert cluster.node_of("other") == "node-1"
    assert ("other", "BindingConditionsPending") in [event[:2] for event in cluster.events]


def test_others_are_scheduled_beside_the_room_of_a_pod_that_waits(cluster: DeviceCluster) -> None:
    cluster.pod("first", 1, **USES_CLAIM)
    cluster.pod("second", 1)
    cluster.pod("without", 0)
    cluster.try_all()

    assert cluster.node_of("without") == "node-1"
    assert cluster.node_of("first") is cluster.node_of("second") is None
    assert cluster.failures("second")[0].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


def test_failed_device_is_given_back_and_another_taken(cluster: DeviceCluster) -> None:
    tainted = {"taints": [{"key": "example.com/failed", "effect": "NoSchedule"}]}
    cluster.write(SLICES, devices_of("gpu-0", **tainted))
    report(cluster, FAILED)
    cluster.advance(5)

    failed = PRE_BIND + 'device binding failed: claim=claim, reason=ByTest, message="says \\"so\\""'
    assert cluster.failures("pod") == [failed]
    (condition,) = pod_of(cluster)["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", failed)
    assert "nominatedNodeName" not in pod_of(cluster)["status"]
    assert "reservedFor" not in cluster.claim()["status"]

    cluster.advance(2)
    assert cluster.failures("pod")[1:] == [
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, "
        + NOT_HELPFUL,
        "0/1 nodes are available: 1 cannot allocate all claims. " + NOT_HELPFUL,
    ]
    assert cluster.claim()["status"] == {}

    cluster.write(SLICES, slice_of([{**device("gpu-1"), **WAITS}], "other", pool="other"))
    cluster.advance(10)
    assert [result["device"] for result in cluster.claim()["status"]["allocation"]["devices"]["results"]] == ["gpu-1"]


def test_device_that_is_not_ready_for_ten_minutes_is_given_back(cluster: DeviceCluster) -> None:
    for _ in range(120):
        cluster.advance(5)

    assert cluster.failures("pod") == [PRE_BIND + "device binding timeout: context deadline exceeded"]
    made = cluster.claim()["status"]["allocation"]["allocationTimestamp"]
    cluster.advance(2)
    assert "deallocation of ResourceClaim completed" in cluster.failures("pod")[1]
    assert cluster.claim()["status"]["allocation"]["allocationTimestamp"] > made


def test_pod_that_came_later_ends_its_wait_with_the_claim(cluster: DeviceCluster) -> None:
    cluster.advance(300)
    cluster.claim_pod("later")
    cluster.try_all()
    for _ in range(61):
        cluster.advance(5)

    assert cluster.failures("later")[0] == PRE_BIND + "device binding timeout: claim=claim"


def test_pod_waits_for_the_first_device_before_it_sees_another_fail() -> None:
    cluster = DeviceCluster("1.37", devices=0)
    cluster.write(SLICES, devices_of("gpu-0", "gpu-1"))
    cluster.write(CLAIMS, claim_for(request(count=2)))
    cluster.claim_pod("pod")
    cluster.try_all()

    report(cluster, FAILED, name="gpu-1")
    cluster.advance(5)

    assert cluster.failures("pod") == []


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        pytest.param("pods", "pod", 'running Bind plugin "DefaultBinder": pods "pod" not found', id="pod"),
        pytest.param(CLAIMS, "claim", PRE_BIND + 'could not find ResourceClaim "default/claim"', id="claim"),
    ],
)
def test_wait_ends_when_what_it_is_for_is_gone(cluster: DeviceCluster, kind: str, name: str, text: str) -> None:
    report(cluster, ATTACHED)
    cluster.objects.remove(Key(kind, "default", name))
    cluster.advance(5)

    assert cluster.failures("pod") == [text]
    cluster.advance(600)
    assert cluster.failures("pod") == [text]


def test_pod_deleted_while_it_waits_leaves_its_room() -> None:
    cluster = DeviceCluster("1.37", devices=0)
    cluster.write(SLICES, devices_of("gpu-0"))
    cluster.write(CLAIMS, claim_for(request()))
    cluster.pod("pod", 1, **USES_CLAIM)
    cluster.pod("second", 1)
    cluster.try_all()
    assert cluster.node_of("second") is None

    cluster.remove("pods", "pod")
    cluster.advance(2)

    assert cluster.node_of("second") == "node-1"


def test_more_important_pod_ends_the_wait_and_not_the_pod() -> None:
    cluster = DeviceCluster("1.37", devices=0)
    cluster.write(SLICES, devices_of("gpu-0"))
    cluster.write(CLAIMS, claim_for(request()))
    cluster.pod("pod", 1, **USES_CLAIM)
    cluster.try_all()
    cluster.pod("important", 1, priority=1000)
    cluster.try_all()

    assert ("pod", "Preempted", "Preempted by pod uid-of-important on node node-1 (in kube-scheduler memory).") in (
        cluster.events
    )
    assert cluster.failures("pod")[0] == PRE_BIND + "preempted by DefaultPreemption"
    cluster.advance(1)
    assert cluster.node_of("important") == "node-1"
    assert cluster.node_of("pod") is None


def test_claim_made_for_an_extended_resource_goes_with_a_failed_device() -> None:
    cluster = DeviceCluster("1.37", devices=0)
    cluster.write(CLASSES, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    cluster.write(SLICES, devices_of("gpu-0"))
    cluster.pod("pod", 0, requests={"example.com/gpu": "1"})
    cluster.try_all()
    (claim,) = cluster.objects.all_of(CLAIMS)
    failed = {"type": FAILED, "status": "True", "reason": "ByTest", "message": ""}
    status = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "conditions": [failed]}
    cluster.write(CLAIMS, {**claim, "status": {**claim["status"], "devices": [status]}})

    cluster.advance(5)

    assert list(cluster.objects.all_of(CLAIMS)) == []
    cluster.advance(2)
    (made,) = cluster.objects.all_of(CLAIMS)
    assert made["metadata"]["uid"] != claim["metadata"]["uid"]
