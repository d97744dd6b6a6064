"""The kinds of resource.k8s.io at the API server: paths, selectors, the status, columns and protobuf."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import Client

GROUP = "/apis/resource.k8s.io/v1"
SLICES = f"{GROUP}/resourceslices"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"


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
