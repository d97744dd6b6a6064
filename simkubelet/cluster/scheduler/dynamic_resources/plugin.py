"""The scheduler's plugin DynamicResources: what it says about one pod and each node, and what it would write.

A cluster's scheduler here writes an allocation in the same step in which it has chosen the node, so that none is ever
in flight, and a claim for extended resources is never left over from a try before.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ....dra.pod_claims import DynamicResourcesError
from ....model.version import Difference
from ...cel.run import Effort
from ...cel.values import ExhaustedError
from ...objects.node_selection import matches_term
from ...objects.objects import JSON
from ..cluster_state import NodeInfo, PodInfo
from ..refusals import Plugin, Refusal
from .allocator import Allocator, InvalidPoolsError
from .extended_claims import claim_for, left_to_claims
from .inventory import Inventory
from .requests import AllocatorError, claim_name, devices_of

__all__ = ["BoundClaim", "ClaimsCycle"]

_SAYS_WHAT_IT_LEAVES: Final = Difference(
    "the FailedScheduling text says that no claim can be given back, or that this does not help",
    {"1.26": True, "1.37": False},
    "plugins/dynamicresources/dynamicresources.go, ``PostFilter`` (kubernetes v1.36.3, v1.37.2)",
)

_SCORES: Final = Difference(
    "of the nodes that have devices for a pod's claims, those come first that serve requests by their first "
    "alternatives",
    {"1.26": False, "1.35": True},
    "plugins/dynamicresources/dynamicresources.go, ``NormalizeScore``; scheduler/apis/config/v1/default_plugins.go, "
    "``applyDynamicResources`` (kubernetes v1.34.4, v1.35.4)",
)
_NEEDS_ALL_UNALLOCATED: Final = Difference(
    "a try ends with an error where several nodes would do for a pod of whose claims some have devices and some have "
    "not",
    {"1.26": False, "1.35": True, "1.35.6": False, "1.36": True, "1.36.2": False},
    "plugins/dynamicresources/dynamicresources.go, ``Score``, ``computeScore`` (kubernetes v1.35.5, v1.35.6, v1.36.1, "
    "v1.36.2)",
)
_TIME_ENDS_TRY: Final = Difference(
    "a try ends with an error where a node takes too long to be searched for devices; before, the node refuses the pod",
    {"1.26": False, "1.36": True},
    "plugins/dynamicresources/dynamicresources.go, ``Filter`` (kubernetes v1.35.4, v1.36.3)",
)

_MOST_ALTERNATIVES: Final = 8
_UNAVAILABLE: Final = "resourceclaim not available on the node"
_NOT_ALL: Final = "cannot allocate all claims"
_TIMED_OUT: Final = "timed out trying to allocate devices"
_NO_CLAIMS: Final = "no new claims to deallocate"
_DEALLOCATED: Final = "deallocation of ResourceClaim completed"
_STILL: Final = "still not schedulable"


@dataclass(frozen=True, slots=True)
class BoundClaim:
    """A claim that a pod is to use.

    Attributes:
        allocation: None where the claim has one already.
        mappings: of a claim that is to be created for the pod's extended resources, the ``requestMappings`` for the
            pod's status; none of any other.
    """

    claim: JSON
    allocation: JSON | None
    mappings: Sequence[JSON] = ()


class ClaimsCycle:
    """One try of one pod.

    Args:
        pod: the pod.
        inventory: None where the plugin is off.
        effort: what the try may cost.

    Attributes:
        is_off: whether there is no such plugin.
        refusal: why no node will do; None where that depends on the node.
        extended: the resources that the pod asks for and drivers serve, where the node has none -> their classes.
    """

    def __init__(self, pod: PodInfo, inventory: Inventory | None, effort: Effort) -> None:
        self._effort = effort
        self._pod = pod
        self._inventory = inventory
        self.is_off = inventory is None
        self._claims: tuple[JSON, ...] = ()
        self._unavailable: set[int] = set()
        self._found: dict[str, Refusal | Sequence[JSON]] = {}
        self._own: dict[str, tuple[JSON, Sequence[JSON]]] = {}
        by_resource = {} if inventory is None else inventory.by_resource
        asked = (name for name, amount in pod.requests.items() if amount)
        self.extended = {name: by_resource[name] for name in asked if name in by_resource}
        self.refusal = None if inventory is None else self._look_at_claims(inventory)

    def on(self, node: NodeInfo) -> Refusal | None:
        """What speaks against a node; the same answer whatever other pods are there.

        Raises:
            AllocatorError: the try ends with this error.
            SchedulerPanicError: the scheduler of this version would end here.
        """
        served = left_to_claims(self.extended, node.allocatable)
        if not self._claims and not served:
            return None
        if node.name not in self._found:
            if served:
                self._own[node.name] = claim_for(self._pod, {name: self.extended[name] for name in served})
            self._found[node.name] = self._try_node(node)
        found = self._found[node.name]
        return found if isinstance(found, Refusal) else None

    def error_on(self, node: str) -> str:
        """What keeps a pod from a node that was accepted; empty where nothing does.

        Beside claims of the pod's own, the one for its extended resources is made also where a device plugin has all of
        them, and the scheduler fails with a claim that asks for nothing.

        Source: plugins/dynamicresources/extendeddynamicresources.go, ``filterExtendedResources``,
        ``patchPodExtendedResourceClaimStatus`` (kubernetes v1.35.4, v1.36.3; seen in v1.37.2).
        """
        if not (self._claims and self.extended) or node in self._own:
            return ""
        pod = f"{self._pod.namespace}/{self._pod.name}"
        return f"nil or empty request mappings, no update of pod {pod} ExtendedResourceClaimStatus"

    def bound(self, node: str) -> tuple[BoundClaim, ...]:
        """The claims as they are to be once the pod goes to a node that was accepted."""
        found = self._found.get(node, ())
        allocations = iter(() if isinstance(found, Refusal) else found)
        claims = [BoundClaim(claim, None if _allocation(claim) else next(allocations)) for claim in self._claims]
        if (own := self._own.get(node)) is not None:
            claims.append(BoundClaim(own[0], next(allocations), own[1]))
        return tuple(claims)

    def score_error(self) -> str:
        """What ends the try where several nodes will do; empty where nothing does.

        Source: ``computeScore`` (kubernetes v1.35.5).
        """
        if self._inventory is None or not _NEEDS_ALL_UNALLOCATED.at(self._inventory.version):
            return ""
        count, wanted = len(self._claims), self._wanted_count()
        if wanted in (0, count + bool(self.extended)):
            return ""
        return f"number of allocations {wanted} is smaller than number of claims"

    def scores(self, nodes: Iterable[NodeInfo]) -> dict[str, int]:
        """Node -> how early the alternatives come that serve the claims there; empty where nothing is to be allocated.

        Devices that a claim has already count alike for all nodes.

        Source: ``Score``, ``computeScore`` (kubernetes v1.36.3).
        """
        if self._inventory is None or not _SCORES.at(self._inventory.version) or not self._wanted_count():
            return {}
        return {node.name: sum(map(_earliness, self.bound(node.name))) for node in nodes}

    def clear_up(self) -> tuple[tuple[str, ...], JSON | None]:
        """What is done about claims where no node will do: the text of it, and the claim to deallocate.

        The real one takes any of the claims that kept nodes away; here it is the first.

        Source: ``PostFilter``.
        """
        is_told = self._inventory is not None and _SAYS_WHAT_IT_LEAVES.at(self._inventory.version)
        if not self._claims and not self.extended:
            return (_NO_CLAIMS,) if is_told else (), None
        for index in sorted(self._unavailable):
            claim = self._claims[index]
            reserved = (claim.get("status") or {}).get("reservedFor") or ()
            if all(consumer.get("uid") == self._pod.uid for consumer in reserved[:1]) and len(reserved) <= 1:
                return (_DEALLOCATED,), claim
        return (_STILL,) if is_told else (), None

    def _wanted_count(self) -> int:
        """How many claims are to be allocated, with the one for extended resources."""
        return sum(not _allocation(claim) for claim in self._claims) + bool(self.extended)

    def _look_at_claims(self, inventory: Inventory) -> Refusal | None:
        """Source: ``PreFilter``."""
        try:
            claims = tuple(inventory.claims_of(self._pod))
            for claim in claims:
                if not _allocation(claim):
                    _check_classes(claim, inventory)
        except DynamicResourcesError as error:
            return _refusal(str(error))
        self._claims = claims
        return None

    def _try_node(self, node: NodeInfo) -> Refusal | Sequence[JSON]:
        """Try to allocate the claims on a node.

        Where the try has become too expensive, all nodes refuse the pod that would cost more, or the first one ends the
        try. The real plugin has 10 s for each node.

        Raises:
            AllocatorError: the try ends with this error.

        Source: ``Filter``, with the gate DRASchedulerFilterTimeout.
        """
        away = {index for index, claim in enumerate(self._claims) if not self._is_available(claim, node)}
        wanted = [claim for claim in self._claims if not _allocation(claim)]
        if node.name in self._own:
            wanted.append(self._own[node.name][0])
        found: Sequence[JSON] | None = ()
        if wanted and (inventory := self._inventory) is not None:
            allocator = Allocator(
                inventory.classes,
                inventory.slices,
                inventory.allocated,
                inventory.version,
                inventory.shares,
                self._effort,
            )
            try:
                found = allocator.allocate(wanted, node.name, node.labels)
            except ExhaustedError:
                if _TIME_ENDS_TRY.at(inventory.version):
                    raise AllocatorError(f"node {node.name}: {_TIMED_OUT}") from None
                return _refusal(_TIMED_OUT)
            except InvalidPoolsError as error:
                return _refusal(str(error))
        if found is None:
            return _refusal(_NOT_ALL)
        self._unavailable |= away
        return _refusal(_UNAVAILABLE) if away else found

    def _is_available(self, claim: JSON, node: NodeInfo) -> bool:
        """Whether the devices of a claim can be used from a node; a claim without devices may get some there."""
        terms = ((_allocation(claim) or {}).get("nodeSelector") or {}).get("nodeSelectorTerms")
        is_near = terms is None or any(matches_term(term, node.labels, node.name) for term in terms)
        return is_near and not (self._inventory is not None and self._inventory.is_given_up(claim))


def _check_classes(claim: Mapping[str, Any], inventory: Inventory) -> None:
    for request in claim["spec"].get("devices", {}).get("requests") or ():
        alternatives = request.get("firstAvailable") or ()
        wanted = [(f"{request['name']}/{each['name']}", each) for each in alternatives]
        if (exactly := request.get("exactly")) is not None:
            wanted = [(request["name"], exactly)]
        if not wanted:
            text = f"resource claim {claim_name(claim)}, request {request['name']}: unknown request type"
            raise DynamicResourcesError(text)
        for name, each in wanted:
            if each.get("deviceClassName") not in inventory.classes:
                text = f"request {name}: device class {each.get('deviceClassName', '')} does not exist"
                raise DynamicResourcesError(text)


def _earliness(bound: BoundClaim) -> int:
    """Points for each alternative that serves a request of a claim: 8 for a first one, 7 for a second."""
    allocation = _allocation(bound.claim) if bound.allocation is None else bound.allocation
    served = {result["request"] for result in (allocation or {}).get("devices", {}).get("results") or ()}
    return sum(
        _MOST_ALTERNATIVES - place
        for request in devices_of(bound.claim).get("requests") or ()
        for place, each in enumerate(request.get("firstAvailable") or ())
        if f"{request['name']}/{each['name']}" in served
    )


def _allocation(claim: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return (claim.get("status") or {}).get("allocation")


def _refusal(text: str) -> Refusal:
    return Refusal(Plugin.DYNAMIC_RESOURCES, (text,))
