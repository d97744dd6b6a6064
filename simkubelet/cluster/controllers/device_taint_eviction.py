"""The controller that ends pods whose devices have a taint with the effect NoExecute.

The driver taints a device in its ResourceSlice. A pod goes when one of its claims has a device whose taint the claim
does not tolerate, or no longer: the time of a toleration counts from that of the taint. DeviceTaintRules are not
served, and claims of extended resources are passed over, as in the real controller.

Source: pkg/controller/devicetainteviction/device_taint_eviction.go (kubernetes v1.36.3, v1.37.2).
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..._internal.change import Noted
from ...dra.pod_claims import DynamicResourcesError, allocation_results, is_reserved_for, owner_refusal, pod_claims
from ...model.clock import Clock
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition, ConditionType
from ...model.version import Difference, Version
from ..objects.node_selection import tolerates
from ..objects.objects import JSON, Key, Verb, Written
from ..store import Store
from .pod_evictions import EvictionTexts, PodEvictions

__all__ = ["DeviceTaintEviction"]

_EVICTS: Final = Difference(
    "a controller ends pods whose devices have a taint with the effect NoExecute",
    {"1.26": False, "1.36": True},
    "pkg/features/kube_features.go, ``DRADeviceTaints``; cmd/kube-controller-manager/app/resource.go (kubernetes "
    "v1.35.4, v1.36.3)",
)

_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_SLICES: Final = "resourceslices.resource.k8s.io"
_EVICTION: Final = EvictionTexts(
    component="device-taint-eviction-controller",
    reason="DeviceTaintManagerEviction",
    ends="Marking for deletion",
    spares="Cancelling deletion",
    condition=Condition(
        ConditionType.DISRUPTION_TARGET,
        True,
        "DeletionByDeviceTaintManager",
        "Device Taint manager: deleting due to NoExecute taint",
    ),
)


class DeviceTaintEviction:
    """Looks after the pods of a cluster for as long as `run` runs, from 1.36 on.

    Args:
        store: the cluster.
        clock: its time.
        release: the controller's.
    """

    def __init__(self, store: Store, clock: Clock, release: Version) -> None:
        self._store = store
        self._release = release
        self._slices: defaultdict[tuple[str, str], dict[str, JSON]] = defaultdict(dict)
        for body in store.objects.all_of(_SLICES):
            self._slices[_pool(body)][body["metadata"]["name"]] = body
        self._evictions = PodEvictions(store, clock, _EVICTION)
        self._noted = Noted(pod.uid for pod in store.pods)
        self._is_on = _EVICTS.at(release)
        if self._is_on:
            store.objects.subscribe(_SLICES, self._note_slice)
            store.objects.subscribe(_CLAIMS, self._note_claim)
            store.objects.subscribe("pods", self._note_pod)

    async def run(self) -> None:
        """Work until cancelled; a release without this controller has nothing to do."""
        if not self._is_on:
            return
        async with asyncio.TaskGroup() as tasks:
            await self._noted.look_at_each(lambda uid: self._consider(uid, tasks))

    def _note_slice(self, written: Written) -> None:
        pool, name = _pool(written.object), written.key.name
        slices = self._slices[pool]
        # A new generation may be without the taints that slices of the one before have.
        concerns = any(map(_has_taints, (*slices.values(), written.object)))
        slices.pop(name, None)
        if written.verb is not Verb.DELETED:
            slices[name] = written.object
        if concerns:
            for claim in self._store.objects.all_of(_CLAIMS):
                if any((one["driver"], one["pool"]) == pool for one in allocation_results(claim)):
                    self._note(claim)

    def _note_claim(self, written: Written) -> None:
        for claim in (written.before, written.object):
            if claim is not None and allocation_results(claim):
                self._note(claim)

    def _note_pod(self, written: Written) -> None:
        if written.object["spec"].get("resourceClaims"):
            self._noted.note(PodUID(written.object["metadata"]["uid"]))

    def _note(self, claim: JSON) -> None:
        """The pods of a claim are to be looked at."""
        for user in (claim.get("status") or {}).get("reservedFor") or ():
            self._noted.note(PodUID(user["uid"]))

    def _consider(self, uid: PodUID, tasks: asyncio.TaskGroup) -> None:
        pod = self._store.pod(uid)
        if pod is None:
            self._evictions.forget(uid)
        elif not pod.is_deleting:
            due_at = self._eviction_time(pod)
            if due_at is None:
                self._evictions.spare(pod)
            else:
                self._evictions.plan(pod, due_at, tasks)

    def _eviction_time(self, pod: Pod) -> float | None:
        """When a pod has to go; None where it may stay."""
        if pod.node_name is None:
            return None
        return min((due_at for claim in self._claims_of(pod) for due_at in self._times(claim)), default=None)

    def _claims_of(self, pod: Pod) -> Iterator[JSON]:
        """The claims of a pod that it may use."""
        try:
            named = list(pod_claims(pod))
        except DynamicResourcesError:
            return
        for one in named:
            claim = self._store.objects.get(Key(_CLAIMS, pod.namespace, one.claim))
            if claim is None or (one.is_generated and owner_refusal(pod, claim, self._release) is not None):
                continue
            if is_reserved_for(pod, claim):
                yield claim

    def _times(self, claim: JSON) -> Iterator[float]:
        """When each taint of a claim's devices ends its pods."""
        for result in allocation_results(claim):
            for taint in self._taints(result):
                tolerated_s = _tolerated_s(taint, result)
                if tolerated_s < math.inf:
                    yield self._store.objects.wall_time.seconds(taint["timeAdded"]) + tolerated_s

    def _taints(self, result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The taints of a device that end pods."""
        slices = self._slices.get((result["driver"], result["pool"]), {}).values()
        newest = max((one["spec"]["pool"]["generation"] for one in slices), default=0)
        for one in slices:
            if one["spec"]["pool"]["generation"] == newest:
                for device in one["spec"].get("devices") or ():
                    if device["name"] == result["device"]:
                        return [taint for taint in device.get("taints") or () if taint["effect"] == "NoExecute"]
        return []


def _pool(slice_: JSON) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _has_taints(slice_: JSON) -> bool:
    return any(device.get("taints") for device in slice_["spec"].get("devices") or ())


def _tolerated_s(taint: Mapping[str, Any], result: Mapping[str, Any]) -> float:
    """How long a claim tolerates a taint: infinity for ever, 0 where it does not."""
    fitting = [
        one for one in result.get("tolerations") or () if one.get("effect") == "NoExecute" and tolerates(one, taint)
    ]
    limits = [one.get("tolerationSeconds") for one in fitting]
    if any(limit is None for limit in limits):
        return math.inf
    return max(min(map(float, limits), default=0.0), 0.0)
