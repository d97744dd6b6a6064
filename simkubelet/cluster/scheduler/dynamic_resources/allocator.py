"""The search of devices for claims: depth first, the first full solution is taken.

Claims are tried in their order, requests and alternatives as listed, devices by driver, pool, slice and their order in
the slice. A request for several devices takes them in this order only: the real search tries all permutations, of which
the ordered one comes first and no other can succeed where it fails.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/allocator_experimental.go, with the
features that are on by default in 1.34: admin access and prioritized lists; v0.35.4 to v0.37.1, structured/internal/
incubating, also for taints and counters, which the API server drops before 1.36.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from ....model.version import Difference, Version
from ...cel.run import Effort
from ...cel.values import ExhaustedError
from .capacity import FreeCapacity, Shares
from .constraints import Constraint, constraints_of
from .counters import FreeCounters
from .pools import PASSES_OVER_POOLS, Device, DeviceID, Pool, Slices, gather_pools
from .requests import AllocatorError, Request, claim_name, requests_of
from .results import Chosen, allocation_result

__all__ = ["Allocator", "InvalidPoolsError", "SchedulerPanicError", "one_try"]

_KEEPS_COUNTERS: Final = Difference(
    "a device that is refused for a taint or a constraint keeps its counters for the rest of the search on the node",
    {"1.26": True, "1.36.3": False},
    "k8s.io/dynamic-resource-allocation v0.36.2, v0.36.3, structured/internal/incubating/allocator_incubating.go, "
    "``allocateDevice``",
)
_CRASHES_FOR_ALL: Final = Difference(
    "the scheduler crashes where a request for all devices gets one that consumes counters",
    {"1.26": False, "1.36": True, "1.36.2": False},
    "k8s.io/dynamic-resource-allocation v0.36.1, v0.36.2, structured/internal/incubating/allocator_incubating.go, "
    "``validateDeviceRequest``, ``checkAvailableCounters``",
)
_LOSES_ALTERNATIVE: Final = Difference(
    "after the first device of an alternative for all devices, the search goes on with the first alternative of the "
    "request; where that is for all devices too, the second one gets the same devices, whatever its selectors say",
    {"1.26": True, "1.36": False},
    "k8s.io/dynamic-resource-allocation v0.34.4, v0.35.4, v0.36.0, structured/internal/incubating/"
    "allocator_incubating.go, ``Allocate``, ``allocateOne``",
)
_LEAVES_OUT_USED_UP: Final = Difference(
    "a request for all devices passes over those whose capacity is used up; from 1.37 on it is refused for them",
    {"1.26": True, "1.37": False},
    "k8s.io/dynamic-resource-allocation v0.36.6, v0.37.0, structured/internal/incubating/allocator_incubating.go, "
    "``validateDeviceRequest``",
)
_COUNTS_BY_REQUEST: Final = Difference(
    "the error of a claim for more devices than a result holds names the request that is one too many",
    {"1.26": False, "1.34.12": True, "1.35": False, "1.36.5": True, "1.37": False, "1.37.1": True},
    "k8s.io/dynamic-resource-allocation v0.34.12, v0.35.8, v0.36.5, v0.37.0, v0.37.1, structured/internal/experimental/"
    "allocator_experimental.go, structured/internal/incubating/allocator_incubating.go, ``Allocate``, ``allocateOne``",
)

Allocation: TypeAlias = dict[str, Any]

_MOST_DEVICES: Final = 32
_MOST_COST: Final = 10_000_000
"""Of a try, in units of expressions: ten evaluations at their limit take some 10 s, which a real try has for a node."""
_MOST_STEPS: Final = 200_000
_STEP_COST: Final = 10
"""In units of expressions, which take as long."""


def one_try() -> Effort:
    """What the try of a pod may cost: a number of steps, so that it ends in the same way each time."""
    return Effort(_MOST_COST)


class InvalidPoolsError(Exception):
    """A node has not got the devices, and one of its pools is invalid; from 1.35 on."""


class SchedulerPanicError(Exception):
    """The scheduler of this version would end here; the message is the first line of its panic."""


class Allocator:
    """Finds devices for the claims of one pod.

    Args:
        classes: name -> DeviceClass.
        slices: those of the cluster.
        allocated: the devices that other claims have.
        release: the scheduler's.
        shares: the shares of devices that other claims have.
        effort: what the try of the pod may still cost.
    """

    def __init__(
        self,
        classes: Mapping[str, Mapping[str, Any]],
        slices: Slices,
        allocated: Collection[DeviceID],
        release: Version,
        shares: Shares | None = None,
        effort: Effort | None = None,
    ) -> None:
        self._effort = effort or one_try()
        self._shares = shares or Shares()
        self._classes = classes
        self._slices = slices
        self._allocated = allocated
        self._release = release

    def allocate(
        self, claims: Sequence[Mapping[str, Any]], node: str, labels: Mapping[str, str]
    ) -> list[Allocation] | None:
        """The ``status.allocation`` of each claim; None where the node has not got the devices for all of them.

        Raises:
            AllocatorError: a claim, a class or a pool is wrong.
            ExhaustedError: there is no answer yet.
            InvalidPoolsError: nor has it, and a pool is invalid.
            SchedulerPanicError: the scheduler of this version would end here.
        """
        search = _Search(self._classes, self._allocated, claims, self._release, self._shares, self._effort)
        search.look_at(gather_pools(self._slices, node, labels, self._release))
        chosen = search.run()
        if chosen is None:
            return None
        found = zip(claims, chosen, strict=True)
        return [allocation_result(claim, each, node, self._release) for claim, each in found]


class _Outcome(Enum):
    FOUND = auto()
    NOT_FOUND = auto()
    TOO_MANY = auto()
    """There would be more devices than a result can hold: fewer are needed of an earlier request."""


def _all_devices(request: Request, pools: Sequence[Pool], capacity: FreeCapacity, effort: Effort) -> list[Device]:
    """Which devices a request for all gets; that must be known before any is chosen."""
    found: list[Device] = []
    for pool in pools:
        if pool.is_incomplete or pool.fault:
            state = "being updated" if pool.is_incomplete else "invalid"
            raise request.error(f"asks for all devices, but resource pool {pool.id} is currently {state}")
        found += [
            device
            for device in pool.devices
            if request.selects(device, effort) and pool.reaches(device) and capacity.fits(request, device)
        ]
    return found


class _Search:
    """One search: what is chosen so far, claim by claim."""

    def __init__(
        self,
        classes: Mapping[str, Mapping[str, Any]],
        allocated: Collection[DeviceID],
        claims: Sequence[Mapping[str, Any]],
        release: Version,
        shares: Shares,
        effort: Effort,
    ) -> None:
        self._effort = effort
        self._capacity = FreeCapacity(shares)
        self._allocated = allocated
        self._claims = claims
        self._release = release
        self._requests = [requests_of(claim, classes, release) for claim in claims]
        self._constraints: list[list[Constraint]] = []
        self._candidates: list[Device] = []
        self._pools: dict[DeviceID, Pool] = {}
        self._counters = FreeCounters(allocated, shares.devices, release)
        self._loses_alternative = _LOSES_ALTERNATIVE.at(release)
        self._crashes_for_all = _CRASHES_FOR_ALL.at(release)
        self._keeps_counters = _KEEPS_COUNTERS.at(release)
        self._passes_over_pools = PASSES_OVER_POOLS.at(release)
        self._fault = ""
        self._users: defaultdict[DeviceID, set[int]] = defaultdict(set)
        self._results: list[list[Chosen]] = [[] for _ in claims]
        self._steps = 0

    def look_at(self, pools: Sequence[Pool]) -> None:
        """Find the devices of a node, and those of the requests for all devices."""
        capacity = self._capacity if _LEAVES_OUT_USED_UP.at(self._release) else FreeCapacity(Shares())
        for claim, requests in zip(self._claims, self._requests, strict=True):
            least = 0
            for alternatives in requests:
                first, *_ = alternatives
                for place, request in enumerate(alternatives):
                    if request.is_all:
                        is_mistaken = place == 1 and first.is_all and self._loses_alternative
                        request.devices = (
                            first.devices if is_mistaken else _all_devices(request, pools, capacity, self._effort)
                        )
                        request.count = len(request.devices)
                least = self._add(claim, least, alternatives)
            if least > _MOST_DEVICES:
                text = f"number of requested devices {least} exceeds the claim limit of {_MOST_DEVICES}"
                raise AllocatorError(f"claim {claim_name(claim)}: {text}")
            self._constraints.append(constraints_of(claim, self._release))
        for pool in pools:
            is_invalid = not pool.is_incomplete and bool(pool.fault)
            if self._passes_over_pools and (pool.is_incomplete or is_invalid):
                self._fault = self._fault or ("invalid resource pools were encountered" if is_invalid else "")
                continue
            if not self._passes_over_pools and pool.fault:
                self._fault = f"pool {pool.name} is invalid: {pool.fault}"
                break
            self._candidates += pool.devices
            self._pools.update((device.id, pool) for device in pool.devices)

    def _add(self, claim: Mapping[str, Any], least: int, alternatives: Sequence[Request]) -> int:
        """How many devices a claim gets at least, with one more request."""
        count = min(request.count for request in alternatives)
        if _COUNTS_BY_REQUEST.at(self._release) and least + count > _MOST_DEVICES:
            name = alternatives[0].parent or alternatives[0].name
            text = (
                f"adding {count} devices exceeds the claim limit of {_MOST_DEVICES}, with {least} already accounted for"
            )
            raise AllocatorError(f"claim {claim_name(claim)}, request {name}: {text}")
        return least + count

    def run(self) -> list[list[Chosen]] | None:
        """What each claim gets."""
        outcome = self._claim(0)
        if outcome is _Outcome.FOUND:
            return self._results
        if outcome is _Outcome.TOO_MANY:
            raise AllocatorError("allocation max size exceeded")
        if self._passes_over_pools and self._fault:
            raise InvalidPoolsError(self._fault)
        return None

    def _claim(self, claim: int) -> _Outcome:
        return _Outcome.FOUND if claim == len(self._claims) else self._request(claim, 0)

    def _request(self, claim: int, number: int) -> _Outcome:
        if number == len(self._requests[claim]):
            outcome = self._claim(claim + 1)
            return _Outcome.NOT_FOUND if outcome is _Outcome.TOO_MANY else outcome
        alternatives = self._requests[claim][number]
        outcomes = set()
        for request in alternatives:
            outcome = self._devices(claim, number, request, 0)
            if outcome is _Outcome.FOUND:
                return outcome
            outcomes.add(outcome)
        return _Outcome.TOO_MANY if outcomes == {_Outcome.TOO_MANY} else _Outcome.NOT_FOUND

    def _devices(self, claim: int, number: int, request: Request, index: int, start: int = 0) -> _Outcome:
        """Choose the device with this index of a request, and all that follows."""
        if request.is_all and not request.devices:
            return _Outcome.NOT_FOUND
        if index == request.count:
            return self._request(claim, number + 1)
        if len(self._results[claim]) + request.count - index > _MOST_DEVICES:
            return _Outcome.TOO_MANY
        if request.is_all:
            candidates, places = request.devices, range(index, index + 1)
        else:
            candidates, places = self._candidates, range(start, len(self._candidates))
        for place in places:
            device = candidates[place]
            if not self._take(claim, request, device):
                continue
            following = self._requests[claim][number][0] if request.is_all and self._loses_alternative else request
            outcome = self._devices(claim, number, following, index + 1, 0 if request.is_all else place + 1)
            if outcome is _Outcome.FOUND:
                return outcome
            self._give_back(claim, request, device)
            if outcome is _Outcome.TOO_MANY:
                return outcome
        if self._fault and not request.is_all and not self._passes_over_pools:
            raise AllocatorError(self._fault)
        return _Outcome.NOT_FOUND

    def _take(self, claim: int, request: Request, device: Device) -> bool:
        """Choose a device for a request where it is free, selected, and allowed by the constraints."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise ExhaustedError
        self._effort.spend(_STEP_COST)
        users = self._users[device.id]
        is_used = claim in users if request.is_admin else bool(users) or device.id in self._allocated
        pool = self._pools[device.id]
        if is_used or not (request.is_all or self._is_eligible(request, device, pool)):
            return False
        if self._crashes_for_all and request.is_all and device.consumed:
            raise SchedulerPanicError("runtime error: invalid memory address or nil pointer dereference")
        has_counters = not (device.is_shared and self._capacity.is_in_use(device))
        if has_counters and not self._counters.take(device, pool):
            return False
        if not request.tolerates(device) or not self._satisfies(claim, request, device):
            if has_counters and not self._keeps_counters:
                self._counters.give_back(device, pool)
            return False
        if request.is_all and not self._capacity.fits(request, device):
            self._release_device(claim, request, device, has_counters=has_counters)
            return False
        consumed = self._capacity.take(request, device) if device.is_shared else None
        if consumed is None:
            users.add(claim)
        self._results[claim].append(Chosen(request, device, consumed, has_counters))
        return True

    def _is_eligible(self, request: Request, device: Device, pool: Pool) -> bool:
        """Whether a device is one for a request at all. Selectors come first: they may fail for any device."""
        return request.selects(device, self._effort) and pool.reaches(device) and self._capacity.fits(request, device)

    def _satisfies(self, claim: int, request: Request, device: Device) -> bool:
        """Add a device to all constraints of a claim, or to none."""
        constraints = self._constraints[claim]
        for number, constraint in enumerate(constraints):
            if constraint.add(request, device):
                continue
            if request.is_all:
                text = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                raise request.error(text)
            for other in constraints[:number]:
                other.remove(request)
            return False
        return True

    def _give_back(self, claim: int, request: Request, device: Device) -> None:
        chosen = self._results[claim].pop()
        if chosen.consumed is None:
            self._users[device.id].discard(claim)
        else:
            self._capacity.give_back(device)
        self._release_device(claim, request, device, has_counters=chosen.has_counters)

    def _release_device(self, claim: int, request: Request, device: Device, *, has_counters: bool) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(request)
        if has_counters:
            self._counters.give_back(device, self._pools[device.id])
