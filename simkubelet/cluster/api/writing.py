"""POST, PUT, PATCH and DELETE.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go, update.go, patch.go, delete.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from ..objects import JSON
from .apply import applied
from .decoding import PROTOBUF, Decoder
from .errors import FieldError, GroupName, StatusError
from .kinds import Kind
from .listing import Listed, ListOptions, list_objects
from .managed_fields import track_update
from .patches import APPLY, PATCH_TYPES, patched
from .registry import Registry, Write
from .request import Target, as_bool, delete_options, dry_run, selection
from .schema import schema_of
from .subresources import bind, evict

__all__ = ["Answer", "Writing"]

_READ_TYPES: Final = ("application/json", "application/yaml", PROTOBUF)
_READABLE: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"


@dataclass(slots=True)
class Answer:
    """What a write is answered with: objects of the kind, or where `is_status` a Status, with code and warnings."""

    content: JSON | Listed
    code: int = 200
    is_status: bool = False
    warnings: list[str] = field(default_factory=list)


class Writing:
    """Answers what changes objects."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def answer(self, request: web.Request, target: Target) -> Answer:
        """Carry a request out.

        Raises:
            StatusError: it is refused.
        """
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            raise StatusError.too_large(request.client_max_size) from None
        if request.method == "DELETE":
            return self._delete(request, target, body)
        if request.method == "PATCH":
            return self._patch(request, target, body)
        return (self._create if request.method == "POST" else self._update)(request, target, body)

    def _create(self, request: web.Request, target: Target, body: bytes) -> Answer:
        write = _write(request, "CreateOptions")
        subresource = next((one for one in target.kind.subresources if one.name == target.subresource), None)
        if subresource is None:
            new = _decoded(request, target.kind, body, write)
            if target.kind.key_kind == "bindings":
                bind(self._registry, target.namespace, new.get("metadata", {}).get("name", ""), new, write)
                return Answer(_success(), 201, is_status=True, warnings=write.warnings)
            if target.kind.kind == "SelfSubjectAccessReview":
                review = {**new, "metadata": {"name": "", **new.get("metadata", {})}, "status": {"allowed": True}}
                return Answer(review, 201, warnings=write.warnings)
            self._track(new, None, target, request)
            stored = self._registry.create(target.kind, target.namespace, new, write)
            return Answer(stored, 201, warnings=write.warnings)
        group, version = subresource.group, subresource.version or target.kind.version
        decoder = Decoder(group, version, subresource.kind, request.query.get("fieldValidation", ""), write.warnings)
        posted = decoder.read(body, _readable_type(request))
        if target.subresource == "binding":
            bind(self._registry, target.namespace, target.name, posted, write)
        else:
            options = delete_options(posted.get("deleteOptions") or {}, {})
            evict(self._registry, target.namespace, target.name, posted, options, write)
        return Answer(_success(), 201, is_status=True, warnings=write.warnings)

    def _update(self, request: web.Request, target: Target, body: bytes) -> Answer:
        write = _write(request, "UpdateOptions")
        new = _decoded(request, target.kind, body, write)
        _check_name(new, target)
        strategy = self._registry.strategy(target.kind)
        key = target.kind.key(target.namespace, target.name)
        old = self._registry.objects.get(key)
        if old is None and strategy.allow_create_on_update and not target.subresource:
            self._track(new, None, target, request)
            return Answer(
                self._registry.create(target.kind, target.namespace, new, write), 201, warnings=write.warnings
            )
        if target.subresource == "finalize":
            return Answer(self._finalize(target, new), warnings=write.warnings)

        def change(stored: JSON) -> JSON:
            self._track(new, stored, target, request)
            return new

        status = target.subresource == "status"
        stored = self._registry.update(target.kind, target.namespace, target.name, change, write, status=status)
        return Answer(stored, warnings=write.warnings)

    def _finalize(self, target: Target, new: JSON) -> JSON:
        """Take the finalizers of a namespace's spec away; without any it is gone."""
        stored = copy.deepcopy(self._registry.get(target.kind, "", target.name))
        stored.setdefault("spec", {})["finalizers"] = new.get("spec", {}).get("finalizers", [])
        key = target.kind.key("", target.name)
        if stored["metadata"].get("deletionTimestamp") and not stored["spec"]["finalizers"]:
            return self._registry.objects.remove(key)
        return self._registry.objects.replace(key, stored)

    def _patch(self, request: web.Request, target: Target, body: bytes) -> Answer:
        content_type = request.content_type
        if content_type not in PATCH_TYPES:
            accepted = ", ".join(PATCH_TYPES)
            raise StatusError.unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {accepted}"
            )
        write = _write(request, "PatchOptions")
        kind, status = target.kind, target.subresource == "status"
        validation = request.query.get("fieldValidation", "")
        decoder = Decoder.of(kind, validation, write.warnings)
        if content_type == APPLY:
            return self._apply(request, target, body, decoder, write)
        schema = schema_of(kind.group, kind.version, kind.kind)

        def change(stored: JSON) -> JSON:
            before = kind.present(copy.deepcopy(stored))
            new = decoder.patched(*patched(content_type, body, kind.present(stored), schema))
            _check_name(new, target)
            self._track(new, before, target, request)
            return new

        found = self._registry.update(kind, target.namespace, target.name, change, write, status=status)
        return Answer(found, warnings=write.warnings)

    def _apply(self, request: web.Request, target: Target, body: bytes, decoder: Decoder, write: Write) -> Answer:
        kind, query = target.kind, request.query
        manager = query.get("fieldManager", "")
        if not manager:
            why = FieldError.required("fieldManager", "is required for apply patch")
            raise StatusError.invalid(GroupName("meta.k8s.io", "PatchOptions"), "", [why])
        config = decoder.read_configuration(body, APPLY)
        config.setdefault("metadata", {}).setdefault("name", target.name)
        _check_name(config, target)
        if config["metadata"].get("managedFields"):
            raise StatusError.bad_request("metadata.managedFields must be nil")
        now = self._registry.objects.wall_time.now()
        force = as_bool(query, "force")
        key = kind.key(target.namespace, target.name)
        if self._registry.objects.get(key) is None:
            if target.subresource:
                raise StatusError.not_found(kind.resource, target.name)
            new = applied({}, config, kind, manager, target.subresource, now, force=force)
            made = self._registry.create(kind, target.namespace, decoder.completed(new), write)
            return Answer(made, 201, warnings=write.warnings)

        def change(stored: JSON) -> JSON:
            return decoder.completed(applied(stored, config, kind, manager, target.subresource, now, force=force))

        status = target.subresource == "status"
        found = self._registry.update(kind, target.namespace, target.name, change, write, status=status)
        return Answer(found, warnings=write.warnings)

    def _delete(self, request: web.Request, target: Target, body: bytes) -> Answer:
        given = _delete_options(body, request) if body else {}
        stages: Sequence[str] = given.get("dryRun") or []
        write = Write(dry_run(stages or request.query.getall("dryRun", []), "DeleteOptions"))
        options = delete_options(given, request.query)
        if not target.name:
            chosen = selection(target, request.query)
            everything = ListOptions()
            listed = list_objects(self._registry.objects, target.kind.key_kind, chosen, everything, selective=True)
            for obj in listed.items:
                metadata = obj["metadata"]
                self._registry.delete(target.kind, metadata.get("namespace", ""), metadata["name"], options, write)
            return Answer(listed, warnings=write.warnings)
        found, _ = self._registry.delete(target.kind, target.namespace, target.name, options, write)
        if target.kind.returns_deleted:
            return Answer(found)
        return Answer(_success(found, target.kind), is_status=True)

    def _track(self, new: JSON, old: JSON | None, target: Target, request: web.Request) -> None:
        name = request.query.get("fieldManager") or request.headers.get("User-Agent", "unknown").partition("/")[0]
        track_update(new, old, target.kind, name, target.subresource, self._registry.objects.wall_time.now())


