"""Which node a pod with claims goes to where several have devices."""

from __future__ import annotations

import pytest

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.cycle import Assignment
from tests.support.device_claims import alternative, claim_for, device, request, slice_of
from tests.support.scheduled_cluster import CLAIMS, CLASSES, SLICES, DeviceCluster

SCORE_FAILED = (
    'running Score plugins: plugin "DynamicResources" failed with: '
    "number of allocations 1 is smaller than number of claims"
)
CLAIMS_OF_POD = [
    {"name": "shared", "resourceClaimName": "shared"},
    {"name": "own", "resourceClaimName": "own"},
]


def large_or_small(name: str = "claim") -> JSON:
    alternatives = [
        alternative(size, f"device.attributes['gpu.example.com'].size == '{size}'") for size in ("large", "small")
    ]
    return claim_for({"name": "gpu", "firstAvailable": alternatives}, name=name)


def two_nodes(minor: str) -> DeviceCluster:
    """A cluster of node-1 with a small device and node-2 with a large one."""
    cluster = DeviceCluster(minor, devices=0)
    cluster.node("node-2")
    for name, size in (("node-1", "small"), ("node-2", "large")):
        cluster.write(SLICES, slice_of([device("gpu-0", size=size)], name=name, node=name))
    return cluster


@pytest.mark.parametrize(
    ("minor", "node"),
    [
        pytest.param("1.34", "node-1", id="any node before 1.35"),
        pytest.param("1.35", "node-2", id="the first alternative's node since"),
        pytest.param("1.37", "node-2", id="newest"),
    ],
)
def test_node_with_the_first_alternative_is_preferred(minor: str, node: str) -> None:
    cluster = two_nodes(minor)
    cluster.write(CLAIMS, large_or_small())

    cluster.claim_pod("pod")
    cluster.try_all()

    assert cluster.node_of("pod") == node


def test_points_of_claims_are_added_before_they_are_normalized() -> None:
    cluster = two_nodes("1.36")
    cluster.write(CLAIMS, large_or_small())
    cluster.claim_pod("pod")

    tried = cluster.scheduler.try_next()

    assert isinstance(tried, Assignment)
    assert tried.scores["node-2"] - tried.scores["node-1"] == 2 * (100 - 100 * 7 // 8)


def shared_and_own(minor: str) -> DeviceCluster:
    """A pod whose claim `shared` has a device that all nodes reach, and whose claim `own` has none yet."""
    cluster = DeviceCluster(minor)
    cluster.node("node-2")
    cluster.write(SLICES, slice_of([device("gpu-0")], name="node-2", node="node-2"))
    for name in ("shared", "own"):
        cluster.write(CLAIMS, claim_for(request(), name=name))
    result = {"request": "req", "driver": "fabric.example.com", "pool": "fabric", "device": "channel-0"}
    cluster.write(CLAIMS, {**cluster.claim("shared"), "status": {"allocation": {"devices": {"results": [result]}}}})
    return cluster


@pytest.mark.parametrize("release", ["1.35.0", "1.35.5", "1.36.1"])
def test_claim_with_a_device_beside_one_without_ends_the_try(release: str) -> None:
    cluster = shared_and_own(release)

    cluster.claim_pod("pod", resourceClaims=CLAIMS_OF_POD)
    cluster.try_all()

    assert cluster.node_of("pod") is None
    assert cluster.failures("pod") == [SCORE_FAILED]
    (condition,) = cluster.object("pods", "pod")["status"]["conditions"]
    assert condition["reason"] == "SchedulerError"


@pytest.mark.parametrize("release", ["1.34.4", "1.35.6", "1.36.2", "1.37.0"])
def test_claim_with_a_device_beside_one_without_is_no_error(release: str) -> None:
    cluster = shared_and_own(release)

    cluster.claim_pod("pod", resourceClaims=CLAIMS_OF_POD)
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"


def test_nothing_is_scored_where_one_node_will_do() -> None:
    cluster = shared_and_own("1.35.5")
    cluster.remove(SLICES, "node-2")

    cluster.claim_pod("pod", resourceClaims=CLAIMS_OF_POD)
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"


def test_claims_that_all_have_devices_are_no_error() -> None:
    cluster = shared_and_own("1.35.5")

    cluster.claim_pod("pod", resourceClaims=CLAIMS_OF_POD[:1])
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"


def test_claim_for_extended_resources_counts_as_one_without_devices() -> None:
    cluster = shared_and_own("1.36.1")
    resource = "deviceclass.resource.kubernetes.io/gpu"
    cluster.write(CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})

    cluster.pod("pod", 0, requests={resource: "1"}, resourceClaims=CLAIMS_OF_POD[:1])
    cluster.try_all()

    assert cluster.failures("pod") == [SCORE_FAILED]
