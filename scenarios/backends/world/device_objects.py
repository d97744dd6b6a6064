"""Objects of ``resource.k8s.io`` at a real API server, as steps make and change them; the server has its own rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from simkubelet.model.errors import InputError

from ...story.verbs.pod_action import AllocateClaim, Create, DeleteClaim, ObjectAction, ReportConditions
from ...trace.snapshot import Ids

GROUP: Final = "resource.k8s.io/v1"
SLICES: Final = "resourceslices"
_EXACTLY: Final = {"deviceClassName": "story", "allocationMode": "ExactCount", "count": 1}
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_CLAIMS: Final = "namespaces/default/resourceclaims"
_PATHS: Final = {
    "DeviceClass": "deviceclasses",
    "ResourceSlice": SLICES,
    "ResourceClaim": _CLAIMS,
    "ResourceClaimTemplate": "namespaces/default/resourceclaimtemplates",
    "DeviceTaintRule": "devicetaintrules",
}

GOES_WITHIN_S: Final = 10.0
"""How long an object may take to go after its deletion: the controller has to have seen the end of its pods."""
STILL_THERE: Final = "it is still there; delete the pods first that use it"
_LOOK_S: Final = 0.2

JSON = Mapping[str, Any]

Call = Callable[[str, str, Any], Awaitable[dict[str, Any]]]
"""One call: method, path below the group, and body or None. It answers nothing where the server answers 404.

A PATCH is a merge patch (RFC 7386).
"""


def claim_body(action: AllocateClaim, pods: Mapping[str, str]) -> dict[str, Any]:
    """What a scheduler and the claim controller leave in a claim: one request for each of its names.

    Args:
        action: The step.
        pods: Name -> uid of the pods that it reserves the claim for.
    """
    requests = dict.fromkeys(device.request for device in action.devices)
    results = [
        {"request": one.request, "driver": one.driver, "pool": one.pool, "device": one.device} for one in action.devices
    ]
    reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in pods.items()]
    return {
        "apiVersion": GROUP,
        "kind": "ResourceClaim",
        "metadata": {"name": action.claim, "namespace": "default", "finalizers": [_FINALIZER]},
        "spec": {"devices": {"requests": [{"name": name, "exactly": _EXACTLY} for name in requests]}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": reserved},
    }


def reported_devices(action: ReportConditions, claim: JSON, date: str) -> list[dict[str, Any]]:
    """The ``status.devices`` of a claim with what drivers report of its devices.

    Args:
        action: The step.
        claim: The claim, as it is.
        date: When the conditions became what they are.

    Raises:
        InputError: The claim has no devices.
    """
    results = ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results")
    if not results:
        raise InputError(f"{action.title}: it is not allocated")
    common = {"reason": "Reported", "message": "by the story", "lastTransitionTime": date}
    conditions = [{"type": name, "status": str(is_so), **common} for name, is_so in action.conditions.items()]
    parts = ("driver", "pool", "device", "shareID")
    return [{**{part: one[part] for part in parts if part in one}, "conditions": conditions} for one in results]


def published_devices(slices: Iterable[JSON], node: str) -> Ids:
    """Driver -> the devices of its ResourceSlices for a node."""
    devices: dict[str, list[str]] = {}
    for one in slices:
        spec = one["spec"]
        if spec.get("nodeName") == node:
            devices.setdefault(spec["driver"], []).extend(device["name"] for device in spec.get("devices") or ())
    return {driver: tuple(sorted(names)) for driver, names in devices.items()}


class SeenSlices:
    """The ResourceSlices that a watch reports."""

    def __init__(self) -> None:
        self._slices: dict[str, JSON] = {}

    def replaced(self, items: Sequence[JSON]) -> None:
        """Take all that there are."""
        self._slices = {item["metadata"]["name"]: item for item in items}

    def changed(self, item: JSON) -> None:
        """Take one that is new or has changed."""
        self._slices[item["metadata"]["name"]] = item

    def deleted(self, item: JSON) -> None:
        """Take that one is gone."""
        self._slices.pop(item["metadata"]["name"], None)

    def published(self, node: str) -> Ids:
        """See `published_devices`."""
        return published_devices(self._slices.values(), node)


class DeviceObjects:
    """The objects of one story.

    Args:
        call: Asks the API server.
        labels: By which what the story has made is found when it ends, also after a run that was killed.
    """

    def __init__(self, call: Call, labels: Mapping[str, str]) -> None:
        self._call = call
        self._labels = labels

    async def perform(self, action: ObjectAction, in_cluster: Callable[[JSON], JSON] = dict) -> None:
        """Create an object, change it, or delete it, and wait until it is gone if the step does.

        Args:
            action: The step.
            in_cluster: Gives a manifest the cluster's names.

        Raises:
            InputError: The server refuses it, has none of that name, or something keeps it.
        """
        match action:
            case Create():
                if not await self._call("POST", _PATHS[action.kind], self._labelled(in_cluster(action.manifest))):
                    raise InputError(f"{action.title}: the API server has no {GROUP}")
            case DeleteClaim():
                claim = f"{_CLAIMS}/{action.claim}"
                if not await self._call("DELETE", claim, None):
                    raise InputError(f"{action.title}: there is none of that name")
                if not action.waits:
                    return
                for _ in range(int(GOES_WITHIN_S / _LOOK_S)):
                    if not await self._call("GET", claim, None):
                        return
                    await asyncio.sleep(_LOOK_S)
                raise InputError(f"{action.title}: {STILL_THERE}")
            case ReportConditions():
                claim = f"{_CLAIMS}/{action.claim}"
                if not (known := await self._call("GET", claim, None)):
                    raise InputError(f"{action.title}: there is none of that name")
                devices = reported_devices(action, known, datetime.now(UTC).isoformat(timespec="seconds"))
                await self._call("PATCH", f"{claim}/status", {"status": {"devices": devices}})

    async def allocate(self, action: AllocateClaim, pods: Mapping[str, str]) -> None:
        """Leave a claim as a scheduler does; see `claim_body`.

        Raises:
            InputError: The server refuses it.
        """
        body = claim_body(action, pods)
        status = body.pop("status")
        path = f"{_CLAIMS}/{action.claim}"
        known = await self._call("GET", path, None)
        if not known:
            known = await self._call("POST", _CLAIMS, self._labelled(body))
        if not known:
            raise InputError(f"{action.title}: the API server has no {GROUP}")
        if (known.get("status") or {}).get("allocation"):
            # What was allocated cannot be changed, only taken back.
            await self._call("PATCH", f"{path}/status", {"status": None})
        await self._call("PATCH", f"{path}/status", {"status": status})

    async def remove(self) -> None:
        """Remove what stories have made, those included from which a killed run has left something."""
        selected = "labelSelector=" + ",".join(f"{key}={value}" for key, value in self._labels.items())
        for path in _PATHS.values():
            left = await self._call("GET", f"{path}?{selected}", None)
            for item in left.get("items") or ():
                one = f"{path}/{item['metadata']['name']}"
                if item["metadata"].get("finalizers"):
                    # A controller that put them there may wait for a pod of the story.
                    await self._call("PATCH", one, {"metadata": {"finalizers": None}})
                await self._call("DELETE", one, None)

    def _labelled(self, manifest: JSON) -> dict[str, Any]:
        metadata = manifest["metadata"]
        return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **self._labels}}}