def _delete_options(body: bytes, request: web.Request) -> JSON:
    decoder = Decoder("", "v1", "DeleteOptions", "Ignore", [])
    return decoder.read(body, _readable_type(request))


def _write(request: web.Request, options: str) -> Write:
    return Write(dry_run(request.query.getall("dryRun", []), options))


def _readable_type(request: web.Request) -> str:
    content_type = request.content_type
    if content_type in (*_READ_TYPES, "application/octet-stream"):
        return content_type
    raise StatusError.unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {_READABLE}"
    )


def _decoded(request: web.Request, kind: Kind, body: bytes, write: Write) -> JSON:
    decoder = Decoder.of(kind, request.query.get("fieldValidation", ""), write.warnings)
    return decoder.read(body, _readable_type(request))


def _check_name(new: JSON, target: Target) -> None:
    name = new.get("metadata", {}).get("name", "")
    if name != target.name:
        raise StatusError.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
            if name
            else f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    namespace = new["metadata"].get("namespace")
    if namespace and target.namespace and namespace != target.namespace:
        wanted = f"the namespace on the request ({target.namespace})"
        raise StatusError.bad_request(f"the namespace of the object ({namespace}) does not match {wanted}")


def _success(obj: JSON | None = None, kind: Kind | None = None) -> JSON:
    status: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if obj is not None and kind is not None:
        details = {"name": obj["metadata"]["name"], "group": kind.group, "kind": kind.plural}
        status["details"] = {name: text for name, text in details.items() if text} | {"uid": obj["metadata"]["uid"]}
    return status
