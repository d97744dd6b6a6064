"""Manifests that name nodes, for a cluster whose nodes have other names."""

from typing import Any

from scenarios.backends.kind.pods import placed

_NAMES = {"node-1": "dev-control-plane", "node-2": "dev-worker"}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "node-1"}, "spec": {"containers": [{"name": "node-2"}], **spec}}


def test_a_bound_pod_is_bound_to_the_clusters_node() -> None:
    assert placed(pod(nodeName="node-2"), _NAMES) == pod(nodeName="dev-worker")


def test_a_label_that_every_node_has_of_its_name_is_translated() -> None:
    selector = {"kubernetes.io/hostname": "node-1", "zone": "a"}

    assert placed(pod(nodeSelector=selector), _NAMES) == pod(
        nodeSelector={"kubernetes.io/hostname": "dev-control-plane", "zone": "a"}
    )


def test_affinity_is_translated_however_deep_the_name_is() -> None:
    def affinity(*names: str) -> dict[str, Any]:
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    assert placed(pod(affinity=affinity("node-1", "other")), _NAMES) == pod(
        affinity=affinity("dev-control-plane", "other")
    )


def test_nothing_else_of_a_manifest_changes() -> None:
    assert placed(pod(), _NAMES) == pod()
