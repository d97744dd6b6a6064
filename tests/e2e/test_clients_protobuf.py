"""A client that speaks protobuf only, as client-go's types read and write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, go_client, live_cluster

pytestmark = pytest.mark.clients

POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
ATTRIBUTES = {
    "index": {"int": 0},
    "model": {"string": "T4"},
    "healthy": {"bool": False},
    "driver": {"version": "1.0.0"},
}
FEATURES = {"attributes": ATTRIBUTES, "capacity": {"memory": {"value": "80Gi"}}}


def answers(cluster: LiveCluster, version: str, device: dict[str, Any]) -> dict[str, Any]:
    """What the client was answered to each of its requests, as the real types have it."""
    slice_ = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "one", "annotations": {"a": "é"}},
        "spec": {"driver": "gpu.example.com", "nodeName": "node-1", "pool": POOL, "devices": [device]},
    }
    text = cluster.run(go_client("SIMKUBELET_PROTOBUF"), version, given=slice_)
    return {line["what"]: line["value"] for line in map(json.loads, text.splitlines())}


@pytest.mark.parametrize(
    ("version", "device"),
    [
        ("v1", {"name": "gpu-0", **FEATURES}),
        ("v1beta2", {"name": "gpu-0", **FEATURES}),
        ("v1beta1", {"name": "gpu-0", "basic": FEATURES}),
    ],
)
def test_real_types_read_objects_lists_watches_and_refusals(version: str, device: dict[str, Any]) -> None:
    with live_cluster("--plain --runtime-config api/beta=true") as cluster:
        seen = answers(cluster, version, device)

    created = seen["created"]
    assert created["spec"]["devices"] == [device]
    assert created["metadata"]["annotations"] == {"a": "é"}
    assert [set(one["fieldsV1"]) for one in created["metadata"]["managedFields"]] == [{"f:metadata", "f:spec"}]
    assert seen["listed"]["items"] == [{name: created[name] for name in ("metadata", "spec")}]
    assert seen["ADDED"]["spec"] == created["spec"]
    assert seen["ADDED"]["metadata"] == created["metadata"]
    assert seen["DELETED"]["metadata"]["uid"] == created["metadata"]["uid"]
    assert int(seen["DELETED"]["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert seen["metadata"]["items"][0]["metadata"] == created["metadata"]
    assert (seen["refused"]["code"], seen["refused"]["details"]["name"]) == (404, "one")
