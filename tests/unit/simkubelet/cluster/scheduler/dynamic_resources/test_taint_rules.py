"""DeviceTaintRules keep pods from the devices that they taint."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.device_taint_rules import TAINT_RULES
from simkubelet.cluster.objects.objects import JSON, Key
from tests.support.device_claims import DRIVER, claim_for, request
from tests.support.scheduled_cluster import CLAIMS, SLICES, DeviceCluster


def rule(effect: str = "NoSchedule", **selector: str) -> JSON:
    taint = {"key": "example.com/broken", "effect": effect}
    return {"metadata": {"name": "rule"}, "spec": {"deviceSelector": selector, "taint": taint}}


def devices_with(*rules: JSON) -> list[str]:
    """The devices that a claim gets of two, if it gets any."""
    cluster = DeviceCluster("1.37", devices=2)
    for each in rules:
        cluster.write(TAINT_RULES, each)
    return given(cluster)


def given(cluster: DeviceCluster) -> list[str]:
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")
    cluster.try_all()
    allocation: dict[str, Any] = (cluster.claim().get("status") or {}).get("allocation") or {"devices": {"results": []}}
    return [result["device"] for result in allocation["devices"]["results"]]


@pytest.mark.parametrize(
    ("selector", "devices"),
    [
        pytest.param({}, [], id="all"),
        pytest.param({"driver": DRIVER}, [], id="driver"),
        pytest.param({"driver": "other.example.com"}, ["gpu-0"], id="another driver"),
        pytest.param({"pool": "node-1", "device": "gpu-0"}, ["gpu-1"], id="device"),
        pytest.param({"pool": "node-2", "device": "gpu-0"}, ["gpu-0"], id="device of another pool"),
    ],
)
def test_rule_taints_the_devices_that_it_selects(selector: dict[str, str], devices: list[str]) -> None:
    assert devices_with(rule(**selector)) == devices


def test_rule_without_selector_taints_nothing() -> None:
    body = rule()
    del body["spec"]["deviceSelector"]

    assert devices_with(body) == ["gpu-0"]


def test_effect_none_keeps_nobody_away() -> None:
    assert devices_with(rule("None")) == ["gpu-0"]


def test_pod_is_tried_again_when_the_rule_is_gone() -> None:
    cluster = DeviceCluster("1.37", devices=1)
    cluster.write(TAINT_RULES, rule())
    assert given(cluster) == []

    cluster.objects.remove(Key(TAINT_RULES, "", "rule"))
    cluster.advance(2)

    assert cluster.node_of("pod") == "node-1"


def test_pod_is_tried_again_when_the_rule_is_about_others() -> None:
    cluster = DeviceCluster("1.37", devices=1)
    cluster.write(TAINT_RULES, rule())
    assert given(cluster) == []
    tries = len(cluster.failures("pod"))

    cluster.write(TAINT_RULES, {**rule(), "status": {"conditions": []}})
    cluster.advance(2)
    assert len(cluster.failures("pod")) == tries
    cluster.write(TAINT_RULES, rule(driver="other.example.com"))
    cluster.advance(2)

    assert cluster.node_of("pod") == "node-1"


def test_new_slice_has_the_taints_of_rules() -> None:
    cluster = DeviceCluster("1.37", devices=1)
    (body,) = cluster.objects.all_of(SLICES)
    cluster.write(TAINT_RULES, rule())
    cluster.write(SLICES, {**body, "spec": {**body["spec"], "pool": {**body["spec"]["pool"], "generation": 2}}})

    assert given(cluster) == []
