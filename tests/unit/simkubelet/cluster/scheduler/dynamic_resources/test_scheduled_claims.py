"""What the scheduler makes of pods with claims, and what it writes into the claims."""

from __future__ import annotations

import pytest

from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.model.version import DYNAMIC_RESOURCES
from tests.support.device_claims import CLASS, DRIVER, claim_for, device, request, slice_of
from tests.support.scheduled_cluster import CLAIMS, CLASSES, SLICES, DeviceCluster

NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


@pytest.fixture
def cluster() -> DeviceCluster:
    return DeviceCluster()


def test_claim_is_allocated_and_reserved_before_binding(cluster: DeviceCluster) -> None:
    cluster.write(CLAIMS, claim_for(request()))
    writes: list[str] = []
    cluster.objects.subscribe(CLAIMS, lambda written: writes.append("claim"))
    cluster.objects.subscribe("pods", lambda written: writes.append("pod"))

    cluster.claim_pod("pod")
    cluster.try_all()

    assert writes == ["pod", "claim", "claim", "pod"]
    assert cluster.node_of("pod") == "node-1"
    claim = cluster.claim()
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "pod", "uid": "uid-of-pod"}]
    assert claim["status"]["allocation"]["devices"]["results"] == [
        {"request": "req", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
    ]


def test_second_pod_shares_allocated_claim(cluster: DeviceCluster) -> None:
    cluster.write(CLAIMS, claim_for(request()))

    for name in ("one", "two"):
        cluster.claim_pod(name)
    cluster.try_all()

    assert [each["name"] for each in cluster.claim()["status"]["reservedFor"]] == ["one", "two"]


def test_pod_without_free_device_waits_for_deallocation(cluster: DeviceCluster) -> None:
    for name in ("first", "second"):
        cluster.write(CLAIMS, claim_for(request(), name=name))
        cluster.claim_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
    cluster.try_all()

    text = f"0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, {NOT_HELPFUL}"
    assert cluster.failures("second") == [text]

    cluster.write(CLAIMS, {**cluster.claim("first"), "status": {}})
    cluster.advance(2)

    assert cluster.node_of("second") == "node-1"


@pytest.mark.parametrize(("minor", "node"), [("1.36", None), ("1.37", "node-1")])
def test_deleted_claim_that_has_its_device_counts_from_1_37_on(minor: str, node: str | None) -> None:
    cluster = DeviceCluster(minor)
    for name in ("first", "second"):
        cluster.write(CLAIMS, claim_for(request(), name=name))
        cluster.claim_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])
    cluster.try_all()

    cluster.objects.remove(Key(CLAIMS, "default", "first"))
    cluster.advance(2)

    assert cluster.node_of("second") == node


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(SLICES, slice_of([device("gpu-0")]), id="slice"),
        pytest.param(CLASSES, CLASS, id="class"),
    ],
)
def test_refused_pod_is_tried_when_resources_appear(kind: str, body: JSON) -> None:
    cluster = DeviceCluster(devices=0 if kind == SLICES else 1)
    if kind == CLASSES:
        cluster.objects.remove(Key(CLASSES, "", "gpu"))
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")
    cluster.try_all()
    assert cluster.node_of("pod") is None

    cluster.write(kind, body)
    cluster.advance(2)

    assert cluster.node_of("pod") == "node-1"


def test_pod_whose_class_is_missing_says_so(cluster: DeviceCluster) -> None:
    cluster.objects.remove(Key(CLASSES, "", "gpu"))
    cluster.write(CLAIMS, claim_for(request()))

    cluster.claim_pod("pod")
    cluster.try_all()

    assert cluster.failures("pod") == [
        "0/1 nodes are available: request req: device class gpu does not exist. "
        f"no new claims to deallocate, {NOT_HELPFUL}"
    ]


def test_pod_waits_silently_until_its_claim_exists(cluster: DeviceCluster) -> None:
    cluster.claim_pod("pod")
    cluster.try_all()

    assert cluster.events == []

    cluster.write(CLAIMS, claim_for(request()))
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"


def test_pod_waits_until_its_generated_claim_is_named(cluster: DeviceCluster) -> None:
    cluster.claim_pod("pod", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "template"}])
    claim = claim_for(request(), name="generated")
    claim["metadata"]["ownerReferences"] = [{"controller": True, "uid": "uid-of-pod"}]
    cluster.write(CLAIMS, claim)
    cluster.try_all()
    assert cluster.node_of("pod") is None

    pod = cluster.object("pods", "pod")
    status = {**pod["status"], "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "generated"}]}
    cluster.objects.replace(Key("pods", "default", "pod"), {**pod, "status": status})
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"
    assert cluster.events == [("pod", "Scheduled", "Successfully assigned default/pod to node-1")]


def test_error_of_selector_ends_the_try(cluster: DeviceCluster) -> None:
    cluster.write(CLAIMS, claim_for(request("req", f'device.attributes["{DRIVER}"].x == 1')))

    cluster.claim_pod("pod")
    cluster.try_all()

    assert cluster.failures("pod") == [
        'running "DynamicResources" filter plugin: claim default/claim: selector #0: CEL runtime error: no such key: x'
    ]
    (condition,) = cluster.object("pods", "pod")["status"]["conditions"]
    assert condition["reason"] == "SchedulerError"


def test_claim_of_another_node_is_deallocated_for_its_only_pod(cluster: DeviceCluster) -> None:
    elsewhere = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
    result = {"request": "req", "driver": DRIVER, "pool": "gone", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [elsewhere]}}
    cluster.write(CLAIMS, {**claim_for(request()), "status": {"allocation": allocation}})

    cluster.claim_pod("pod")
    cluster.try_all()

    assert cluster.failures("pod") == [
        "0/1 nodes are available: 1 resourceclaim not available on the node. "
        f"deallocation of ResourceClaim completed, {NOT_HELPFUL}"
    ]
    assert cluster.claim()["status"]["allocation"]["devices"]["results"] == [{**result, "pool": "node-1"}]
    assert cluster.node_of("pod") == "node-1"


@pytest.mark.parametrize("minor", ["1.31", "1.32", "1.33"])
def test_claims_mean_nothing_before_1_34(minor: str) -> None:
    cluster = DeviceCluster(minor, devices=0)

    cluster.claim_pod("pod")
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"


@pytest.mark.parametrize("minor", ["1.32", "1.33"])
def test_gate_turns_claims_on_before_1_34(minor: str) -> None:
    cluster = DeviceCluster(minor, gates={DYNAMIC_RESOURCES: True})
    cluster.write(CLAIMS, claim_for(request()))

    cluster.claim_pod("pod")
    cluster.claim_pod("other", resourceClaims=[{"name": "gpu", "resourceClaimName": "missing"}])
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"
    assert [one["name"] for one in cluster.claim()["status"]["reservedFor"]] == ["pod"]
    assert not cluster.node_of("other")
