"""The OpenAPI documents of the kinds that a server serves, from which kubectl learns fields, merge keys and options.

Source: staging/src/k8s.io/apiserver/pkg/server/routes/openapi.go (kubernetes v1.34.4); k8s.io/kube-openapi,
pkg/handler3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from ...objects.objects import JSON
from ..decoding.definitions import Schema, definition, definition_name, plain_name, references
from ..patching.patches import PATCH_TYPES
from ..registry.kinds import Kind
from ..registry.served import Served

__all__ = ["openapi_v2", "openapi_v2_protobuf", "openapi_v3", "openapi_v3_index"]

_PARAMETERS: Final = {
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
def openapi_v3_index(served: Served) -> JSON:
    """Where the document of each group and version is."""
    paths = {}
    for path in dict.fromkeys(_prefix(kind) for kind in served.kinds):
        digest = hashlib.sha512(json.dumps(openapi_v3(served, path, "")).encode()).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": paths}


@cache
def openapi_v3(served: Served, prefix: str, version: str) -> JSON | None:
    """The document of one group and version, as ``apis/apps/v1``; None where nothing is served there."""
    kinds = [kind for kind in served.kinds if _prefix(kind) == prefix]
    if not kinds:
        return None
    schemas = {plain_name(name): _with_references(definition(name), _V3) for name in _names_of(kinds, served)}
    document: JSON = {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": version}}
    paths = {path: item for kind in kinds for path, item in _paths(kind, _V3)}
    return {**document, "paths": paths, "components": {"schemas": schemas}}


@cache
def openapi_v2(served: Served, version: str) -> JSON:
    """One document of all."""
    schemas = {plain_name(name): _with_references(definition(name), _V2) for name in _names_of(served.kinds, served)}
    paths = {path: item for kind in served.kinds for path, item in _paths(kind, _V2)}
    info = {"title": "Kubernetes", "version": version}
    return {"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas}


def openapi_v2_protobuf(version: str) -> bytes:
    """The same in protobuf, without paths and definitions: kubectl asks for it only about kinds that are not served.

    Source: github.com/google/gnostic-models, openapiv2/OpenAPIv2.proto, ``Document``.
    """
    info = _protobuf_text(1, "Kubernetes") + _protobuf_text(2, version)
    return _protobuf_text(1, "2.0") + bytes([2 << 3 | 2, len(info)]) + info


def _protobuf_text(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def _prefix(kind: Kind) -> str:
    return f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"


def _names_of(kinds: Iterable[Kind], served: Served) -> list[str]:
    """The names of all definitions that kinds are made of."""
    names = []
    for kind in kinds:
        names.append(definition_name(kind.group, kind.version, kind.kind, served.release))
        # A subresource without a group of its own is of one of the group's kinds.
        names += [definition_name(sub.group, sub.version, sub.kind) for sub in kind.subresources if sub.version]
    return sorted(_closure(names), key=plain_name)


def _closure(names: list[str]) -> set[str]:
    found: set[str] = set()
    waiting = [*names, "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(definition(name))
    return found


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
        reference = {"$ref": prefix + plain_name(value["$ref"])}
        return {"allOf": [reference], **extras} if extras else reference

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
    schema = {"$ref": references + plain_name(definition_name(kind.group, kind.version, kind.kind))}
    found = {}
    for method, verb in methods.items():
        if verb not in (verbs or kind.verbs):
            continue
        media = {"application/json": {"schema": schema}}
        ok: JSON = (
            {"description": "OK", "content": media} if references == _V3 else {"description": "OK", "schema": schema}
        )
        operation: JSON = {
            "parameters": [_parameter(name, references) for name in _PARAMETERS[method]],
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
