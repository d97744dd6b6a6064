"""The schema that comes with the API server is whole."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest

import simkubelet.cluster.api.decoding as decoding
from simkubelet.cluster.api.decoding.schema import definitions, schema_of
from simkubelet.cluster.api.registry.kinds import KINDS, Kind

SPECIAL = ("Quantity", "IntOrString", "Time", "MicroTime", "FieldsV1", "RawExtension")


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_reference_leads_somewhere() -> None:
    assert references(dict(definitions())) <= definitions().keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource))
def test_every_kind_has_fields(kind: Kind) -> None:
    assert "metadata" in schema_of(kind.group, kind.version, kind.kind)["properties"]


def test_every_field_has_a_number() -> None:
    numbers = json.loads(resources.files(decoding).joinpath("field_numbers.json").read_text())

    def numbered(message: str) -> set[str]:
        found: set[str] = set()
        for field, number in numbers[message].items():
            found |= numbered(number[1]) if isinstance(number, list) else {field}
        return found

    for name, schema in definitions().items():
        if name.rpartition(".")[2] not in SPECIAL and schema.get("properties"):
            assert set(schema["properties"]) - {"apiVersion", "kind"} <= numbered(name), name


def test_lists_are_merged_by_the_keys_of_kubernetes() -> None:
    containers = definitions()["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
