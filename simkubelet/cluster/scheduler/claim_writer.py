"""What the scheduler writes about claims: devices and reservations for the pods that it binds, and their return.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (kubernetes v1.34.4, v1.37.2).
"""

from __future__ import annotations

from typing import Final

from ...model.version import Version
from ..api.registry.metadata import at_create
from ..objects.objects import JSON, Key, copied
from ..store import Store
from .cluster_state import PodInfo
from .dynamic_resources.binding_conditions import BindingError
from .dynamic_resources.extended_claims import IS_FOR_EXTENDED
from .dynamic_resources.inventory import CLAIMS
from .dynamic_resources.plugin import BoundClaim
from .dynamic_resources.pools import KNOWS_CONDITIONS

__all__ = ["ClaimWriter", "key_of"]

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"


def key_of(claim: JSON) -> Key:
    """Where a claim is among a cluster's objects."""
    return Key(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"])


class ClaimWriter:
    """Writes claims.

    Args:
        store: the cluster.
        version: the scheduler's.
    """

    def __init__(self, store: Store, version: Version) -> None:
        self._store = store
        self._objects = store.objects
        self._version = version

    def bind(self, pod: PodInfo, bound: BoundClaim, reserved: list[Key]) -> JSON:
        """Reserve a claim for a pod, with the devices that were found where it had none; the claim as it is then.

        Args:
            pod: the pod.
            bound: the claim.
            reserved: takes where the claim is, as soon as there is something to take back.

        Raises:
            BindingError: the claim has changed since the pod was tried; the message is the scheduler's.

        Source: ``bindClaim``.
        """
        objects = self._objects
        claim = self._create(pod, bound) if bound.mappings else self._current(bound)
        reserved.append(key_of(claim))
        status = dict(claim.get("status") or {})
        consumers = status.get("reservedFor") or []
        if bound.allocation is not None:
            finalizers = claim["metadata"].get("finalizers") or []
            if _FINALIZER not in finalizers:
                metadata = {**claim["metadata"], "finalizers": [*finalizers, _FINALIZER]}
                claim = objects.replace(key_of(claim), {**claim, "metadata": metadata})
            status["allocation"] = bound.allocation
        if all(consumer.get("uid") != pod.uid for consumer in consumers):
            status["reservedFor"] = [*consumers, {"resource": "pods", "name": pod.name, "uid": pod.uid}]
            if KNOWS_CONDITIONS.at(self._version):
                status["allocation"] = {"allocationTimestamp": objects.wall_time.now(), **status["allocation"]}
        return objects.replace(key_of(claim), {**claim, "status": status})

    def _current(self, bound: BoundClaim) -> JSON:
        """A claim as it is now."""
        key, known = key_of(bound.claim), bound.claim["metadata"]
        name = f"{key.namespace}/{key.name}"
        claim = self._objects.get(key)
        if claim is None or claim["metadata"]["uid"] != known["uid"]:
            is_first = bound.allocation is not None and _FINALIZER not in (known.get("finalizers") or ())
            part = "allocation and reservation" if bound.allocation is not None else "reservation"
            step = "add finalizer to" if is_first else f"add {part} to"
            raise BindingError(f'{step} claim {name}: resourceclaims.resource.k8s.io "{key.name}" not found')
        if claim["metadata"].get("deletionTimestamp"):
            raise BindingError(f"claim {name} got deleted in the meantime")
        if bound.allocation is not None and (claim.get("status") or {}).get("allocation"):
            raise BindingError(f"claim {name} got allocated elsewhere in the meantime")
        return claim

    def unreserve(self, pod: PodInfo, key: Key) -> None:
        """Take back what was reserved for a pod that is not bound; a claim made for the pod's extended resources goes.

        Source: ``Unreserve``; extendeddynamicresources.go, ``unreserveExtendedResourceClaim``.
        """
        claim = self._objects.get(key)
        if claim is None:
            return
        if IS_FOR_EXTENDED in (claim["metadata"].get("annotations") or {}):
            self._objects.remove(key)
            return
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or ()
        left = [consumer for consumer in reserved if consumer.get("uid") != pod.uid]
        status = {name: value for name, value in status.items() if name != "reservedFor"}
        self._objects.replace(key, {**claim, "status": {**status, "reservedFor": left} if left else status})

    def deallocate(self, claim: JSON) -> None:
        """Take a claim's devices back, unless it has changed since it was looked at.

        Source: ``PostFilter``.
        """
        current = self._objects.get(key_of(claim))
        if current is None or current["metadata"]["resourceVersion"] != claim["metadata"]["resourceVersion"]:
            return
        gone = ("allocation", "devices", "reservedFor")
        status = {name: value for name, value in claim["status"].items() if name not in gone}
        self._objects.replace(key_of(claim), {**claim, "status": status})

    def _create(self, pod: PodInfo, bound: BoundClaim) -> JSON:
        """Create the claim for a pod's extended resources, and note it in the pod's status.

        Source: extendeddynamicresources.go, ``createExtendedResourceClaimInAPI``,
        ``patchPodExtendedResourceClaimStatus`` (kubernetes v1.36.3).
        """
        objects = self._objects
        claim = {**copied(bound.claim), "status": {}}
        claim["metadata"]["name"] = ""
        at_create(claim, objects.wall_time)
        created = objects.create(Key(CLAIMS, pod.namespace, claim["metadata"]["name"]), claim)
        key = Key("pods", pod.namespace, pod.name)
        if (body := objects.get(key)) is not None:
            noted = {"requestMappings": [*bound.mappings], "resourceClaimName": created["metadata"]["name"]}
            objects.replace(key, {**body, "status": {**body["status"], "extendedResourceClaimStatus": noted}})
        return created
