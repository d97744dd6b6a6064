"""The controller of ResourceClaims: makes those that pods want from templates, and takes back those that end.

A claim of a template is the pod's, which owns it, and its name stands in the pod's status. A claim is reserved for pods
by the scheduler; for a pod that came with its node the controller does it. A claim whose last user has ended loses its
allocation and its finalizer, and one that was made for a pod that has ended is deleted; if the pod is gone, garbage
collection does that. What fails is tried again after 5 ms, and each time after twice as long, up to 1,000 s. Who
manages the field of the pod's status is not noted.

Source: pkg/controller/resourceclaim/controller.go; staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/
claim.go; client-go/util/workqueue, ``DefaultTypedControllerRateLimiter`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ..._internal.change import Change, first_done
from ..._internal.doors import Door
from ...golang.text import quoted
from ...model.clock import Clock
from ...model.version import Difference, Version
from ..api.errors import StatusError
from ..api.registry.kinds import Kind, kind_named
from ..api.registry.registry import Registry
from ..objects.events import EventRecorder
from ..objects.objects import JSON, Key, Verb, Written, copied
from ..objects.pod_json import has_ended

__all__ = ["ResourceClaimController"]

_CLAIMS: Final = kind_named("resourceclaims.resource.k8s.io")
_TEMPLATES: Final = kind_named("resourceclaimtemplates.resource.k8s.io")
_PODS: Final = kind_named("pods")
_ENTRY: Final = "resource.kubernetes.io/pod-claim-name"
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_COMPONENT: Final = "resource_claim"
_LONGEST_BASE: Final = 57
_FIRST_RETRY_S: Final = 0.005
_LAST_RETRY_S: Final = 1000.0

_PASSES_OVER_CLAIMS: Final = Difference(
    "the controller of claims passes over those that are new or changed, unless an ended pod of theirs is there",
    {"1.26": False, "1.32": True, "1.33.6": False},
    "pkg/controller/resourceclaim/controller.go, ``enqueueResourceClaim`` (kubernetes v1.31.14, v1.32.13, v1.33.5, "
    "v1.33.6)",
)
_FINDS_EXTENDED_CLAIMS: Final = Difference(
    "the controller of claims takes back the claim of a pod's extended resources when the pod has ended",
    {"1.26": False, "1.35": True},
    "pkg/controller/resourceclaim/controller.go, ``enqueuePod`` (kubernetes v1.34.4, v1.35.4)",
)


class _RetryError(Exception):
    """Work that is to be done again later."""


_SYNC: Final = Door("sync of a ResourceClaim or of a pod with claims", _RetryError, StatusError)


class ResourceClaimController:
    """Looks after the claims of a cluster for as long as `run` runs.

    Args:
        registry: where pods, claims and templates are.
        clock: the cluster's.
        events: where it says that a claim cannot be made.
        release: the controller's.
    """

    def __init__(self, registry: Registry, clock: Clock, events: EventRecorder, release: Version) -> None:
        self._registry = registry
        self._objects = registry.objects
        self._clock = clock
        self._events = events
        self._passes_over_claims = _PASSES_OVER_CLAIMS.at(release)
        self._finds_extended = _FINDS_EXTENDED_CLAIMS.at(release)
        self._change = Change()
        self._due: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        for kind in (_PODS, _CLAIMS):
            for one in self._objects.all_of(kind.key_kind):
                self._note_object(kind.key(one["metadata"].get("namespace", ""), one["metadata"]["name"]), one)
            self._objects.subscribe(kind.key_kind, self._note)

    async def run(self) -> None:
        """Look after each change, and after what failed, until cancelled."""
        while True:
            seen = self._change.count
            self._settle()
            waits: list[Awaitable[object]] = [self._change.wait(seen)]
            if self._due:
                waits.append(self._clock.sleep(max(0.0, min(self._due.values()) - self._clock.now())))
            await first_done(*waits)

    # What there is to do

    def _note(self, written: Written) -> None:
        self._note_object(written.key, written.object, is_gone=written.verb is Verb.DELETED)
        if self._due:
            self._change.notify()

    def _note_object(self, key: Key, one: JSON, *, is_gone: bool = False) -> None:
        if key.kind == _PODS.key_kind:
            extended = (one.get("status") or {}).get("extendedResourceClaimStatus")
            if is_gone or _is_done(one):
                names = [name for name, _ in _claim_names(one) if name]
                names += [extended["resourceClaimName"]] if extended and self._finds_extended else []
                self._due.update((self._claim_key(one, name), self._clock.now()) for name in names)
            if not is_gone and one["spec"].get("resourceClaims"):
                self._due[key] = self._clock.now()
            return
        if not is_gone and not self._passes_over_claims:
            self._due[key] = self._clock.now()
        for pod in self._objects.all_of(_PODS.key_kind, key.namespace):
            if any(name == key.name for name, _ in _claim_names(pod)):
                self._note_object(_PODS.key(key.namespace, pod["metadata"]["name"]), pod)

    def _settle(self) -> None:
        """Look once at what is due: a claim without a finalizer and its ended pod give one another work for ever."""
        for key in [key for key, at in self._due.items() if at <= self._clock.now()]:
            del self._due[key]
            one = self._objects.get(key)
            if one is None:
                self._failures.pop(key, None)
                continue
            try:
                with _SYNC(key, partial(self._objects.record_failure, key, one)) as passage:
                    (self._sync_pod if key.kind == _PODS.key_kind else self._sync_claim)(one)
                is_done = passage.error is None
            except (_RetryError, StatusError):
                is_done = False
            if is_done:
                self._failures.pop(key, None)
            else:
                self._try_again(key)

    def _try_again(self, key: Key) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._due[key] = self._clock.now() + min(_FIRST_RETRY_S * 2 ** min(failures, 30), _LAST_RETRY_S)

    # Pods

    def _sync_pod(self, pod: JSON) -> None:
        """Make the claims of a pod that are missing, and reserve them for a pod that has its node already."""
        if pod["metadata"].get("deletionTimestamp"):
            return
        made: dict[str, str] = {}
        for entry in pod["spec"]["resourceClaims"]:
            try:
                if name := self._made_claim(pod, entry):
                    made[entry["name"]] = name
            except (_RetryError, StatusError) as error:
                message = f"PodResourceClaim {entry['name']}: {error}"
                about = {"apiVersion": "v1", "kind": "Pod", **pod["metadata"]}
                self._events.record(about, "Warning", "FailedResourceClaimCreation", message, _COMPONENT)
                raise _RetryError(message) from None
        if made:
            pod = self._write(_PODS, pod, lambda new: _note_claims(new, made), subresource="status")
        if not pod["spec"].get("nodeName"):
            return
        for name, is_made in _claim_names(pod):
            claim = self._objects.get(self._claim_key(pod, name)) if name else None
            if claim is not None and (not is_made or _is_for(pod, claim)):
                self._reserve(pod, claim)

    def _made_claim(self, pod: JSON, entry: JSON) -> str:
        """The name of a claim that was made from an entry's template, and that the pod's status does not have yet."""
        template_name = entry.get("resourceClaimTemplateName")
        if template_name is None:
            return ""
        recorded = _recorded(pod).get(entry["name"])
        if recorded is not None:
            name = recorded.get("resourceClaimName")
            known = self._objects.get(self._claim_key(pod, name)) if name else None
            if not name or (known is not None and _is_for(pod, known)):
                return ""
        namespace = pod["metadata"]["namespace"]
        for claim in self._objects.all_of(_CLAIMS.key_kind, namespace):
            is_entrys = (claim["metadata"].get("annotations") or {}).get(_ENTRY) == entry["name"]
            if is_entrys and _is_for(pod, claim):
                return str(claim["metadata"]["name"])
        template = self._objects.get(_TEMPLATES.key(namespace, template_name))
        if template is None:
            missing = StatusError.not_found(_TEMPLATES.resource, template_name)
            text = str(missing).replace("resourceclaimtemplates.", "resourceclaimtemplate.", 1)
            raise _RetryError(f"resource claim template {quoted(template_name)}: {text}")
        try:
            made = self._registry.create(_CLAIMS, namespace, _claim_of(pod, entry["name"], template))
        except StatusError as refused:
            raise _RetryError(f"create ResourceClaim : {refused}") from None
        return str(made["metadata"]["name"])

    def _reserve(self, pod: JSON, claim: JSON) -> None:
        status = claim.get("status") or {}
        users: Sequence[JSON] = status.get("reservedFor") or ()
        uid = pod["metadata"]["uid"]
        if status.get("allocation") is None or any(user["uid"] == uid for user in users) or len(users) >= 256:
            return
        user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}

        def reserve(new: JSON) -> None:
            new["status"]["reservedFor"] = [*users, user]

        self._write(_CLAIMS, claim, reserve, subresource="status")

    # Claims

    def _sync_claim(self, claim: JSON) -> None:
        """Forget the users of a claim that have ended; without any, take back what was allocated, or the claim."""
        status = claim.get("status") or {}
        users: Sequence[JSON] = status.get("reservedFor") or ()
        if any(user.get("apiGroup") or user["resource"] != "pods" for user in users):
            raise _RetryError("a user that is no pod")
        left = [user for user in users if self._is_used_by(claim, user)]
        is_protected = _FINALIZER in (claim["metadata"].get("finalizers") or ())
        is_to_go = bool(claim["metadata"].get("deletionTimestamp")) and is_protected and not left
        if len(left) < len(users) or is_to_go:

            def release(new: JSON) -> None:
                new["status"]["reservedFor"] = left
                if not left:
                    del new["status"]["reservedFor"]
                    if is_protected:
                        new["status"].pop("allocation", None)

            claim = self._write(_CLAIMS, claim, release, subresource="status")
            if is_protected and (claim.get("status") or {}).get("allocation") is None:
                claim = self._write(_CLAIMS, claim, _unprotect)
        if not left:
            self._delete_of_ended_pod(claim)

    def _is_used_by(self, claim: JSON, user: JSON) -> bool:
        pod = self._objects.get(_PODS.key(claim["metadata"]["namespace"], user["name"]))
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not _is_done(pod)

    def _delete_of_ended_pod(self, claim: JSON) -> None:
        metadata = claim["metadata"]
        owner = next(filter(_is_pod, metadata.get("ownerReferences") or ()), None)
        pod = None if owner is None else self._objects.get(_PODS.key(metadata["namespace"], owner["name"]))
        key = _CLAIMS.key(metadata["namespace"], metadata["name"])
        if owner is None or pod is None or self._objects.get(key) is None or metadata.get("deletionTimestamp"):
            return
        if pod["metadata"]["uid"] != owner["uid"] or _is_done(pod):
            self._registry.delete(_CLAIMS, key.namespace, key.name)

    def _claim_key(self, pod: JSON, name: str) -> Key:
        return _CLAIMS.key(pod["metadata"]["namespace"], name)

    def _write(self, kind: Kind, one: JSON, edit: Callable[[JSON], None], *, subresource: str = "") -> JSON:
        def changed(stored: JSON) -> JSON:
            edit(stored)
            return stored

        metadata = one["metadata"]
        return self._registry.update(kind, metadata["namespace"], metadata["name"], changed, subresource=subresource)


def _recorded(pod: JSON) -> Mapping[str, JSON]:
    """The claims that were made for a pod, by the names of the entries in its spec."""
    return {one["name"]: one for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}


def _claim_names(pod: JSON) -> Iterator[tuple[str, bool]]:
    """The names of a pod's claims, empty where there is none, and whether it was made for the pod."""
    recorded = _recorded(pod)
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry.get("resourceClaimName") is not None:
            yield entry["resourceClaimName"], False
        else:
            yield (recorded.get(entry["name"]) or {}).get("resourceClaimName") or "", True


