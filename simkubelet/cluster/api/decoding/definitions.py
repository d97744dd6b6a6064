"""The fields of the kinds, as OpenAPI definitions: those of each minor of Kubernetes.

``schema.json`` holds the definitions of the newest release (Apache License 2.0), ``schema_changes.json`` what is
different in a minor from the next one, as a merge patch (RFC 7396) for each definition. A definition that is another
one in a minor than in the newest release, or refers to such, has the minor before its name there:
``1.33/io.k8s.api.resource.v1beta1.DeviceClaim``; so what refers to it is of the minor as well.
``tools.generate.api_schema`` writes both files.

Source: api/openapi-spec/v3 (kubernetes v1.26.15 to v1.37.2).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

from ....model.version import SUPPORTED, Version
from ...objects.objects import merge_patch

__all__ = [
    "Schema",
    "child",
    "definition",
    "definition_name",
    "definitions",
    "element",
    "name_of",
    "plain_name",
    "references",
    "resolved",
    "schema_of",
]

Schema: TypeAlias = Mapping[str, Any]
_REFERENCE: Final = "$ref"


@cache
def definitions() -> dict[str, Schema]:
    """All definitions of the newest release by name; ``$ref`` names another one."""
    return _read("schema.json")


def definition(name: str) -> Schema:
    """The definition of a name, which may begin with a minor."""
    minor, _, _ = name.rpartition("/")
    return _definitions_of(minor)[name] if minor else definitions()[name]


def plain_name(name: str) -> str:
    """A name of a definition without a minor."""
    return name.rpartition("/")[2]


def definition_name(group: str, version: str, kind: str, release: Version | None = None) -> str:
    """The name of a kind's definition in a release, the newest one where it is left out.

    Raises:
        KeyError: it is not among the served ones.
    """
    name = _roots()[group, version, kind]
    if release is None:
        return name
    of_minor = f"1.{release.minor}/{name}"
    return of_minor if of_minor in _definitions_of(f"1.{release.minor}") else name


def schema_of(group: str, version: str, kind: str, release: Version | None = None) -> Schema:
    """The definition of a kind; see `definition_name`, which raises the same."""
    return definition(definition_name(group, version, kind, release))


def name_of(schema: Schema) -> str:
    """The plain name of a kind's definition, of whichever release."""
    kind = schema["x-kubernetes-group-version-kind"][0]
    return _roots()[kind["group"], kind["version"], kind["kind"]]


def resolved(schema: Schema) -> Schema:
    """Replace a schema's reference by the schema that it names; the keys beside the reference are kept."""
    if _REFERENCE not in schema:
        return schema
    return {**definition(schema[_REFERENCE]), **{key: value for key, value in schema.items() if key != _REFERENCE}}


def child(schema: Schema | None, name: str) -> Schema | None:
    """The schema of a field of an object or of a key of a map; None where it is not known."""
    if schema is None:
        return None
    found = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
    return resolved(found) if isinstance(found, dict) else None


def element(schema: Schema | None) -> Schema | None:
    """The schema of the elements of a list; None where it is not known."""
    return resolved(schema["items"]) if schema is not None and "items" in schema else None


def references(schema: Any) -> Iterator[str]:
    """The names of the definitions to which a schema refers, some of them several times."""
    if isinstance(schema, list):
        for inner in schema:
            yield from references(inner)
    elif isinstance(schema, dict):
        if _REFERENCE in schema:
            yield schema[_REFERENCE]
        else:
            yield from references(list(schema.values()))


def _read(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resources.files(__package__).joinpath(file).read_text())
    return found


@cache
def _roots() -> Mapping[tuple[str, str, str], str]:
    """Group, version and kind -> the name of the definition."""
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, schema in definitions().items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    }


@cache
def _definitions_of(minor: str) -> Mapping[str, Schema]:
    """The definitions that are others in a minor than in the newest release, by their names with it."""
    usual, here = definitions(), _all_of(minor)
    others, before = {name for name, schema in here.items() if schema != usual.get(name)}, -1
    while len(others) > before:
        before = len(others)
        others |= {name for name, schema in here.items() if not others.isdisjoint(references(schema))}
    return {f"{minor}/{name}": _of_minor(here[name], others, minor) for name in others}


@cache
def _all_of(minor: str) -> Mapping[str, Schema]:
    """All definitions of a minor, and those of later ones that it lacks."""
    later = SUPPORTED[SUPPORTED.index(minor) + 1 :]
    if not later:
        return definitions()
    found, prefix = dict(_all_of(later[0])), f"{minor}/"
    for name in (name for name in _changes() if name.startswith(prefix)):
        plain = plain_name(name)
        found[plain] = merge_patch(found.get(plain), _changes()[name])
    return found


@cache
def _changes() -> Mapping[str, Any]:
    return _read("schema_changes.json")


def _of_minor(schema: Any, others: Collection[str], minor: str) -> Any:
    """A schema that refers to definitions of the minor where they are others there."""
    if isinstance(schema, list):
        return [_of_minor(inner, others, minor) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _of_minor(inner, others, minor) for name, inner in schema.items()}
    if found.get(_REFERENCE) in others:
        found[_REFERENCE] = f"{minor}/{found[_REFERENCE]}"
    return found
