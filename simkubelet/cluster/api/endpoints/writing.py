"""POST, PUT, PATCH and DELETE, with the subresources of pods and the reviews of a client's own access.

Every client is an administrator.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go, update.go, patch.go, delete.go,
rest.go, ``requestTimeoutUpperBound``; pkg/server/filters/timeout.go;
pkg/registry/core/pod/storage/storage.go, ``BindingREST``, eviction.go, ``EvictionREST``;
pkg/registry/authentication/selfsubjectreview/rest.go, pkg/apis/authorization/validation/validation.go,
``ValidateSelfSubjectAccessReviewSpec`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from aiohttp import web

from ...objects.objects import JSON, copied
from ...objects.selector_verdicts import with_selectors_read
from ..decoding.decoding import PROTOBUF, Decoder
from ..decoding.definitions import schema_of
from ..errors import FieldError, GroupName, StatusError
from ..patching.apply import applied
from ..patching.managed_fields import manager_faults, manager_of_agent, track_update
from ..patching.patches import APPLY, PATCH_TYPES, patched, read_patch
from ..registry.kinds import Kind, kind_named
from ..registry.metadata import check_place, check_uid
from ..registry.registry import Changed, DeleteOptions, Registry, Write
from ..registry.served import Served
from .lists import Listed, ListOptions, list_objects
from .request import OCTETS, Target, as_bool, beside_loop, delete_options, dry_run, media_type, selection

__all__ = ["Answer", "Writing"]

T = TypeVar("T")

_ACCESS_REVIEW: Final = "SelfSubjectAccessReview"
_SUBJECT_REVIEW: Final = "SelfSubjectReview"
_ADMINISTRATOR: Final = {"username": "kubernetes-admin", "groups": ["kubeadm:cluster-admins", "system:authenticated"]}
_PODS: Final = kind_named("pods")
_TRIES: Final = 5
_DELETED_AT_ONCE: Final = 20
_BODY_S: Final = 34.0
"""Until then the body of a request has come; a real server answers a slower one after 60 s, likewise with a refusal."""
_CHANGED_AT_ONCE_BYTES: Final = 256 * 1024
"""Of memory: the largest object of which a change, by a small request, is made in the event loop."""
_READ_TYPES: Final = ("application/json", "application/yaml", PROTOBUF)
_READABLE: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@dataclass(slots=True)
class Answer:
    """What a write is answered with: objects of the kind, or where `is_status` a Status, with code and warnings."""

    content: JSON | Listed
    code: int = 200
    is_status: bool = False
    warnings: list[str] = field(default_factory=list)


class Writing:
    """Answers what changes objects."""

    def __init__(self, registry: Registry, served: Served) -> None:
        self._registry = registry
        self._served = served
        self._selectors_turn = asyncio.Lock()

    async def answer(self, request: web.Request, target: Target) -> Answer:
        """Carry a request out.

        Raises:
            StatusError: it is refused.
        """
        try:
            async with asyncio.timeout(_BODY_S):
                body = await request.read()
        except TimeoutError:
            raise StatusError.timeout() from None
        except web.HTTPRequestEntityTooLarge:
            raise StatusError.too_large(f"limit is {request.client_max_size}") from None
        return await with_selectors_read(lambda: self._carry_out(request, target, body), self._selectors_turn)

    async def _carry_out(self, request: web.Request, target: Target, body: bytes) -> Answer:
        if request.method == "DELETE":
            return await self._delete(request, target, body)
        if request.method == "PATCH":
            return await self._patch(request, target, body)
        return await (self._create if request.method == "POST" else self._update)(request, target, body)

    async def _create(self, request: web.Request, target: Target, body: bytes) -> Answer:
        write = _write(request, "CreateOptions")
        subresource = next((one for one in target.kind.subresources if one.name == target.subresource), None)
        if subresource is None:
            new = await self._decoded(request, target.kind, body, write)
            if target.kind.key_kind == "bindings":
                name = new.get("metadata", {}).get("name", "")
                self._registry.admit_into_namespace(target.kind, target.namespace, name)
                _bind(self._registry, target.namespace, name, new, write)
                return Answer(_success(), 201, is_status=True, warnings=write.warnings)
            if target.kind.kind == _SUBJECT_REVIEW:
                return Answer(_reviewed_subject(self._registry.objects.wall_time.now()), 201, warnings=write.warnings)
            if target.kind.kind == _ACCESS_REVIEW:
                return Answer(_reviewed_access(new), 201, warnings=write.warnings)
            tracked = await beside_loop(len(body), lambda: self._tracked(new, None, target, request))
            stored = await self._created(target, tracked, write, body)
            return Answer(stored, 201, warnings=write.warnings)
        group, version = subresource.group, subresource.version or target.kind.version
        decoder = Decoder(group, version, subresource.kind, request.query.get("fieldValidation", ""), write.warnings)
        posted = await _read(decoder.read, body, _readable_type(request))
        self._registry.admit_into_namespace(target.kind, target.namespace, target.name)
        if target.subresource == "binding":
            _bind(self._registry, target.namespace, target.name, posted, write)
        else:
            options = delete_options(posted.get("deleteOptions") or {}, {})
            _evict(self._registry, target.namespace, target.name, posted, options, write)
        return Answer(_success(), 201, is_status=True, warnings=write.warnings)

    async def _update(self, request: web.Request, target: Target, body: bytes) -> Answer:
        write = _write(request, "UpdateOptions")
        new = await self._decoded(request, target.kind, body, write)
        check_place(new, target.namespace, target.name)
        strategy = self._registry.strategy(target.kind)
        key = target.kind.key(target.namespace, target.name)
        old = self._registry.objects.get(key)
        if old is None and strategy.allow_create_on_update and not target.subresource:
            tracked = await beside_loop(len(body), lambda: self._tracked(new, None, target, request))
            made = await self._created(target, tracked, write, body)
            return Answer(made, 201, warnings=write.warnings)

        def change(stored: JSON) -> JSON:
            check_uid(new, stored, target.kind)
            return self._tracked(copied(new), stored, target, request)

        return Answer(await self._changed(target, change, write, body), warnings=write.warnings)

    async def _patch(self, request: web.Request, target: Target, body: bytes) -> Answer:
        content_type = media_type(request)
        if content_type not in PATCH_TYPES:
            raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        write = _write(request, "PatchOptions")
        if "force" in request.query and content_type != APPLY:
            why = FieldError.forbidden("force", "may not be specified for non-apply patch")
            raise StatusError.invalid(GroupName("meta.k8s.io", "PatchOptions"), "", [why])
        kind = target.kind
        validation = request.query.get("fieldValidation", "")
        decoder = Decoder.of(kind, validation, write.warnings, self._served)
        if content_type == APPLY:
            return await self._apply(request, target, body, decoder, write)
        schema = schema_of(kind.group, kind.version, kind.kind, self._served.release)
        self._registry.get(kind, target.namespace, target.name)
        content = await _read(read_patch, body, content_type)

        def change(stored: JSON) -> JSON:
            new = decoder.patched(*patched(content_type, copied(content), kind.present(copied(stored)), schema))
            check_place(new, target.namespace, target.name)
            return self._tracked(new, stored, target, request)

        return Answer(await self._changed(target, change, write, body), warnings=write.warnings)

    async def _apply(self, request: web.Request, target: Target, body: bytes, decoder: Decoder, write: Write) -> Answer:
        kind, query, release = target.kind, request.query, self._served.release
        manager = query.get("fieldManager", "")
        if not manager:
            why = FieldError.required("fieldManager", "is required for apply patch")
            raise StatusError.invalid(GroupName("meta.k8s.io", "PatchOptions"), "", [why])
        config = await _read(decoder.read_configuration, body, APPLY)
        if config.get("metadata", {}).get("managedFields"):
            raise StatusError.bad_request("metadata.managedFields must be nil")
        check_place(config, target.namespace, target.name)
        now = self._registry.objects.wall_time.now()
        force = as_bool(query, "force")
        key = kind.key(target.namespace, target.name)

        def change(stored: JSON) -> JSON:
            live = kind.from_stored(stored)
            new = applied(live, copied(config), kind, manager, target.subresource, now, release, force=force)
            return kind.to_stored(decoder.completed(new))

        if self._registry.objects.get(key) is None:
            if target.subresource:
                raise StatusError.not_found(kind.resource, target.name)
            new = await beside_loop(len(body), lambda: change({}))
            made = await self._created(target, new, write, body)
            return Answer(made, 201, warnings=write.warnings)

        return Answer(await self._changed(target, change, write, body), warnings=write.warnings)

    async def _created(self, target: Target, new: JSON, write: Write, body: bytes) -> JSON:
        """Create an object of a request, which is validated beside the event loop where that takes long."""
        kind, registry = target.kind, self._registry
        prepared = registry.prepared(kind, target.namespace, new)
        size = len(body) if registry.strategy(kind).validates_alone else 0
        faults = await beside_loop(size, lambda: registry.faults(kind, prepared))
        return registry.create_prepared(kind, prepared, faults, write)

    async def _changed(self, target: Target, change: Callable[[JSON], JSON], write: Write, body: bytes) -> JSON:
        """Change an object by a request.

        Where that takes long, the new state is made beside the event loop, with what is wrong with it where the kind
        allows that, and again where the object was written meanwhile, in the end in the event loop.

        Source: apiserver/pkg/storage/etcd3/store.go, ``GuaranteedUpdate`` (v0.34.4).
        """
        registry, kind = self._registry, target.kind
        objects, key = registry.objects, kind.key(target.namespace, target.name)
        said = list(write.warnings)
        changed = partial(registry.changed, kind, subresource=target.subresource)
        is_alone = registry.strategy(kind).validates_alone

        def made(before: JSON) -> JSON | Changed:
            new = change(copied(before))
            return changed(before, new) if is_alone else new

        for _ in range(_TRIES):
            before = registry.get(kind, target.namespace, target.name)
            weight = objects.weight(key)
            size = len(body) if weight <= _CHANGED_AT_ONCE_BYTES else weight
            write.warnings[:] = said
            new = await beside_loop(size, partial(made, before))
            if objects.get(key) is before:
                return registry.update_changed(kind, new if isinstance(new, Changed) else changed(before, new), write)
        write.warnings[:] = said
        return registry.update(kind, target.namespace, target.name, change, write, subresource=target.subresource)

    async def _delete(self, request: web.Request, target: Target, body: bytes) -> Answer:
        given = await _delete_options(body, request) if body else {}
        stages: Sequence[str] = given.get("dryRun") or []
        write = Write(dry_run(stages or request.query.getall("dryRun", []), "DeleteOptions"))
        options = delete_options(given, request.query)
        if not target.name:
            chosen = await selection(target, request.query)
            everything = ListOptions()
            listed = list_objects(self._registry.objects, target.kind.key_kind, chosen, everything, selective=True)
            await self._delete_each(target.kind, listed.items, options, write)
            return Answer(listed, warnings=write.warnings)
        found, _ = self._registry.delete(target.kind, target.namespace, target.name, options, write)
        if target.kind.returns_deleted:
            return Answer(found)
        return Answer(_success(found, target.kind), is_status=True)

    async def _delete_each(self, kind: Kind, found: list[JSON], options: DeleteOptions, write: Write) -> None:
        """Delete objects one after the other, and let others be served now and then; what has gone meanwhile is gone.

        Source: apiserver/pkg/registry/generic/registry/store.go, ``DeleteCollection`` (v0.34.4).
        """
        for number, obj in enumerate(found, 1):
            metadata = obj["metadata"]
            key = kind.key(metadata.get("namespace", ""), metadata["name"])
            if self._registry.objects.get(key) is not None:
                self._registry.delete(kind, key.namespace, key.name, options, write)
            if number % _DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _decoded(self, request: web.Request, kind: Kind, body: bytes, write: Write) -> JSON:
        decoder = Decoder.of(kind, request.query.get("fieldValidation", ""), write.warnings, self._served)
        return await _read(decoder.read, body, _readable_type(request))

    def _tracked(self, new: JSON, old: JSON | None, target: Target, request: web.Request) -> JSON:
        """An object of a request in its stored form, with its defaults and with who manages which field."""
        kind, now = target.kind, self._registry.objects.wall_time.now()
        manager = request.query.get("fieldManager") or manager_of_agent(request.headers.get("User-Agent", "unknown"))
        stored = kind.to_stored(new)
        stored.setdefault("metadata", {})
        strategy = self._registry.strategy(kind)
        strategy.default(stored)
        before = dict(strategy.empty) if old is None else old
        track_update(stored, before, kind, manager, target.subresource, now, self._served.release)
        return stored


async def _read(reader: Callable[[bytes, str], T], body: bytes, content_type: str) -> T:
    return await beside_loop(len(body), lambda: reader(body, content_type))


async def _delete_options(body: bytes, request: web.Request) -> JSON:
    decoder = Decoder("", "v1", "DeleteOptions", "Ignore", [])
    return await _read(decoder.read, body, _readable_type(request))


def _write(request: web.Request, options: str) -> Write:
    if errors := manager_faults(request.query.get("fieldManager", "")):
        raise StatusError.invalid(GroupName("meta.k8s.io", options), "", errors)
    return Write(dry_run(request.query.getall("dryRun", []), options))


def _readable_type(request: web.Request) -> str:
    content_type = media_type(request)
    if content_type in (*_READ_TYPES, OCTETS):
        return content_type
    raise StatusError.unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {_READABLE}"
    )


def _success(obj: JSON | None = None, kind: Kind | None = None) -> JSON:
    status: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if obj is not None and kind is not None:
        details = {"name": obj["metadata"]["name"], "group": kind.group, "kind": kind.plural}
        status["details"] = {name: text for name, text in details.items() if text} | {"uid": obj["metadata"]["uid"]}
    return status


def _bind(registry: Registry, namespace: str, name: str, binding: JSON, write: Write) -> None:
    """Give a pod to the node that a Binding names.

    Raises:
        StatusError: the pod is not there, is bound or goes away.
    """
    metadata = binding.get("metadata", {})
    target = binding.get("target", {})
    if metadata.get("name", "") != name:
        raise StatusError.bad_request("name in URL does not match name in Binding object")
    errors = []
    if target.get("kind") not in (None, "", "Node"):
        errors.append(FieldError.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(FieldError.required("target.name"))
    if errors:
        texts = list(map(str, errors))
        raise StatusError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    pod = registry.get(_PODS, namespace, name)
    about = GroupName("", "pods/binding")
    if metadata.get("uid") and metadata["uid"] != pod["metadata"]["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {pod['metadata']['uid']}"
        )
        raise StatusError.conflict(_PODS.resource, name, why)
    spec = pod.get("spec", {})
    if pod["metadata"].get("deletionTimestamp"):
        raise StatusError.conflict(about, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise StatusError.conflict(about, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise StatusError.conflict(about, name, f"pod {name} has non-empty .spec.schedulingGates")
    new = copied(pod)
    new["spec"]["nodeName"] = target["name"]
    for part in ("annotations", "labels"):
        if metadata.get(part):
            new["metadata"][part] = {**new["metadata"].get(part, {}), **metadata[part]}
    status = new.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    now = registry.objects.wall_time.now()
    condition: JSON = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    conditions = status.setdefault("conditions", [])
    at = next((i for i, other in enumerate(conditions) if other["type"] == "PodScheduled"), len(conditions))
    if conditions[at:] and conditions[at]["status"] == "True":
        condition["lastTransitionTime"] = conditions[at].get("lastTransitionTime")
    conditions[at : at + 1] = [condition]
    if not write.dry_run:
        registry.objects.replace(_PODS.key(namespace, name), new)


def _evict(registry: Registry, namespace: str, name: str, eviction: JSON, options: DeleteOptions, write: Write) -> None:
    """Delete a pod as an Eviction asks; nothing here disrupts too much, as there are no disruption budgets.

    Raises:
        StatusError: there is no such pod.
    """
    if eviction.get("metadata", {}).get("name", "") != name:
        raise StatusError.bad_request("name in URL does not match name in Eviction object")
    registry.delete(_PODS, namespace, name, options, write)


def _reviewed_subject(now: str) -> JSON:
    """Who asks."""
    return {"metadata": {"creationTimestamp": now}, "status": {"userInfo": _ADMINISTRATOR}}


def _reviewed_access(asked: JSON) -> JSON:
    """The answer to a question about access: yes.

    Raises:
        StatusError: it asks about both a resource and a path, or about none.
    """
    spec = asked.get("spec") or {}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        errors.append(FieldError.invalid("spec.nonResourceAttributes", path, why))
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(FieldError.invalid("spec.resourceAttributes", None, why))
    if errors:
        raise StatusError.invalid(GroupName("authorization.k8s.io", ""), "", errors)
    return {"metadata": {}, **asked, "spec": spec, "status": {"allowed": True}}
