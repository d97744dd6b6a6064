"""The expected scores are answers of ``GetContainerOOMScoreAdjust`` itself (kubernetes v1.34.4), to these pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simkubelet.model.pod import Pod, PodUID, pod_from_manifest
from simkubelet.model.quality_of_service import oom_score_adj, quality_of_service

CAPACITY = 8_000_000_000
ALL = {"limits": {"cpu": "1", "memory": "1Gi"}}
CRITICAL = {"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "any", "resources": resources}


def sidecar(name: str, **resources: Any) -> dict[str, Any]:
    return {**container(name, **resources), "restartPolicy": "Always"}


def pod_of(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> Pod:
    manifest = {
        "metadata": {"name": "some"},
        "spec": {"containers": list(containers), "initContainers": [*init], **spec},
    }
    return pod_from_manifest(manifest)


def scores(pod: Pod) -> dict[str, int]:
    return {each.name: oom_score_adj(pod, each, CAPACITY) for each in pod.containers}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pod_of(container()), {"main": 1000}, id="best effort"),
        pytest.param(pod_of(container(limits={"memory": "0"})), {"main": 1000}, id="limit of nothing"),
        pytest.param(pod_of(container(**ALL)), {"main": -997}, id="guaranteed"),
        pytest.param(pod_of(container(**ALL, requests={"memory": "0"})), {"main": 999}, id="request of nothing"),
        pytest.param(pod_of(container(requests={"cpu": "1"})), {"main": 999}, id="no memory"),
        pytest.param(pod_of(container(requests={"memory": "4G"})), {"main": 500}, id="half of the node"),
        pytest.param(pod_of(container(requests={"memory": "3G"})), {"main": 625}, id="less"),
        pytest.param(pod_of(container(requests={"memory": "40G"})), {"main": 3}, id="more than the node has"),
        pytest.param(
            pod_of(container("a", **ALL), container("b")), {"a": 866, "b": 1000 - 1}, id="a container without any"
        ),
        pytest.param(
            pod_of(container(requests={"memory": "4G"}), init=(sidecar("small", requests={"memory": "1G"}),)),
            {"small": 500, "main": 500},
            id="small sidecar",
        ),
        pytest.param(
            pod_of(container(requests={"memory": "1G"}), init=(sidecar("big", requests={"memory": "4G"}),)),
            {"big": 500, "main": 875},
            id="big sidecar",
        ),
        pytest.param(
            pod_of(container(requests={"memory": "4G"}), init=(container("init", requests={"memory": "1G"}),)),
            {"init": 875, "main": 500},
            id="init container",
        ),
        pytest.param(pod_of(container(), **CRITICAL), {"main": -997}, id="critical to the node"),
        pytest.param(
            pod_of(container(), priority=2_000_000_000, priorityClassName="system-cluster-critical"),
            {"main": 1000},
            id="critical to the cluster",
        ),
        pytest.param(
            pod_of(container(), priority=0, priorityClassName="system-node-critical"), {"main": 1000}, id="low priority"
        ),
    ],
)
def test_score_is_that_of_a_kubelet(pod: Pod, expected: dict[str, int]) -> None:
    assert scores(pod) == expected


@pytest.mark.parametrize("change", [{"is_static": True}, {"mirror_of": PodUID("1")}])
def test_static_pod_is_critical_whatever_its_priority(change: dict[str, Any]) -> None:
    pod = pod_of(container(), priorityClassName="system-node-critical")

    assert scores(replace(pod, **change)) == {"main": -997}


def test_class_that_the_api_server_has_set_counts() -> None:
    pod = pod_of(container())
    known = replace(pod, manifest={**pod.manifest, "status": {"qosClass": "Guaranteed"}})

    assert quality_of_service(pod.spec) == "BestEffort"
    assert scores(known) == {"main": -997}
