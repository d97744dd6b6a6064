"""The schema that comes with the API server is whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources

import pytest

import simkubelet.cluster.api.decoding as decoding
from simkubelet.cluster.api.decoding.definitions import (
    Schema,
    definition,
    definition_name,
    definitions,
    plain_name,
    references,
    schema_of,
)
from simkubelet.cluster.api.registry.kinds import KINDS, Kind
from simkubelet.model.version import SUPPORTED, version

SPECIAL = ("Quantity", "IntOrString", "Time", "MicroTime", "FieldsV1", "RawExtension")


def test_every_reference_leads_somewhere() -> None:
    assert set(references(definitions())) <= definitions().keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource))
def test_every_kind_has_fields(kind: Kind) -> None:
    assert "metadata" in schema_of(kind.group, kind.version, kind.kind)["properties"]


def all_definitions() -> Iterator[tuple[str, Schema]]:
    """Those of all minors."""
    waiting = [
        definition_name(kind.group, kind.version, kind.kind, version(release))
        for kind in KINDS
        for release in SUPPORTED
    ]
    seen = set(definitions())
    yield from definitions().items()
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            waiting += references(definition(name))
            yield name, definition(name)


@pytest.mark.parametrize(
    ("message", "field", "minors"),
    [
        pytest.param("Container", "restartPolicy", [one for one in SUPPORTED if one >= "1.28"], id="later"),
        pytest.param("PodSpec", "hostnameOverride", [one for one in SUPPORTED if one >= "1.34"], id="1.34"),
        pytest.param("PodSpec", "workloadRef", ["1.35"], id="of one minor"),
        pytest.param("PodSpec", "schedulingGroup", ["1.36", "1.37"], id="in its place"),
        pytest.param("PodResourceClaim", "source", [one for one in SUPPORTED if one <= "1.30"], id="gone"),
        pytest.param("NodeStatus", "declaredFeatures", ["1.35", "1.36", "1.37"], id="of nodes"),
    ],
)
def test_kinds_have_the_fields_of_the_minor(message: str, field: str, minors: list[str]) -> None:
    def fields(release: str, kind: str) -> Iterator[tuple[str, str]]:
        seen, waiting = set[str](), [definition_name("", "v1", kind, version(release))]
        while waiting:
            if (name := waiting.pop()) not in seen:
                seen.add(name)
                waiting += references(definition(name))
                plain = plain_name(name).rpartition(".")[2]
                yield from ((plain, field) for field in definition(name).get("properties", ()))

    kind = "Node" if message == "NodeStatus" else "Pod"

    assert [release for release in SUPPORTED if (message, field) in fields(release, kind)] == minors


def test_definitions_of_a_minor_refer_to_its_own() -> None:
    own = {plain_name(name) for name, _ in all_definitions() if name.startswith("1.33/")}
    of_minor = [schema for name, schema in all_definitions() if name.startswith("1.33/")]

    assert "io.k8s.api.resource.v1beta2.ResourceSlice" in own
    assert own.isdisjoint(name for schema in of_minor for name in references(schema))


def test_every_field_has_a_number() -> None:
    numbers = json.loads(resources.files(decoding).joinpath("field_numbers.json").read_text())

    def numbered(message: str) -> set[str]:
        found: set[str] = set()
        for field, number in numbers[message].items():
            found |= numbered(number[1]) if isinstance(number, list) else {field}
        return found

    for name, schema in all_definitions():
        if name.rpartition(".")[2] not in SPECIAL and schema.get("properties"):
            assert set(schema["properties"]) - {"apiVersion", "kind"} <= numbered(plain_name(name)), name


def test_lists_are_merged_by_the_keys_of_kubernetes() -> None:
    containers = definitions()["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
