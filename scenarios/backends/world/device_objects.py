"""Objects of ``resource.k8s.io`` at a real API server, as steps make and change them; the server has its own rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from simkubelet.model.errors import InputError

from ...story.verbs.pod_action import AllocateClaim, Create

GROUP: Final = "resource.k8s.io/v1"
_EXACTLY: Final = {"deviceClassName": "story", "allocationMode": "ExactCount", "count": 1}
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_CLAIMS: Final = "namespaces/default/resourceclaims"
_PATHS: Final = {
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": _CLAIMS,
    "ResourceClaimTemplate": "namespaces/default/resourceclaimtemplates",
}

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


class DeviceObjects:
    """The objects of one story.

    Args:
        call: Asks the API server.
        labels: By which what the story has made is found when it ends, also after a run that was killed.
    """

    def __init__(self, call: Call, labels: Mapping[str, str]) -> None:
        self._call = call
        self._labels = labels

    async def create(self, action: Create, manifest: Mapping[str, Any]) -> None:
        """Create an object; `manifest` is the step's, in the cluster's names.

        Raises:
            InputError: The server refuses it.
        """
        if not await self._call("POST", _PATHS[action.kind], self._labelled(manifest)):
            raise InputError(f"{action.title}: the API server has no {GROUP}")

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

    def _labelled(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        metadata = manifest["metadata"]
        return {**manifest, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **self._labels}}}
