"""The claims, classes and slices of a cluster as the scheduler knows them, and the devices that are allocated.

Source: pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go, allocateddevices.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ....dra.pod_claims import DynamicResourcesError, allocation_results, owner_refusal, pod_claims
from ....model.resources import ResourceName
from ....model.version import Version
from ...objects.device_taint_rules import TAINT_RULES, tainted
from ...objects.objects import JSON, Objects, Verb, Written
from ..cluster_state import PodInfo
from .binding_conditions import BindingError, is_overdue, is_ready
from .capacity import KNOWS_SHARES, Shares
from .extended_claims import classes_by_resource
from .pools import DeviceID, Slices
from .requests import claim_name

__all__ = ["CLAIMS", "CLASSES", "SLICES", "Inventory"]

CLAIMS: Final = "resourceclaims.resource.k8s.io"
CLASSES: Final = "deviceclasses.resource.k8s.io"
SLICES: Final = "resourceslices.resource.k8s.io"


class Inventory:
    """Cache of claims, classes and slices; `take` applies a write.

    Attributes:
        version: the scheduler's.
        classes: name -> DeviceClass.
        slices: the slices, with the taints of rules.
        allocated: the devices that claims have to themselves, without those that are only administrated.
        shares: the shares that claims have of devices.
        by_resource: extended resource -> the class that stands for it; none where claims for them are off.

    Args:
        objects: the cluster's.
        version: see above.
        serves_extended: whether the gate DRAExtendedResource is on.
    """

    def __init__(self, objects: Objects, version: Version, *, serves_extended: bool = False) -> None:
        self._wall_time = objects.wall_time
        self._serves_extended = serves_extended
        self.by_resource: dict[ResourceName, str] = {}
        self.version = version
        self.classes: dict[str, JSON] = {}
        self.allocated: set[DeviceID] = set()
        self._shared: dict[str, Mapping[str, Any]] = {}
        self.shares = Shares()
        self._bodies = {body["metadata"]["name"]: body for body in objects.all_of(SLICES)}
        self._rules = {body["metadata"]["name"]: body for body in objects.all_of(TAINT_RULES)}
        self.slices = Slices(tainted(body, self._rules.values()) for body in self._bodies.values())
        self._claims = {claim_name(body): body for body in objects.all_of(CLAIMS)}
        for body in self._claims.values():
            self._count(body)
        for body in objects.all_of(CLASSES):
            self.classes[body["metadata"]["name"]] = body
        self._name_resources()

    def take(self, written: Written) -> None:
        """Take a write to one of these kinds."""
        is_gone = written.verb is Verb.DELETED
        match written.key.kind:
            case "resourceclaims.resource.k8s.io":
                for result in _results(written.before):
                    self.allocated.discard(_device(result))
                    if self._shared.pop(result.get("shareID", ""), None) is not None:
                        self.shares = Shares.of(self._shared.values())
                self._claims.pop(claim_name(written.object), None)
                if not is_gone:
                    self._claims[claim_name(written.object)] = written.object
                    self._count(written.object)
            case "deviceclasses.resource.k8s.io":
                self.classes.pop(written.key.name, None)
                if not is_gone:
                    self.classes[written.key.name] = written.object
                self._name_resources()
            case "resourceslices.resource.k8s.io":
                if written.before is not None:
                    self.slices.remove(written.before)
                self._bodies.pop(written.key.name, None)
                if not is_gone:
                    self._bodies[written.key.name] = written.object
                    self.slices.put(tainted(written.object, self._rules.values()))

    def take_rule(self, written: Written) -> bool:
        """Take a write to a DeviceTaintRule; whether devices have other taints now.

        Source: k8s.io/dynamic-resource-allocation v0.37.2, resourceslice/tracker/tracker.go.
        """
        new = None if written.verb is Verb.DELETED else written.object
        if new is not None and written.before is not None and new["spec"] == written.before["spec"]:
            return False
        self._rules.pop(written.key.name, None)
        if new is not None:
            self._rules[written.key.name] = new
        changing = [rule for rule in (written.before, new) if rule is not None]
        affected = [body for body in self._bodies.values() if tainted(body, changing) is not body]
        for body in affected:
            self.slices.remove(body)
            self.slices.put(tainted(body, self._rules.values()))
        return bool(affected)

    def _name_resources(self) -> None:
        if self._serves_extended:
            self.by_resource = classes_by_resource(self.classes.values())

    def _count(self, claim: JSON) -> None:
        for result in _results(claim):
            if "shareID" in result and KNOWS_SHARES.at(self.version):
                self._shared[result["shareID"]] = result
                self.shares = Shares.of(self._shared.values())
            else:
                self.allocated.add(_device(result))

    def claims_of(self, pod: PodInfo) -> Iterator[JSON]:
        """The claims of a pod, in the order of its spec.

        Raises:
            DynamicResourcesError: one of them is not there, or not for this pod; the message is the scheduler's.
        """
        for each in pod_claims(pod.pod):
            claim = self._claims.get(f"{pod.namespace}/{each.claim}")
            if claim is None:
                raise DynamicResourcesError(f'could not find ResourceClaim "{pod.namespace}/{each.claim}"')
            if claim["metadata"].get("deletionTimestamp"):
                raise DynamicResourcesError(f'resourceclaim "{each.claim}" is being deleted')
            if each.is_generated and (refusal := owner_refusal(pod.pod, claim, self.version)) is not None:
                raise DynamicResourcesError(refusal)
            yield claim

    def missing(self, pod: PodInfo) -> str:
        """Why a pod is not to be tried yet; empty where all its claims are there."""
        try:
            for _ in self.claims_of(pod):
                pass
        except DynamicResourcesError as error:
            return str(error)
        return ""

    def is_given_up(self, claim: JSON) -> bool:
        """Whether the devices of a claim have failed before a pod was bound, or are not ready in time."""
        try:
            return not is_ready(claim) and is_overdue(claim, self._wall_time)
        except BindingError:
            return True

    def concerns(self, pod: PodInfo, old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> bool:
        """Whether a change of a claim may help a pod that was refused.

        Source: dynamicresources.go, ``isSchedulableAfterClaimChange``.
        """
        try:
            is_its_own = new["metadata"]["uid"] in [claim["metadata"]["uid"] for claim in self.claims_of(pod)]
        except DynamicResourcesError:
            return False
        before, after = (old or {}).get("status") or {}, new.get("status") or {}
        if before.get("allocation") and not after.get("allocation"):
            return True
        return is_its_own and (old is None or before != after)


def _results(claim: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """What a claim has, without what it only administrates."""
    return (one for one in allocation_results(claim or {}) if not one.get("adminAccess"))


def _device(result: Mapping[str, Any]) -> DeviceID:
    return DeviceID(result["driver"], result["pool"], result["device"])