def _note_claims(pod: JSON, made: Mapping[str, str]) -> None:
    kept = [one for name, one in _recorded(pod).items() if name not in made]
    added = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
    pod.setdefault("status", {})["resourceClaimStatuses"] = [*kept, *added]


def _claim_of(pod: JSON, entry: str, template: JSON) -> JSON:
    """The claim that a template makes for an entry of a pod."""
    name = pod["metadata"]["name"]
    base = f"{name}-{entry}-"
    if len(base) > _LONGEST_BASE:
        # The second length follows from the base's, which is the same at both places.
        parts = (part[: len(part) * _LONGEST_BASE // len(base)] for part in (name, entry))
        base = "-".join(parts)
    wanted = copied(template["spec"].get("metadata") or {})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    metadata: dict[str, Any] = {
        "generateName": base,
        "annotations": {**(wanted.get("annotations") or {}), _ENTRY: entry},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    if wanted.get("labels"):
        metadata["labels"] = wanted["labels"]
    return {"metadata": metadata, "spec": copied(template["spec"]["spec"])}


def _is_pod(owner: JSON) -> bool:
    return bool(owner.get("controller")) and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod")


def _is_for(pod: JSON, claim: JSON) -> bool:
    """Whether a claim was made for a pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == pod["metadata"]["uid"] for owner in owners)


def _is_done(pod: JSON) -> bool:
    """Whether no container of a pod runs or will ever run."""
    is_unplaced = bool(pod["metadata"].get("deletionTimestamp")) and not pod["spec"].get("nodeName")
    return is_unplaced or has_ended(pod)


def _unprotect(claim: JSON) -> None:
    left = [finalizer for finalizer in claim["metadata"]["finalizers"] if finalizer != _FINALIZER]
    claim["metadata"]["finalizers"] = left
    if not left:
        del claim["metadata"]["finalizers"]
