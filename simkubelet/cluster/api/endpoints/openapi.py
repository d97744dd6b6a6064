"""The OpenAPI documents of the served kinds, from which kubectl learns fields, merge keys and options.

Source: staging/src/k8s.io/apiserver/pkg/server/routes/openapi.go; k8s.io/kube-openapi, pkg/handler3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from ...objects.objects import JSON
from ..decoding.schema import Schema, definitions
from ..patching.patches import PATCH_TYPES
from ..registry.kinds import KINDS, Kind

__all__ = ["openapi_v2", "openapi_v2_protobuf", "openapi_v3", "openapi_v3_index"]

_OPTIONS: Final = {
    "post": ("dryRun", "fieldManager", "fieldValidation"),
    "put": ("dryRun", "fieldManager", "fieldValidation"),
    "patch": ("dryRun", "fieldManager", "fieldValidation", "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"),
    "get": (),
}
_ON_LIST: Final = {"get": "list", "post": "create", "delete": "deletecollection"}
_ON_ITEM: Final = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
_V2: Final = "#/definitions/"
_V3: Final = "#/components/schemas/"


@cache
def openapi_v3_index() -> JSON:
    """Where the document of each group and version is."""
    paths = {}
    for path in dict.fromkeys(_prefix(kind) for kind in KINDS):
        digest = hashlib.sha512(json.dumps(openapi_v3(path, "")).encode()).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


@cache
def openapi_v3(prefix: str, version: str) -> JSON | None:
    """The document of one group and version, as ``apis/apps/v1``; None where nothing is served there."""
    kinds = [kind for kind in KINDS if _prefix(kind) == prefix]
    if not kinds:
        return None
    names = [_name_of(kind) for kind in kinds]
    names += [_deep for kind in kinds for sub in kind.subresources if (_deep := _name_of_kind(sub.kind, sub.group))]
    schemas = {name: _with_references(definitions()[name], _V3) for name in sorted(_closure(names))}
    document: JSON = {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": version}}
    paths = {path: item for kind in kinds for path, item in _paths(kind, _V3)}
    return {**document, "paths": paths, "components": {"schemas": schemas}}


@cache
def openapi_v2(version: str) -> JSON:
    """One document of all."""
    schemas = {name: _with_references(schema, _V2) for name, schema in definitions().items()}
    paths = {path: item for kind in KINDS for path, item in _paths(kind, _V2)}
    info = {"title": "Kubernetes", "version": version}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas}


def openapi_v2_protobuf(version: str) -> bytes:
    """The same in protobuf, without paths and definitions: kubectl asks for it only about kinds that are not served.

    Source: github.com/google/gnostic-models, openapiv2/OpenAPIv2.proto, ``Document``.
    """
    info = _text(1, "Kubernetes") + _text(2, version)
    return _text(1, "2.0") + bytes([2 << 3 | 2, len(info)]) + info


def _text(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def _prefix(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


@cache
def _name_of_kind(kind: str, group: str) -> str | None:
    for name, schema in definitions().items():
        for gvk in schema.get("x-kubernetes-group-version-kind", ()):
            if (gvk["kind"], gvk["group"]) == (kind, group):
                return name
    return None


def _name_of(kind: Kind) -> str:
    name = _name_of_kind(kind.kind, kind.group)
    if name is None:
        raise LookupError(f"no schema of {kind.group_kind}")
    return name


def _closure(names: list[str]) -> set[str]:
    found: set[str] = set()
    waiting = [*names, "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(definitions()[name])
    return found


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for inner in schema for name in _references(inner)]
    if not isinstance(schema, dict):
        return []
    return [schema["$ref"]] if "$ref" in schema else [name for inner in schema.values() for name in _references(inner)]


def _with_references(schema: Schema, prefix: str) -> JSON:
    """Return a schema with a document's references; the keys beside a reference are kept with it."""

    def translated(value: Any) -> Any:
        if isinstance(value, list):
            return [translated(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if "$ref" not in value:
            return {name: translated(inner) for name, inner in value.items()}
        extras = {name: inner for name, inner in value.items() if name != "$ref"}
        return {"allOf": [{"$ref": prefix + value["$ref"]}], **extras} if extras else {"$ref": prefix + value["$ref"]}

    found: JSON = translated(dict(schema))
    return found


def _paths(kind: Kind, references: str) -> Iterator[tuple[str, JSON]]:
    base = f"/{_prefix(kind)}/namespaces/{{namespace}}" if kind.namespaced else f"/{_prefix(kind)}"
    collection = f"{base}/{kind.plural}"
    yield collection, _operations(kind, _ON_LIST, references)
    yield f"{collection}/{{name}}", _operations(kind, _ON_ITEM, references)
    for sub in kind.subresources:
        if sub.name == "status":
            yield f"{collection}/{{name}}/status", _operations(kind, _ON_ITEM, references, sub.verbs)


def _operations(kind: Kind, methods: dict[str, str], references: str, verbs: tuple[str, ...] = ()) -> JSON:
    gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    schema = {"$ref": references + _name_of(kind)}
    found = {}
    for method, verb in methods.items():
        if verb not in (verbs or kind.verbs):
            continue
        media = {"application/json": {"schema": schema}}
        ok: JSON = (
            {"description": "OK", "content": media} if references == _V3 else {"description": "OK", "schema": schema}
        )
        operation: JSON = {
            "parameters": [_parameter(name, references) for name in _OPTIONS[method]],
            "responses": {"200": ok},
            "x-kubernetes-action": verb.replace("update", "put").replace("create", "post"),
            "x-kubernetes-group-version-kind": gvk,
        }
        if method == "patch" and references == _V2:
            operation["consumes"] = list(PATCH_TYPES)
        found[method] = operation
    return found


def _parameter(name: str, references: str) -> JSON:
    flags, numbers = ("force", "orphanDependents"), ("gracePeriodSeconds",)
    type_ = "boolean" if name in flags else "integer" if name in numbers else "string"
    form: JSON = {"type": type_, "uniqueItems": True}
    return {"name": name, "in": "query", **({"schema": form} if references == _V3 else form)}
