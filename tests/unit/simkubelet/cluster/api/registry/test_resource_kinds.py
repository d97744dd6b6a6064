"""The kinds of resource.k8s.io at the API server: paths, selectors, the status, columns and protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from simkubelet.cluster.api.registry.strategy import Strategy
from simkubelet.cluster.objects.objects import Objects
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.version import version

from ..conftest import Client

GROUP = "/apis/resource.k8s.io/v1"
SLICES = f"{GROUP}/resourceslices"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
PROTOBUF = "application/vnd.kubernetes.protobuf"
A_SLICE = bytes.fromhex(
    "6b3873000a230a127265736f757263652e6b38732e696f2f7631120d5265736f75726365536c69636512ae010a270a0012176e6f6465"
    "2d312d6770752e6578616d706c652e636f6d2d1a0022002a003200380042001282010a0f6770752e6578616d706c652e636f6d120c0a"
    "066e6f64652d31100118011a066e6f64652d3132590a056770752d3012180a0d64726976657256657273696f6e12072a05312e302e30"
    "120b0a05656d70747912022200120b0a05696e6465781202100012080a026f6e120218001a120a066d656d6f727912080a060a043830"
    "47691a002200"
)
"""What client-go v0.34.4 sends for a slice with one device, whose attributes are zero, false, empty and a version."""
A_CLAIM = bytes.fromhex(
    "6b3873000a230a127265736f757263652e6b38732e696f2f7631120d5265736f75726365436c61696d12670a180a016312001a076465"
    "6661756c7422002a0032003800420012490a470a1e0a0367707512170a0f6770752e6578616d706c652e636f6d1a00200028001a250a"
    "03677075121e0a1c0a0f6770752e6578616d706c652e636f6d12090a077b2261223a317d1a001a002200"
)
"""Likewise, a claim with parameters for a driver."""


@pytest.fixture
def rules(objects: Objects) -> Mapping[str, Strategy]:
    return all_strategies(objects)


def a_slice(name: str, node: str = "node-1", driver: str = DRIVER) -> dict[str, Any]:
    pool = {"name": node, "generation": 0, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": node, "pool": pool}}


def a_claim(name: str) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}


async def test_discovery_lists_the_group(client: Client) -> None:
    answer = await client.get(GROUP)

    assert [(one["name"], one["namespaced"]) for one in answer.body["resources"]] == [
        ("deviceclasses", False),
        ("resourceclaims", True),
        ("resourceclaims/status", True),
        ("resourceclaimtemplates", True),
        ("resourceslices", False),
    ]


async def test_slices_are_selected_by_node_and_driver(client: Client) -> None:
    for one in (a_slice("a"), a_slice("b", "node-2"), a_slice("c", driver="other.example.com")):
        assert (await client.post(SLICES, one)).code == 201

    by_both = await client.get(f"{SLICES}?fieldSelector=spec.driver={DRIVER},spec.nodeName=node-1")
    refused = await client.get(f"{SLICES}?fieldSelector=metadata.namespace=x")
    await client.send("DELETE", f"{SLICES}?fieldSelector=spec.nodeName=node-1")
    left = await client.get(SLICES)

    assert [one["metadata"]["name"] for one in by_both.body["items"]] == ["a"]
    why = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: metadata.namespace"
    assert (refused.code, refused.body["message"]) == (400, why)
    assert [one["metadata"]["name"] for one in left.body["items"]] == ["b"]


async def test_watch_list_of_slices_ends_with_a_bookmark(client: Client) -> None:
    await client.post(SLICES, a_slice("a"))
    asked = {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}

    async with client.watch(SLICES, fieldSelector="spec.nodeName=node-1", **asked) as watch:
        (first, found), (last, bookmark) = await watch.next(), await watch.next()

    assert (first, found["metadata"]["name"], last) == ("ADDED", "a", "BOOKMARK")
    assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_deleted_claim_is_the_answer(client: Client) -> None:
    await client.post(CLAIMS, a_claim("one"))

    answer = await client.send("DELETE", f"{CLAIMS}/one")

    assert (answer.code, answer.body["kind"], answer.body["metadata"]["name"]) == (200, "ResourceClaim", "one")


async def test_slice_of_a_driver_comes_as_protobuf(client: Client) -> None:
    created = await client.post(SLICES, A_SLICE, type_=PROTOBUF, headers={"Accept": f"application/json,{PROTOBUF}"})

    assert created.code == 201, created.body
    assert created.body["metadata"]["name"].startswith("node-1-gpu.example.com-")
    attributes = {"driverVersion": {"version": "1.0.0"}, "empty": {"string": ""}, "index": {"int": 0}}
    device = {
        "name": "gpu-0",
        "attributes": {**attributes, "on": {"bool": False}},
        "capacity": {"memory": {"value": "80Gi"}},
    }
    assert created.body["spec"] == {
        **a_slice("", "node-1")["spec"],
        "devices": [device],
        "pool": created.body["spec"]["pool"],
    }


async def test_claim_comes_as_protobuf(client: Client) -> None:
    created = await client.post(CLAIMS, A_CLAIM, type_=PROTOBUF)

    assert created.code == 201, created.body
    exactly = {"deviceClassName": DRIVER, "adminAccess": False, "allocationMode": "ExactCount", "count": 1}
    opaque = {"driver": DRIVER, "parameters": {"a": 1}}
    assert created.body["spec"]["devices"] == {
        "requests": [{"name": "gpu", "exactly": exactly}],
        "config": [{"requests": ["gpu"], "opaque": opaque}],
    }
    assert created.body["status"] == {}


async def test_status_of_a_claim_is_written_by_itself(client: Client) -> None:
    await client.post(CLAIMS, {**a_claim("one"), "status": {"reservedFor": []}})
    result = {"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}}

    ignored = await client.send("PUT", f"{CLAIMS}/one", {**a_claim("one"), "status": status})
    refused = await client.send("PUT", f"{CLAIMS}/one/status", {**a_claim("one"), "status": {"reservedFor": [{}]}})
    written = await client.send("PUT", f"{CLAIMS}/one/status", {**a_claim("one"), "status": status})

    assert ignored.body["status"] == {}
    assert "may not be specified when `allocated` is not set" in refused.body["message"]
    assert written.body["status"] == status


@pytest.mark.parametrize(
    ("plural", "body", "columns", "row"),
    [
        (SLICES, a_slice("a"), ["Name", "Node", "Driver", "Pool", "Age"], ["a", "node-1", DRIVER, "node-1", "0s"]),
        (CLAIMS, a_claim("a"), ["Name", "State", "Age"], ["a", "pending", "0s"]),
        (f"{GROUP}/deviceclasses", {"metadata": {"name": "a"}, "spec": {}}, ["Name", "Age"], ["a", "0s"]),
    ],
    ids=["slice", "claim", "class"],
)
async def test_kubectl_columns(
    client: Client, plural: str, body: dict[str, Any], columns: list[str], row: list[str]
) -> None:
    await client.post(plural, body)

    answer = await client.get(plural, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})

    assert [one["name"] for one in answer.body["columnDefinitions"]] == columns
    assert answer.body["rows"][0]["cells"] == row


async def test_shared_counters_are_in_slices_of_their_own_from_1_35_on(objects: Objects) -> None:
    counters = {"units": {"value": "4"}}
    shared = {"sharedCounters": [{"name": "gpu", "counters": counters}]}
    devices = {"devices": [{"name": "gpu-0", "consumesCounters": [{"counterSet": "gpu", "counters": counters}]}]}

    def errors(release: str, *parts: Mapping[str, Any]) -> list[str]:
        rules = all_strategies(objects, version(release))["resourceslices.resource.k8s.io"]
        new = a_slice("a")
        for part in parts:
            new["spec"] |= part
        rules.default(new)
        return [str(error) for error in rules.validate(new)]

    both = 'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'
    assert errors("1.36", shared) == errors("1.36", devices) == []
    assert errors("1.36", shared, devices) == [both]
    assert errors("1.34", shared, devices) == []
    assert errors("1.34", devices) != []
