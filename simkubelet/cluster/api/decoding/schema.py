"""The fields of the served kinds: their types and how lists of them are merged.

``schema.json`` holds them as OpenAPI definitions; ``tools.generate.api_schema`` writes it from the documents of
Kubernetes v1.34.4 (Apache License 2.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeAlias

__all__ = ["Schema", "child", "definitions", "element", "resolved", "schema_of"]

Schema: TypeAlias = Mapping[str, Any]


@cache
def definitions() -> dict[str, Schema]:
    """All definitions by name; ``$ref`` names another one."""
    text = resources.files(__package__).joinpath("schema.json").read_text()
    found: dict[str, Schema] = json.loads(text)
    return found


@cache
def schema_of(group: str, version: str, kind: str) -> Schema:
    """The definition of a kind.

    Raises:
        KeyError: it is not among the served ones.
    """
    wanted = {"group": group, "version": version, "kind": kind}
    for schema in definitions().values():
        if wanted in schema.get("x-kubernetes-group-version-kind", ()):
            return schema
    raise KeyError(kind)


def resolved(schema: Schema) -> Schema:
    """A schema itself where it refers to another one; what stands beside the reference is kept."""
    if "$ref" not in schema:
        return schema
    return {**definitions()[schema["$ref"]], **{key: value for key, value in schema.items() if key != "$ref"}}


def child(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a field of an object or of a key of a map; None where it is not known."""
    if schema is None:
        return None
    found = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
    return resolved(found) if isinstance(found, dict) else None


def element(schema: Schema | None) -> Schema | None:
    """The schema of the elements of a list; None where it is not known."""
    return resolved(schema["items"]) if schema is not None and "items" in schema else None
