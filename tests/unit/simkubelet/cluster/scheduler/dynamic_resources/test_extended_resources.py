"""Extended resources that a DeviceClass stands for: when the scheduler makes a claim for them, and which."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.cluster_state import PodInfo
from simkubelet.cluster.scheduler.dynamic_resources.extended_claims import claim_for, classes_by_resource
from simkubelet.model.pod import pod_from_manifest
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import EXTENDED_CLAIMS
from tests.support.device_claims import CLASS, DRIVER, request
from tests.support.device_claims import claim_for as device_claim
from tests.support.scheduled_cluster import CLAIMS, CLASSES, GPU, USES_CLAIM, DeviceCluster

RECORDED = Path(__file__).with_name("extended_claims.jsonl")
NAMED = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": GPU}}
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def named_cluster(minor: str = "1.36", devices: int = 2, gpus: int = 0, **gates: bool) -> DeviceCluster:
    """A node with devices of the class that stands for `GPU`, and with so many of a device plugin."""
    cluster = DeviceCluster(minor, devices, gates)
    cluster.node("node-1", gpus)
    cluster.write(CLASSES, NAMED)
    return cluster


def made_claims(cluster: DeviceCluster) -> list[JSON]:
    return cluster.objects.all_of(CLAIMS)


def test_claim_is_made_for_a_pod_before_it_is_bound() -> None:
    cluster = named_cluster()

    cluster.pod("pod", 2)
    cluster.try_all()

    (claim,) = made_claims(cluster)
    name = claim["metadata"]["name"]
    assert name.startswith("pod-extended-resources-")
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [(owner["name"], owner["controller"]) for owner in claim["metadata"]["ownerReferences"]] == [("pod", True)]
    assert [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]] == ["gpu-0", "gpu-1"]
    assert claim["status"]["allocation"]["allocationTimestamp"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "pod", "uid": "uid-of-pod"}]
    assert cluster.object("pods", "pod")["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": name,
        "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": "container-0-request-0"}],
    }
    assert cluster.node_of("pod") == "node-1"


def test_each_class_stands_for_a_resource_of_its_own_name() -> None:
    cluster = named_cluster(devices=1)

    cluster.pod("pod", 0, requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    cluster.try_all()

    assert cluster.node_of("pod") == "node-1"
    assert [one["status"]["allocation"]["devices"]["results"][0]["driver"] for one in made_claims(cluster)] == [DRIVER]


def test_devices_of_a_plugin_go_first() -> None:
    cluster = named_cluster(gpus=1)

    for name in ("one", "two"):
        cluster.pod(name)
    cluster.try_all()

    assert cluster.node_of("one") == "node-1"
    assert made_claims(cluster) == []
    assert cluster.failures("two") == [
        f"0/1 nodes are available: 1 Insufficient {GPU}. still not schedulable, preemption: 0/1 nodes are available: 1 "
        "No preemption victims found for incoming pod."
    ]


def test_pod_with_a_claim_of_its_own_fails_where_a_plugin_has_what_a_class_names_too() -> None:
    cluster = named_cluster(gpus=1)
    cluster.write(CLAIMS, device_claim(request()))

    cluster.claim_pod("pod", **USES_CLAIM, containers=[{"name": "c", "resources": {"limits": {GPU: "1"}}}])
    cluster.try_all()

    assert cluster.node_of("pod") is None
    assert cluster.failures("pod") == [
        'running PreBind plugin "DynamicResources": nil or empty request mappings, no update of pod default/pod '
        "ExtendedResourceClaimStatus"
    ]


@pytest.mark.parametrize(("minor", "told"), [("1.36", "still not schedulable, "), ("1.37", "")])
def test_too_few_devices_refuse_the_node(minor: str, told: str) -> None:
    cluster = named_cluster(minor, devices=1)

    cluster.pod("pod", 2)
    cluster.try_all()

    assert made_claims(cluster) == []
    assert cluster.failures("pod") == [f"0/1 nodes are available: 1 cannot allocate all claims. {told}{NOT_HELPFUL}"]


@pytest.mark.parametrize(("minor", "gates"), [("1.35", {}), ("1.36", {EXTENDED_CLAIMS: False}), ("1.34", {})])
def test_no_claim_is_made_without_the_gate(minor: str, gates: Mapping[str, bool]) -> None:
    cluster = named_cluster(minor, **gates)

    cluster.pod("pod")
    cluster.try_all()

    assert made_claims(cluster) == []
    assert [message.partition(". ")[0] for message in cluster.failures("pod")] == [
        f"0/1 nodes are available: 1 Insufficient {GPU}"
    ]


def test_gate_can_be_turned_on_in_1_35() -> None:
    cluster = named_cluster("1.35", **{EXTENDED_CLAIMS: True})

    cluster.pod("pod")
    cluster.try_all()

    (claim,) = made_claims(cluster)
    assert "allocationTimestamp" not in claim["status"]["allocation"]
    assert cluster.node_of("pod") == "node-1"


def test_pod_is_tried_again_when_a_class_stands_for_its_resource() -> None:
    cluster = DeviceCluster("1.36")
    cluster.node("node-1", 0)
    cluster.pod("pod")
    cluster.try_all()
    assert cluster.node_of("pod") is None

    cluster.write(CLASSES, NAMED)
    cluster.advance(1)

    assert cluster.node_of("pod") == "node-1"


def test_pod_is_tried_again_when_the_plugin_of_its_resource_has_no_device_left() -> None:
    cluster = named_cluster(gpus=1)
    for name in ("one", "two"):
        cluster.pod(name)
    cluster.try_all()
    assert cluster.node_of("two") is None

    cluster.node("node-1", 0)
    cluster.advance(1)

    assert cluster.node_of("two") == "node-1"


def test_newest_class_stands_for_a_resource_that_several_name() -> None:
    def one(name: str, created: str) -> JSON:
        return {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"extendedResourceName": GPU}}

    early, late = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
    found = classes_by_resource([one("b", late), one("a", early), one("c", late)])

    assert found[ResourceName(GPU)] == "b"
    assert sorted(found) == [*(f"deviceclass.resource.kubernetes.io/{name}" for name in "abc"), GPU]


def recorded() -> list[Any]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return [pytest.param(json.loads(line), id=str(number)) for number, line in enumerate(lines)]


@pytest.mark.parametrize("case", recorded())
def test_claim_asks_for_what_the_real_scheduler_asked_for(case: dict[str, Any]) -> None:
    pod = PodInfo(pod_from_manifest(case["pod"]))

    claim, mappings = claim_for(pod, {ResourceName(name): one for name, one in case["classes"].items()})

    assert claim["spec"]["devices"]["requests"] == case["requests"]
    assert mappings == case["mappings"]
