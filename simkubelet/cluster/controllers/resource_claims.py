"""ResourceClaims of pods: made from templates, freed of pods that have ended, and deleted with them.

A pod whose template is missing is looked at again when a template of its namespace is written; the real controller
tries again and again, with growing pauses.

Source: pkg/controller/resourceclaim/controller.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..._internal.change import Change
from ...dra.pod_claims import owner_refusal
from ...model.pod import PodUID
from ..api.errors import StatusError
from ..api.registry.kinds import kind_named
from ..api.registry.registry import Registry
from ..objects.objects import JSON, Key, Verb, Written
from ..store import Store

__all__ = ["ResourceClaimController"]

_COMPONENT: Final = "resource_claim"
_PODS: Final = kind_named("pods")
_CLAIMS: Final = kind_named("resourceclaims.resource.k8s.io")
_TEMPLATES: Final = kind_named("resourceclaimtemplates.resource.k8s.io")
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_ENTRY: Final = "resource.kubernetes.io/pod-claim-name"
_MOST_OF_A_NAME: Final = 57
_ENDED: Final = ("Failed", "Succeeded")


class ResourceClaimController:
    """Looks after the claims of a cluster's pods for as long as `run` runs."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._objects = registry.objects
        self._store = store
        self._pods: dict[Key, None] = {}
        self._claims: dict[Key, None] = {}
        self._refused: dict[Key, None] = {}
        self._concerning = Change()
        for kind in (_PODS, _CLAIMS):
            for one in self._objects.all_of(kind.key_kind):
                self._take(kind.key(one["metadata"]["namespace"], one["metadata"]["name"]), one)
        for kind in (_PODS, _CLAIMS, _TEMPLATES):
            self._objects.subscribe(kind.key_kind, self._note)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            seen = self._concerning.count
            while self._pods or self._claims:
                pods, claims, self._pods, self._claims = self._pods, self._claims, {}, {}
                for key in pods:
                    self._sync_pod(key)
                for key in claims:
                    self._sync_claim(key)
            await self._concerning.wait(seen)

    def _note(self, written: Written) -> None:
        self._take(written.key, written.object, is_gone=written.verb is Verb.DELETED)
        if self._pods or self._claims:
            self._concerning.notify()

    def _take(self, key: Key, now: JSON, *, is_gone: bool = False) -> None:
        if key.kind == _CLAIMS.key_kind:
            self._claims[key] = None
        elif key.kind == _TEMPLATES.key_kind:
            waiting = [one for one in self._refused if one.namespace == key.namespace]
            self._pods.update(dict.fromkeys(waiting))
        elif now["spec"].get("resourceClaims"):
            if not is_gone:
                self._pods[key] = None
            if is_gone or _is_done(now):
                names = (claim for _, claim, _ in _entries(now) if claim)
                self._claims.update(dict.fromkeys(_CLAIMS.key(key.namespace, name) for name in names))

    def _sync_pod(self, key: Key) -> None:
        """Make the claims of a pod that are to come from templates; reserve those of a pod that has its node already.

        Source: ``syncPod``, ``reserveForPod``.
        """
        self._refused.pop(key, None)
        pod = self._objects.get(key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return
        made: dict[str, str] = {}
        for entry, claim, template in _entries(pod):
            if template is None or self._is_own(pod, claim):
                continue
            try:
                made[entry] = self._make(pod, entry, template)
            except StatusError as error:
                self._refused[key] = None
                self._report(pod, f"PodResourceClaim {entry}: {error}")
                return
        if made:
            old = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
            kept = [one for one in old if one["name"] not in made]
            new = [{"name": entry, "resourceClaimName": name} for entry, name in made.items()]
            status = {**(pod.get("status") or {}), "resourceClaimStatuses": [*kept, *new]}
            pod = self._objects.replace(key, {**pod, "status": status})
        if pod["spec"].get("nodeName"):
            self._reserve(pod)

    def _is_own(self, pod: JSON, name: str | None) -> bool:
        """Whether the claim that was made for a pod is there, or none was needed."""
        if not name:
            return name is not None
        claim = self._objects.get(_CLAIMS.key(pod["metadata"]["namespace"], name))
        found = self._store.pod(PodUID(pod["metadata"]["uid"]))
        return claim is not None and found is not None and owner_refusal(found, claim) is None

    def _make(self, pod: JSON, entry: str, template: str) -> str:
        """Make a claim, or find one that was made before; its name.

        Source: ``handleClaim``, ``findPodResourceClaim``.
        """
        metadata = pod["metadata"]
        namespace = metadata["namespace"]
        for claim in self._objects.all_of(_CLAIMS.key_kind, namespace):
            owner = _owning_pod(claim)
            is_of_entry = (claim["metadata"].get("annotations") or {}).get(_ENTRY) == entry
            if is_of_entry and owner is not None and owner["uid"] == metadata["uid"]:
                return str(claim["metadata"]["name"])
        found = self._objects.get(_TEMPLATES.key(namespace, template))
        if found is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template}" not found'
            raise StatusError(404, "NotFound", f'resource claim template "{template}": {missing}')
        wanted = found["spec"].get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        made: JSON = {
            "generateName": _generate_name(metadata["name"], entry),
            "annotations": {**(wanted.get("annotations") or {}), _ENTRY: entry},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        }
        if labels := wanted.get("labels"):
            made["labels"] = labels
        claim = self._registry.create(_CLAIMS, namespace, {"metadata": made, "spec": found["spec"]["spec"]})
        return str(claim["metadata"]["name"])

    def _reserve(self, pod: JSON) -> None:
        for _, name, _ in _entries(pod):
            key = _CLAIMS.key(pod["metadata"]["namespace"], name or "")
            claim = self._objects.get(key)
            status = (claim or {}).get("status") or {}
            consumers = status.get("reservedFor") or []
            uid = pod["metadata"]["uid"]
            if claim is None or not status.get("allocation") or any(one["uid"] == uid for one in consumers):
                continue
            consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}
            if not _is_done(pod):
                self._objects.replace(key, {**claim, "status": {**status, "reservedFor": [*consumers, consumer]}})

    def _sync_claim(self, key: Key) -> None:
        """Free a claim of the pods that do not run any more; the last one's devices are given back.

        Source: ``syncClaim``.
        """
        claim = self._objects.get(key)
        if claim is None:
            return
        status = dict(claim.get("status") or {})
        consumers = status.pop("reservedFor", None) or []
        valid = [one for one in consumers if self._may_use(key.namespace, one)]
        is_protected = _FINALIZER in (claim["metadata"].get("finalizers") or ())
        if not valid and is_protected:
            status.pop("allocation", None)
            status.pop("devices", None)
        is_freed = len(valid) < len(consumers)
        if is_freed or (is_protected and claim["metadata"].get("deletionTimestamp") and not valid):
            if valid:
                status["reservedFor"] = valid
            claim = self._objects.replace(key, {**claim, "status": status})
            if is_protected and not status.get("allocation"):
                self._registry.update(_CLAIMS, key.namespace, key.name, _without_finalizer)
        owner = _owning_pod(claim)
        if valid or owner is None:
            return
        pod = self._objects.get(_PODS.key(key.namespace, owner["name"]))
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or _is_done(pod)):
            self._registry.delete(_CLAIMS, key.namespace, key.name)

    def _may_use(self, namespace: str, consumer: Mapping[str, Any]) -> bool:
        pod = self._objects.get(_PODS.key(namespace, consumer["name"]))
        return pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not _is_done(pod)

    def _report(self, pod: JSON, message: str) -> None:
        known = self._store.pod(PodUID(pod["metadata"]["uid"]))
        if known is not None:
            self._store.record(known, "Warning", "FailedResourceClaimCreation", message, _COMPONENT, host="")


