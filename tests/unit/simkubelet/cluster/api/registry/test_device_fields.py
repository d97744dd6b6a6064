"""Objects of resource.k8s.io have the fields of the server's minor; others are unknown to it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

import aiohttp
import pytest

import simkubelet.cluster.api.decoding as decoding
from simkubelet.cluster.api.decoding import definitions as definitions_module
from simkubelet.cluster.api.decoding.decoding import Decoder
from simkubelet.cluster.api.decoding.definitions import definition, plain_name, references, schema_of
from simkubelet.cluster.api.decoding.protobuf import read_protobuf
from simkubelet.cluster.api.decoding.protobuf_writing import written_object
from simkubelet.cluster.api.endpoints.openapi import openapi_v2, openapi_v3
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.served import Served
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import JSON, Objects
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.version import SUPPORTED, version

from ..conftest import Client, ScriptedLogs

GROUP = "resource.k8s.io"
ALL_ON = {"api/beta": True}
TAINTS = [{"key": "a", "effect": "NoSchedule"}]


def served(release: str) -> Served:
    """What a server serves with all its versions on."""
    return Served.by(version(release), ALL_ON)


def slice_(of_version: str, **device: Any) -> JSON:
    fields = {"basic": device} if of_version == "v1beta1" else device
    return {
        "apiVersion": f"{GROUP}/{of_version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "one"},
        "spec": {
            "driver": "d.example.com",
            "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu", **fields}],
        },
    }


def claim(of_version: str, **request: Any) -> JSON:
    choice = {"deviceClassName": "c", **request}
    fields = choice if of_version == "v1beta1" else {"exactly": choice}
    return {
        "apiVersion": f"{GROUP}/{of_version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "one"},
        "spec": {"devices": {"requests": [{"name": "gpu", **fields}]}},
    }


def read(release: str, obj: JSON, validation: str = "") -> list[str]:
    """Decode an object as a server of a release does; return its warnings."""
    warnings: list[str] = []
    of_version = obj["apiVersion"].partition("/")[2]
    Decoder(GROUP, of_version, obj["kind"], validation, warnings, served(release)).read(
        json.dumps(obj).encode(), "application/json"
    )
    return warnings


@pytest.mark.parametrize(
    ("obj", "place", "unknown_in", "known_in"),
    [
        pytest.param(
            slice_("v1beta1", taints=TAINTS), "spec.devices[0].basic.taints", ["1.32"], ["1.33", "1.37"], id="taints"
        ),
        pytest.param(
            claim("v1beta1", tolerations=[]),
            "spec.devices.requests[0].tolerations",
            ["1.32"],
            ["1.33"],
            id="tolerated",
        ),
        pytest.param(
            slice_("v1beta2", bindsToNode=True), "spec.devices[0].bindsToNode", ["1.33"], ["1.34", "1.37"], id="binding"
        ),
        pytest.param(
            slice_("v1", nodeAllocatableResourceMappings={}),
            "spec.devices[0].nodeAllocatableResourceMappings",
            ["1.34", "1.35", "1.37"],
            ["1.36"],
            id="field of one minor only",
        ),
        pytest.param(
            slice_("v1", attributes={"a": {"ints": [1]}}),
            "spec.devices[0].attributes.a.ints",
            ["1.34", "1.35"],
            ["1.36", "1.37"],
            id="lists",
        ),
    ],
)
def test_field_is_known_from_its_minor_on(obj: JSON, place: str, unknown_in: list[str], known_in: list[str]) -> None:
    found = {release: read(release, obj) for release in (*unknown_in, *known_in)}

    unknown = {release: [f'unknown field "{place}"'] for release in unknown_in}
    assert found == {**unknown, **{release: [] for release in known_in}}


def test_strict_client_is_refused_where_the_field_is_unknown() -> None:
    obj = slice_("v1beta1", taints=TAINTS)

    assert read("1.33", obj, "Strict") == []
    with pytest.raises(StatusError) as refused:
        read("1.32", obj, "Strict")
    assert str(refused.value) == (
        'ResourceSlice in version "v1beta1" cannot be handled as a ResourceSlice: strict decoding error: '
        'unknown field "spec.devices[0].basic.taints"'
    )


@asynccontextmanager
async def server(objects: Objects, release: str) -> AsyncIterator[Client]:
    rules, its_version = all_strategies(objects, version(release)), version(release)
    one = ApiServer(objects, rules, logs=ScriptedLogs(), release=its_version, runtime_config=ALL_ON, plain=True)
    NamespaceController(one.registry).ensure_namespaces()
    await one.start()
    try:
        async with aiohttp.ClientSession(one.url) as session:
            yield Client(session)
    finally:
        await one.stop()


async def test_unknown_field_is_pruned_with_a_warning(objects: Objects) -> None:
    path = f"/apis/{GROUP}/v1beta1/resourceslices"
    async with server(objects, "1.32") as client:
        made = await client.post(path, slice_("v1beta1", taints=TAINTS, attributes={"a": {"int": 1}}))
        change = {"spec": {"perDeviceNodeSelection": True}}
        merged = await client.patch(f"{path}/one?fieldValidation=Strict", change, "merge-patch+json")
        applied = await client.patch(
            f"{path}/two?fieldManager=me", slice_("v1beta1", taints=TAINTS), "apply-patch+yaml"
        )

    assert made.code == 201
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.devices[0].basic.taints\\""'
    assert made.body["spec"]["devices"][0]["basic"] == {"attributes": {"a": {"int": 1}}}
    assert (merged.code, 'unknown field "spec.perDeviceNodeSelection"' in merged.body["message"]) == (422, True)
    assert applied.code == 500
    assert ".spec.devices[0].basic.taints: field not declared in schema" in applied.body["message"]


@pytest.mark.parametrize(
    ("release", "fields"),
    [
        ("1.36", {"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "1"}}}),
        ("1.37", {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}),
    ],
)
async def test_new_fields_are_dropped_while_their_gates_are_off(
    objects: Objects, release: str, fields: dict[str, Any]
) -> None:
    counters = {"counterSet": "s", "counters": {"c": {"value": "1"}}}
    groups = {"compatibilityGroups": ["g"]} if release == "1.37" else {}
    whole = {"attributes": {"a": {"int": 1, "ints": [1]}}, "consumesCounters": [{**counters, **groups}], **fields}
    body = slice_("v1", **whole)
    if release == "1.37":
        body["spec"].update(partitionTypeAttribute="d.example.com/type", skipNodeOperations=["Prepare"])
    async with server(objects, release) as client:
        made = await client.post(f"/apis/{GROUP}/v1/resourceslices?fieldValidation=Strict", body)

    assert made.code == 201, made.body
    assert made.body["spec"] == {
        **slice_("v1")["spec"],
        "devices": [{"name": "gpu", "attributes": {"a": {"int": 1}}, "consumesCounters": [counters]}],
    }


async def test_derived_attributes_are_dropped_in_each_version(objects: Objects) -> None:
    derived = {"derivedAttributes": [{"name": "d.example.com/a", "expression": "1"}]}
    async with server(objects, "1.37") as client:
        for of_version in ("v1", "v1beta1"):
            path = f"/apis/{GROUP}/{of_version}/namespaces/default/resourceclaims"
            made = await client.post(f"{path}?fieldValidation=Strict", claim(of_version, **derived))
            await client.send("DELETE", f"{path}/one")

            assert (made.code, made.headers.get("Warning", "").count("unknown")) == (201, 0)
            assert "derivedAttributes" not in json.dumps(made.body["spec"])


def minors_of_changes() -> set[str]:
    changes = json.loads(resources.files(decoding).joinpath("schema_changes.json").read_text())
    return {name.partition("/")[0] for name in changes}


def test_changes_are_those_of_minors_before_the_newest() -> None:
    assert minors_of_changes() <= set(SUPPORTED[:-1])


def test_every_change_changes_something() -> None:
    changes = json.loads(resources.files(decoding).joinpath("schema_changes.json").read_text())
    for name in changes:
        assert definition(name) != definitions_module.definitions().get(plain_name(name)), name


def dangling(document: JSON, schemas: JSON, prefix: str) -> set[str]:
    found = {name.removeprefix(prefix) for name in references(document)}
    return found - schemas.keys()


@pytest.mark.parametrize("release", [one for one in SUPPORTED if one >= "1.32"])
def test_openapi_documents_have_the_fields_of_the_minor(release: str) -> None:
    here = served(release)
    documents = {one: openapi_v3(here, f"apis/{GROUP}/{one}", "v") for one in here.versions(GROUP)}
    devices = {
        one: document["components"]["schemas"][f"io.k8s.api.resource.{one}.{name}"]["properties"]
        for one, name in (("v1beta1", "BasicDevice"), ("v1beta2", "Device"), ("v1", "Device"))
        if (document := documents.get(one)) is not None
    }
    everything = openapi_v2(here, "v")

    for fields in devices.values():
        assert ("taints" in fields) == (release > "1.32")
        assert ("bindsToNode" in fields) == (release > "1.33")
        assert ("nodeAllocatableResourceMappings" in fields) == (release == "1.36")
        assert ("nodeAllocatableResources" in fields) == (release == "1.37")
    for document in filter(None, documents.values()):
        schemas = document["components"]["schemas"]
        assert dangling(document, schemas, "#/components/schemas/") == set()
        assert not any("/" in name for name in schemas)
    assert dangling(everything, everything["definitions"], "#/definitions/") == set()


def test_documents_of_1_34_and_1_35_have_the_same_fields() -> None:
    old, new = served("1.34"), served("1.35")

    assert openapi_v3(old, f"apis/{GROUP}/v1", "v") == openapi_v3(new, f"apis/{GROUP}/v1", "v")


def test_protobuf_has_the_fields_of_the_minor() -> None:
    obj = claim("v1", derivedAttributes=[{"name": "a"}])
    new, old = (schema_of(GROUP, "v1", "ResourceClaim", version(release)) for release in ("1.37", "1.36"))
    written = written_object(obj, new)

    assert read_protobuf(written, new)["spec"] == obj["spec"]
    assert read_protobuf(written, old)["spec"] == claim("v1")["spec"]
    assert read_protobuf(written_object(obj, old), new)["spec"] == claim("v1")["spec"]
