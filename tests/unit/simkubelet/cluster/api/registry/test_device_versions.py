"""Objects of resource.k8s.io in the versions of their group, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.registry.device_versions import from_v1, to_v1
from simkubelet.cluster.api.registry.served import runtime_config
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import JSON, Objects
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.version import version
from tests.support.random_devices import OF_DEVICES, WHOLE_V1BETA1
from tests.support.random_objects import changed, changes

from ..conftest import Client, ScriptedLogs

GROUP = "/apis/resource.k8s.io"
CLAIMS = "namespaces/default/resourceclaims"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def serving(objects: Objects, release: str, *entries: str) -> AsyncIterator[Client]:
    rules = all_strategies(objects, version(release))
    config = runtime_config(entries)
    server = ApiServer(objects, rules, logs=ScriptedLogs(), release=version(release), runtime_config=config, plain=True)
    NamespaceController(server.registry).ensure_namespaces()
    await server.start()
    async with aiohttp.ClientSession(server.url) as session:
        yield Client(session)
    await server.stop()


@pytest.fixture
async def client(objects: Objects) -> AsyncIterator[Client]:
    """To a server with all versions."""
    async for one in serving(objects, "1.34", "api/beta=true"):
        yield one


@pytest.fixture
async def newer(objects: Objects) -> AsyncIterator[Client]:
    async for one in serving(objects, "1.37", "api/beta=true"):
        yield one


def claim(version: str, **request: Any) -> JSON:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "one"},
        "spec": {"devices": {"requests": [{"name": "gpu", **request}]}},
    }


def slice_(**device: Any) -> JSON:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu", **device}]}
    return {"metadata": {"name": "one"}, "spec": spec}


async def test_object_of_one_version_is_read_in_each(client: Client) -> None:
    made = await client.post(f"{GROUP}/v1beta1/{CLAIMS}", claim("v1beta1", deviceClassName="gpu", count=2))
    read = {one: (await client.get(f"{GROUP}/{one}/{CLAIMS}/one")).body for one in ("v1", "v1beta2", "v1beta1")}
    requests = {one: body["spec"]["devices"]["requests"] for one, body in read.items()}
    choice = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}

    assert made.code == 201
    assert made.body["apiVersion"] == "resource.k8s.io/v1beta1"
    assert requests["v1"] == requests["v1beta2"] == [{"name": "gpu", "exactly": choice}]
    assert requests["v1beta1"] == [{"name": "gpu", **choice}]
    assert {one: body["apiVersion"].partition("/")[2] for one, body in read.items()} == {one: one for one in read}


async def test_devices_of_v1beta1_are_basic(client: Client) -> None:
    features = {"attributes": {"a": {"int": 1}}, "capacity": {"memory": {"value": "1Gi"}}}
    await client.post(f"{GROUP}/v1beta1/resourceslices", slice_(basic=features))
    listed = (await client.get(f"{GROUP}/v1/resourceslices")).body["items"]
    old = (await client.get(f"{GROUP}/v1beta1/resourceslices")).body

    assert listed[0]["spec"]["devices"] == [{"name": "gpu", **features}]
    assert old["kind"], old["apiVersion"] == ("ResourceSliceList", "resource.k8s.io/v1beta1")
    assert old["items"][0]["spec"]["devices"] == [{"name": "gpu", "basic": features}]


async def test_watch_has_the_version_of_its_path(client: Client) -> None:
    async with client.watch(f"{GROUP}/v1beta1/resourceslices", fieldSelector="spec.driver=d") as watch:
        await client.post(f"{GROUP}/v1/resourceslices", slice_(attributes={"a": {"bool": True}}))
        type_, seen = await watch.next()

    assert (type_, seen["apiVersion"]) == ("ADDED", "resource.k8s.io/v1beta1")
    assert seen["spec"]["devices"][0]["basic"] == {"attributes": {"a": {"bool": True}}}


async def test_patch_is_of_the_version_of_its_path(client: Client) -> None:
    await client.post(f"{GROUP}/v1/resourceslices", slice_())
    change = [{"op": "add", "path": "/spec/devices/0/basic/attributes", "value": {"a": {"string": "x"}}}]
    answer = await client.patch(f"{GROUP}/v1beta1/resourceslices/one", change, "json-patch+json")
    stored = (await client.get(f"{GROUP}/v1/resourceslices/one")).body

    assert answer.body["spec"]["devices"] == [{"name": "gpu", "basic": {"attributes": {"a": {"string": "x"}}}}]
    assert stored["spec"]["devices"] == [{"name": "gpu", "attributes": {"a": {"string": "x"}}}]


async def test_managers_of_other_versions_lose_what_is_changed(client: Client) -> None:
    await client.post(f"{GROUP}/v1/resourceslices?fieldManager=new", slice_(attributes={"a": {"int": 1}}))
    changed_device = slice_(basic={"attributes": {"a": {"int": 2}}})
    await client.send("PUT", f"{GROUP}/v1beta1/resourceslices/one?fieldManager=old", changed_device)
    read = (await client.get(f"{GROUP}/v1/resourceslices/one")).body["metadata"]["managedFields"]
    owned = {entry["manager"]: (entry["apiVersion"], entry["fieldsV1"]["f:spec"]) for entry in read}

    assert {name: api_version for name, (api_version, _) in owned.items()} == {
        "new": "resource.k8s.io/v1",
        "old": "resource.k8s.io/v1beta1",
    }
    assert "f:devices" in owned["old"][1]
    assert "f:devices" not in owned["new"][1]


async def test_apply_in_another_version_is_of_the_same_manager(client: Client) -> None:
    path, query = f"{CLAIMS}/one", "fieldManager=me"
    first = claim("v1", exactly={"deviceClassName": "gpu"})
    first["metadata"]["labels"] = {"a": "b"}
    made = await client.patch(f"{GROUP}/v1/{path}?{query}", first, "apply-patch+yaml")
    again = await client.patch(
        f"{GROUP}/v1beta1/{path}?{query}", claim("v1beta1", deviceClassName="gpu"), "apply-patch+yaml"
    )

    assert (made.code, again.code) == (201, 200)
    assert "labels" not in again.body["metadata"]
    assert [entry["apiVersion"] for entry in again.body["metadata"]["managedFields"]] == ["resource.k8s.io/v1beta1"]


async def test_request_without_class_is_refused_as_it_was_sent(client: Client) -> None:
    answer = await client.post(f"{GROUP}/v1beta1/{CLAIMS}", claim("v1beta1", adminAccess=False))
    fields = {cause["field"].rpartition(".")[2] for cause in answer.body["details"]["causes"]}

    assert answer.code == 422
    assert answer.body["message"].startswith('ResourceClaim.resource.k8s.io "one" is invalid')
    assert fields == {"deviceClassName", "allocationMode"}


async def test_body_of_another_version_is_refused(client: Client) -> None:
    answer = await client.post(f"{GROUP}/v1beta1/{CLAIMS}", claim("v1", exactly={"deviceClassName": "gpu"}))

    assert (answer.code, answer.body["message"]) == (
        400,
        "the API version in the data (resource.k8s.io/v1) does not match the expected API version "
        "(resource.k8s.io/v1beta1)",
    )


async def test_field_selector_names_the_version(client: Client) -> None:
    answer = await client.get(f"{GROUP}/v1beta2/resourceslices?fieldSelector=spec.pool=a")

    assert answer.body["message"] == (
        "field label not supported for resource.k8s.io/v1beta2, Kind=ResourceSlice: spec.pool"
    )


@pytest.mark.parametrize("served_as", ["v1", "v1beta2", "v1beta1"])
async def test_slices_are_selected_by_pool_from_1_37(client: Client, newer: Client, served_as: str) -> None:
    await newer.post(f"{GROUP}/v1/resourceslices", slice_())
    path = f"{GROUP}/{served_as}/resourceslices?fieldSelector=spec.pool.name"

    refused = await client.get(f"{path}=p")
    found = await newer.get(f"{path}=p")
    others = await newer.get(f"{path}!=p")

    why = f"field label not supported for resource.k8s.io/{served_as}, Kind=ResourceSlice: spec.pool.name"
    assert (refused.code, refused.body["message"]) == (400, why)
    assert [one["metadata"]["name"] for one in found.body["items"]] == ["one"]
    assert others.body["items"] == []


async def test_status_collection_and_table_are_of_each_version(client: Client) -> None:
    await client.post(f"{GROUP}/v1beta1/{CLAIMS}", claim("v1beta1", deviceClassName="gpu"))
    found = (await client.get(f"{GROUP}/v1beta1/{CLAIMS}/one")).body
    user = {"resource": "pods", "name": "p", "uid": "u"}
    found["status"] = {"allocation": {"devices": {"results": []}}, "reservedFor": [user]}
    status = await client.send("PUT", f"{GROUP}/v1beta1/{CLAIMS}/one/status", found)
    table = await client.get(f"{GROUP}/v1beta1/{CLAIMS}", headers={"Accept": TABLE})
    deleted = await client.send("DELETE", f"{GROUP}/v1beta2/{CLAIMS}")
    left = await client.get(f"{GROUP}/v1/{CLAIMS}")

    assert status.body["status"]["reservedFor"] == [user]
    assert table.body["rows"][0]["cells"][:2] == ["one", "allocated,reserved"]
    assert (deleted.body["kind"], deleted.body["apiVersion"]) == ("ResourceClaimList", "resource.k8s.io/v1beta2")
    assert left.body["items"] == []


async def test_discovery_prefers_the_newest_version(client: Client) -> None:
    group = (await client.get(GROUP)).body
    resources = (await client.get(f"{GROUP}/v1beta1")).body
    aggregated = (
        await client.get(
            "/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        )
    ).body
    (of_group,) = [one for one in aggregated["items"] if one["metadata"]["name"] == "resource.k8s.io"]
    index = (await client.get("/openapi/v3")).body["paths"]
    schemas = (await client.get("/openapi/v3/apis/resource.k8s.io/v1beta1")).body["components"]["schemas"]

    assert group["preferredVersion"]["version"] == "v1"
    assert [one["version"] for one in group["versions"]] == ["v1", "v1beta2", "v1beta1"]
    assert [one["version"] for one in of_group["versions"]] == ["v1", "v1beta2", "v1beta1"]
    assert "resourceclaims/status" in [one["name"] for one in resources["resources"]]
    assert "apis/resource.k8s.io/v1beta2" in index
    assert "io.k8s.api.resource.v1beta1.BasicDevice" in schemas


async def test_version_that_is_off_is_not_there(objects: Objects) -> None:
    async for client in serving(objects, "1.34"):
        one = await client.get(f"{GROUP}/v1beta1/resourceslices")
        group = (await client.get(GROUP)).body
        posted = await client.post(f"{GROUP}/v1/{CLAIMS}", claim("v1beta1", deviceClassName="gpu"))

        assert (one.code, one.body["message"]) == (404, "the server could not find the requested resource")
        assert [one["version"] for one in group["versions"]] == ["v1"]
        assert posted.body["message"].startswith("the API version in the data (resource.k8s.io/v1beta1)")


async def test_group_without_versions_is_not_there(objects: Objects) -> None:
    async for client in serving(objects, "1.33"):
        groups = (await client.get("/apis")).body["groups"]
        found = await client.get(f"{GROUP}/v1/resourceslices")

        assert "resource.k8s.io" not in [group["name"] for group in groups]
        assert (found.code, found.body) == (404, "404 page not found\n")


async def test_old_version_warns_with_each_answer(newer: Client) -> None:
    text = "resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+"
    path = f"{GROUP}/v1beta1/resourceslices"
    listed, missing = await newer.get(path), await newer.get(f"{path}/none")
    made = await newer.post(path, slice_())

    assert [one.headers["Warning"] for one in (listed, missing, made)] == [f'299 - "{text}"'] * 3
    assert "Warning" not in (await newer.get(f"{GROUP}/v1/resourceslices")).headers


@given(st.sampled_from([(kind, one) for kind, each in WHOLE_V1BETA1.items() for one in each]), changes)
def test_conversion_keeps_what_is_said(whole: tuple[str, Any], drawn: list[Any]) -> None:
    """What conversion makes of an object is the same when it has been there and back."""
    kind, obj = whole[0], changed(whole[1], drawn, OF_DEVICES)
    in_v1 = to_v1("v1beta1", kind)(obj)

    assert to_v1("v1beta1", kind)(from_v1("v1beta1", kind)(in_v1)) == in_v1