def _entries(pod: Mapping[str, Any]) -> Iterator[tuple[str, str | None, str | None]]:
    """The claims of a pod: the entry's name, the claim's name where it is known, and the template's where it has one.

    An empty name of a claim means that none was needed.
    """
    generated = {
        one["name"]: one.get("resourceClaimName") or ""
        for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for entry in pod["spec"].get("resourceClaims") or ():
        template = entry.get("resourceClaimTemplateName")
        named = entry.get("resourceClaimName") if template is None else generated.get(entry["name"])
        yield entry["name"], named, template


def _is_done(pod: Mapping[str, Any]) -> bool:
    has_ended = (pod.get("status") or {}).get("phase") in _ENDED
    return has_ended or bool(pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("nodeName"))


def _owning_pod(claim: Mapping[str, Any]) -> JSON | None:
    owners: list[JSON] = claim["metadata"].get("ownerReferences") or []
    is_pod = ("v1", "Pod", True)
    return next((one for one in owners if (one["apiVersion"], one["kind"], one.get("controller")) == is_pod), None)


def _generate_name(pod: str, entry: str) -> str:
    whole = f"{pod}-{entry}-"
    if len(whole) <= _MOST_OF_A_NAME:
        return whole
    return f"{pod[: len(pod) * _MOST_OF_A_NAME // len(whole)]}-{entry[: len(entry) * _MOST_OF_A_NAME // len(whole)]}"


def _without_finalizer(claim: JSON) -> JSON:
    kept = [one for one in claim["metadata"].get("finalizers") or () if one != _FINALIZER]
    metadata = {name: value for name, value in claim["metadata"].items() if name != "finalizers"}
    return {**claim, "metadata": {**metadata, "finalizers": kept} if kept else metadata}
