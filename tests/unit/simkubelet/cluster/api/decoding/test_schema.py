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
