"""The OpenAPI documents of the kinds that a server serves, from which kubectl learns fields, merge keys and options.

Source: staging/src/k8s.io/apiserver/pkg/server/routes/openapi.go (kubernetes v1.34.4); k8s.io/kube-openapi,
pkg/handler3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
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
_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_PATCH: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
_SENT: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("post", "put", "delete"), ("*/*",)),
    "patch": PATCH_TYPES,
}
"""HTTP method -> the media types of what is sent."""
_OWN_BODIES: Final = {"patch": _PATCH, "delete": _DELETE_OPTIONS}
_ID_VERBS: Final = {"get": "read", "update": "replace", "deletecollection": "delete"}
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
    schemas = _schemas(kinds, served, _V3)
    document: JSON = {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": version}}
    paths = {path: item for kind in kinds for path, item in _paths(kind, _V3)}
    return {**document, "paths": paths, "components": {"schemas": schemas}}


@cache
def openapi_v2(served: Served, version: str) -> JSON:
    """One document of all."""
    schemas = _schemas(served.kinds, served, _V2)
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


def _schemas(kinds: Iterable[Kind], served: Served, references: str) -> JSON:
    schemas = {name: _with_references(definition(name), references) for name in _names_of(kinds, served)}
    return {plain_name(name): schema for name, schema in sorted({**schemas, _PATCH: {"type": "object"}}.items())}


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
    waiting = [*names, _DELETE_OPTIONS]
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
    everywhere = f"/{_prefix(kind)}/{kind.plural}"
    collection = f"/{_prefix(kind)}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else everywhere
    found = {collection: _operations(kind, _ON_LIST, references)}
    if kind.namespaced:
        found[everywhere] = _operations(kind, {"get": "list"}, references, "ForAllNamespaces")
    found[f"{collection}/{{name}}"] = _operations(kind, _ON_ITEM, references)
    for sub in kind.subresources:
        if sub.name == "status":
            found[f"{collection}/{{name}}/status"] = _operations(kind, _ON_ITEM, references, "Status", sub.verbs)
    for path, operations in found.items():
        named = [_parameter(name, references, "path") for name in ("name", "namespace") if f"{{{name}}}" in path]
        if operations:
            yield path, operations | ({"parameters": named} if named else {})


def _operations(
    kind: Kind, methods: Mapping[str, str], references: str, of: str = "", verbs: tuple[str, ...] = ()
) -> JSON:
    """The operations of a path.

    Args:
        kind: Whose path it is.
        methods: HTTP method -> verb.
        references: Where the document has its schemas.
        of: The part of the objects, or that they are of all namespaces; the end of the operations' ids.
        verbs: What can be done with that part.
    """
    group = _go_name(kind.group)
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
        found[method] = {
            "operationId": _operation_id(kind, verb, of),
            "tags": [f"{group[0].lower()}{group[1:]}_{kind.version}"],
            "parameters": [_parameter(name, references) for name in _PARAMETERS[method]],
            "responses": {"200": ok},
            "x-kubernetes-action": verb.replace("update", "put").replace("create", "post"),
            "x-kubernetes-group-version-kind": gvk,
        }
        if method in _SENT:
            _add_body(found[method], method, schema, references)
    return found


def _add_body(operation: JSON, method: str, schema: JSON, references: str) -> None:
    """Say what is sent: an object of the kind, unless it is a patch or the options of a deletion."""
    media_types = _SENT[method]
    schema = {"$ref": references + plain_name(_OWN_BODIES[method])} if method in _OWN_BODIES else schema
    required = {} if method == "delete" else {"required": True}
    if references == _V3:
        operation["requestBody"] = {
            "content": {media_type: {"schema": schema} for media_type in media_types},
            **required,
        }
    else:
        operation["parameters"] = [
            {"name": "body", "in": "body", "schema": schema, **required},
            *operation["parameters"],
        ]
        operation["consumes"] = list(media_types)


def _operation_id(kind: Kind, verb: str, of: str) -> str:
    """The name of an operation.

    Source: staging/src/k8s.io/apiserver/pkg/endpoints/installer.go, ``registerResourceHandlers``, and
    pkg/endpoints/openapi/openapi.go, ``GetOperationIDAndTags`` (v1.34.0).
    """
    version = kind.version[0].upper() + kind.version[1:]
    collection = "Collection" if verb == "deletecollection" else ""
    namespaced = "Namespaced" if kind.namespaced and of != "ForAllNamespaces" else ""
    return f"{_ID_VERBS.get(verb, verb)}{_go_name(kind.group)}{version}{collection}{namespaced}{kind.kind}{of}"


def _go_name(group: str) -> str:
    """A group as a Go identifier has it: ``RbacAuthorization`` for ``rbac.authorization.k8s.io``, ``Core``."""
    return "".join(part[:1].upper() + part[1:] for part in (group or "core").removesuffix(".k8s.io").split("."))


def _parameter(name: str, references: str, place: str = "query") -> JSON:
    flags, numbers = ("force", "orphanDependents"), ("gracePeriodSeconds",)
    type_ = "boolean" if name in flags else "integer" if name in numbers else "string"
    form: JSON = {"type": type_, "uniqueItems": True}
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **required, **({"schema": form} if references == _V3 else form)}
