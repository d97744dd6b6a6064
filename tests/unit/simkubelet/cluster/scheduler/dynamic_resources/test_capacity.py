"""Devices that claims share: how much of a capacity a request takes, and what is left for others.

The amounts were answered by the allocator of 1.36.3 (``tests/oracle/allocator``).
"""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.objects import JSON
from tests.support.device_claims import allocate, claim_for, device, request, slice_of
from tests.support.scheduled_cluster import CLAIMS, SLICES, DeviceCluster

RANGE = {"default": "10Gi", "validRange": {"min": "10Gi", "max": "30Gi", "step": "10Gi"}}
VALUES = {"default": "5Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}


def shared(name: str = "gpu-0", memory: str = "40Gi", policy: JSON | None = None, **parts: Any) -> JSON:
    capacity = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return {**device(name), "allowMultipleAllocations": True, "capacity": {"memory": capacity}, **parts}


def asking(memory: str | None, name: str = "claim") -> JSON:
    return claim_for(request("a", **({"capacity": {"requests": {"memory": memory}}} if memory else {})), name=name)


@pytest.mark.parametrize(
    ("policy", "asked", "taken"),
    [
        pytest.param(None, None, "40Gi", id="all of it where nothing is asked for"),
        pytest.param(None, "1500Mi", "1500Mi", id="as asked"),
        pytest.param(None, "41Gi", None, id="too much"),
        pytest.param(RANGE, None, "10Gi", id="the default"),
        pytest.param(RANGE, "1Gi", "10Gi", id="the least"),
        pytest.param(RANGE, "11Gi", "20Gi", id="the next step"),
        pytest.param(RANGE, "30Gi", "30Gi", id="a step"),
        pytest.param(RANGE, "31Gi", None, id="above the most"),
        pytest.param(VALUES, "6Gi", "10Gi", id="the next value"),
        pytest.param(VALUES, "21Gi", None, id="above the last value"),
    ],
)
def test_share_takes_what_the_policy_makes_of_a_request(
    policy: JSON | None, asked: str | None, taken: str | None
) -> None:
    found = allocate([asking(asked)], [slice_of([shared(policy=policy)])], release="1.36")

    assert (found is None) is (taken is None)
    if found is not None:
        (result,) = found[0]["devices"]["results"]
        assert result["consumedCapacity"] == {"memory": taken}
        assert result["shareID"]


def test_claims_of_one_pod_divide_a_device_until_it_is_used_up() -> None:
    slices = [slice_of([shared("gpu-0"), shared("gpu-1")])]

    found = allocate([asking("25Gi", name) for name in "ab"], slices, release="1.36")

    assert found is not None
    assert [one["devices"]["results"][0]["device"] for one in found] == ["gpu-0", "gpu-1"]
    assert allocate([asking("25Gi", name) for name in "abc"], slices, release="1.36") is None


def test_request_for_capacity_passes_over_a_device_without_it() -> None:
    devices = [device("gpu-0"), device("gpu-1", {"memory": "10Gi"}), device("gpu-2", {"memory": "40Gi"})]

    found = allocate([asking("20Gi")], [slice_of(devices)], release="1.36")

    assert found is not None
    (result,) = found[0]["devices"]["results"]
    assert result["device"] == "gpu-2"
    assert not {"shareID", "consumedCapacity"} & result.keys()


@pytest.mark.parametrize(("minor", "is_free"), [("1.36.1", True), ("1.36.2", False)])
def test_first_share_of_a_device_takes_its_counters(minor: str, is_free: bool) -> None:
    cluster = DeviceCluster(minor, devices=0)
    consumes = [{"counterSet": "gpu", "counters": {"units": {"value": "2"}}}]
    counters = {"sharedCounters": [{"name": "gpu", "counters": {"units": {"value": "2"}}}]}
    of_gpu = slice_of([], "counters", count=2, **counters)
    del of_gpu["spec"]["devices"]
    whole, part = shared(consumesCounters=consumes), {**device("part"), "consumesCounters": consumes}
    for one in (of_gpu, slice_of([whole, part], count=2)):
        cluster.write(SLICES, one)

    for name, memory in (("first", "10Gi"), ("second", "10Gi"), ("third", None)):
        selector = ["device.allowMultipleAllocations"] if memory else ["!device.allowMultipleAllocations"]
        exactly = {"capacity": {"requests": {"memory": memory}}} if memory else {}
        cluster.write(CLAIMS, claim_for(request("a", *selector, **exactly), name=name))
        cluster.claim_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
        cluster.try_all()

    assert cluster.node_of("second") == "node-1"
    assert (cluster.node_of("third") == "node-1") is is_free


def test_ended_claim_gives_its_share_back() -> None:
    cluster = DeviceCluster("1.36", devices=0)
    cluster.write(SLICES, slice_of([shared()]))
    for name in ("first", "second"):
        cluster.write(CLAIMS, asking("30Gi", name))
        cluster.claim_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
        cluster.try_all()
    assert cluster.node_of("second") is None

    freed = cluster.claim("first")
    cluster.write(CLAIMS, {**freed, "status": {}})
    cluster.advance(1)

    assert cluster.node_of("second") == "node-1"


@pytest.mark.parametrize(("minor", "is_found"), [("1.36", True), ("1.37", False)])
def test_request_for_all_devices_meets_one_that_is_used_up(minor: str, is_found: bool) -> None:
    cluster = DeviceCluster(minor, devices=0)
    cluster.write(SLICES, slice_of([shared(), device("gpu-1")]))
    everything = {"allocationMode": "All", "count": 0}

    for name, one in (
        ("first", asking("40Gi", "first")),
        ("second", claim_for(request("a", **everything), name="second")),
    ):
        cluster.write(CLAIMS, one)
        cluster.claim_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
        cluster.try_all()

    assert (cluster.node_of("second") == "node-1") is is_found
