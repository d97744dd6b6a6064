"""The controller that ends pods whose devices have a taint with the effect NoExecute.

The driver taints a device in its ResourceSlice, an administrator with a DeviceTaintRule. A pod goes when one of its
claims has a device whose taint the claim does not tolerate, or no longer: the time of a toleration counts from that of
the taint. Claims of extended resources are passed over by the controllers up to 1.37.1.

Source: pkg/controller/devicetainteviction/device_taint_eviction.go (kubernetes v1.36.3, v1.37.2).
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ..._internal.change import Noted
from ..._internal.doors import Door
from ...dra.pod_claims import (
    DynamicResourcesError,
    PodClaim,
    allocation_results,
    is_reserved_for,
    owner_refusal,
    pod_claims,
)
from ...model.clock import Clock
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition, ConditionType
from ...model.version import Difference, Version
from ..objects.device_taint_rules import TAINT_RULES, is_selected
from ..objects.node_selection import tolerates
from ..objects.objects import JSON, Key, Verb, Written
from ..store import Store
from .device_taint_rule_status import RULE_STATUS_PERIOD_S, STATUS_OF_RULE, RuleStatuses
from .pod_evictions import EvictionTexts, PodEvictions

__all__ = ["DeviceTaintEviction"]

_FOLLOWS_EXTENDED_CLAIMS: Final = Difference(
    "a tainted device ends pods that have it by a claim of their extended resources, too",
    {"1.26": False, "1.37.2": True},
    "pkg/controller/devicetainteviction/device_taint_eviction.go, ``podEvictionTime``, ``handlePodChange`` (kubernetes "
    "v1.37.1, v1.37.2)",
)
_EVICTS: Final = Difference(
    "a controller ends pods whose devices have a taint with the effect NoExecute",
    {"1.26": False, "1.36": True},
    "pkg/features/kube_features.go, ``DRADeviceTaints``; cmd/kube-controller-manager/app/resource.go (kubernetes "
    "v1.35.4, v1.36.3)",
)

_POD: Final = Door("eviction of a pod by device taints")
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
        self._rules = {body["metadata"]["name"]: body for body in store.objects.all_of(TAINT_RULES)}
        self._statuses = RuleStatuses(store.objects, clock, self._affected, self._published)
        self._evictions = PodEvictions(store, clock, _EVICTION, self._count)
        self._noted_rules = Noted(self._rules)
        self._noted = Noted(pod.uid for pod in store.pods)
        self._is_on = _EVICTS.at(release)
        if self._is_on:
            store.objects.subscribe(_SLICES, self._note_slice)
            store.objects.subscribe(_CLAIMS, self._note_claim)
            store.objects.subscribe("pods", self._note_pod)
            store.objects.subscribe(TAINT_RULES, self._note_rule)

    async def run(self) -> None:
        """Work until cancelled; a release without this controller has nothing to do."""
        if not self._is_on:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._statuses.run())
            statuses = self._statuses
            tasks.create_task(self._noted_rules.look_at_each(statuses.update, STATUS_OF_RULE, statuses.record_failure))
            await self._noted.look_at_each(lambda uid: self._consider(uid, tasks), _POD, self._record_failure)

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

    def _note_rule(self, written: Written) -> None:
        old, new = written.before, None if written.verb is Verb.DELETED else written.object
        self._rules.pop(written.key.name, None)
        if new is not None:
            self._rules[written.key.name] = new
        if new is not None and old is not None and old["spec"] == new["spec"]:
            return
        self._noted_rules.note(written.key.name)
        for claim in self._store.objects.all_of(_CLAIMS):
            if any(rule is not None and _selects_any(rule, claim) for rule in (old, new)):
                self._note(claim)

    def _note(self, claim: JSON) -> None:
        """The pods of a claim are to be looked at."""
        for user in (claim.get("status") or {}).get("reservedFor") or ():
            self._noted.note(PodUID(user["uid"]))

    def _consider(self, uid: PodUID, tasks: asyncio.TaskGroup) -> None:
        pod = self._store.pod(uid)
        if pod is None:
            self._evictions.forget(uid)
        elif not pod.is_deleting:
            reasons = self._reasons(pod)
            if not reasons:
                self._evictions.spare(pod)
                return
            self._evictions.plan(pod, min(due_at for due_at, _ in reasons), tasks)
            for _, rule in reasons:
                if rule:
                    self._statuses.plan(rule, RULE_STATUS_PERIOD_S)

    def _record_failure(self, uid: PodUID, error: str) -> None:
        if (pod := self._store.pod(uid)) is not None:
            self._evictions.record_failure(pod, error)

    def _count(self, pod: Pod) -> None:
        for rule in {rule for _, rule in self._reasons(pod) if rule}:
            self._statuses.count_eviction(rule)

    def _affected(self, rule: JSON) -> list[Pod]:
        """The pods that have to go for a rule, or would if its effect was NoExecute."""
        taint = {**rule["spec"]["taint"], "effect": "NoExecute"}
        return [
            pod
            for pod in self._store.pods
            if pod.node_name is not None
            and not pod.is_deleting
            and any(
                is_selected(rule, _device(result)) and _tolerated_s(taint, result) < math.inf
                for claim in self._claims_of(pod)
                for result in allocation_results(claim)
            )
        ]

    def _published(self) -> Iterator[dict[str, str]]:
        for (driver, pool), slices in self._slices.items():
            for device in _newest_devices(slices.values()):
                yield {"driver": driver, "pool": pool, "device": device["name"]}

    def _reasons(self, pod: Pod) -> list[tuple[float, str]]:
        """When each taint ends a pod, and the rule that the taint is of; empty for a driver's."""
        if pod.node_name is None:
            return []
        return [reason for claim in self._claims_of(pod) for reason in self._times(claim)]

    def _claims_of(self, pod: Pod) -> Iterator[JSON]:
        """The claims of a pod that it may use."""
        try:
            named = list(pod_claims(pod))
        except DynamicResourcesError:
            return
        if _FOLLOWS_EXTENDED_CLAIMS.at(self._release) and (extended := pod.extended_claim) is not None:
            named.append(PodClaim("", extended.name, is_generated=True))
        for one in named:
            claim = self._store.objects.get(Key(_CLAIMS, pod.namespace, one.claim))
            if claim is None or (one.is_generated and owner_refusal(pod, claim, self._release) is not None):
                continue
            if is_reserved_for(pod, claim):
                yield claim

    def _times(self, claim: JSON) -> Iterator[tuple[float, str]]:
        """When each taint of a claim's devices ends its pods; see `_reasons`."""
        for result in allocation_results(claim):
            for taint, rule in self._taints(result):
                tolerated_s = _tolerated_s(taint, result)
                if taint["effect"] == "NoExecute" and tolerated_s < math.inf:
                    yield self._store.objects.wall_time.seconds(taint["timeAdded"]) + tolerated_s, rule

    def _taints(self, result: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
        """The taints of a device, and the rule that each is of; empty for its driver's."""
        for device in _newest_devices(self._slices.get((result["driver"], result["pool"]), {}).values()):
            if device["name"] == result["device"]:
                yield from ((taint, "") for taint in device.get("taints") or ())
                break
        for name, rule in self._rules.items():
            if is_selected(rule, _device(result)):
                yield rule["spec"]["taint"], name


def _pool(slice_: JSON) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]


def _newest_devices(slices: Collection[JSON]) -> Iterator[JSON]:
    """The devices of a pool, without those of generations before."""
    newest = max((one["spec"]["pool"]["generation"] for one in slices), default=0)
    for one in slices:
        if one["spec"]["pool"]["generation"] == newest:
            yield from one["spec"].get("devices") or ()


def _device(result: Mapping[str, Any]) -> dict[str, str]:
    return {part: result[part] for part in ("driver", "pool", "device")}


def _selects_any(rule: JSON, claim: JSON) -> bool:
    return any(is_selected(rule, _device(result)) for result in allocation_results(claim))


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
