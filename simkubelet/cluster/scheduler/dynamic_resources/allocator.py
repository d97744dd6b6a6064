"""The search of devices for claims: depth first, the first full solution is taken.

Claims are tried in their order, requests and alternatives as listed, devices by driver, pool, slice and their order in
the slice. A request for several devices takes them in this order only: the real search tries all permutations, of which
the ordered one comes first and no other can succeed where it fails.

Source: k8s.io/dynamic-resource-allocation v0.34.4, structured/internal/experimental/allocator_experimental.go, with the
features that are on by default in 1.34: admin access and prioritized lists; v0.36.3, structured/internal/incubating/
allocator_incubating.go, for taints and counters, which the API server drops before 1.36.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from .pools import Counters, Device, DeviceID, Pool, Slice, gather_pools
from .requests import AllocatorError, Constraint, Request, claim_name, constraints_of, requests_of
from .results import Chosen, allocation_result

__all__ = ["AllocationTimeoutError", "Allocator"]

Allocation: TypeAlias = dict[str, Any]

_MOST_DEVICES: Final = 32
_MOST_STEPS: Final = 200_000


class AllocationTimeoutError(Exception):
    """The search takes too long.

    The real one is given 10 s for a node. Here it is a number of steps: they take less than a second, in which nothing
    else of the cluster runs.
    """


class Allocator:
    """Finds devices for the claims of one pod.

    Args:
        classes: name -> DeviceClass.
        slices: returns those that a node may reach, by its name, in the order in which they are to be tried.
        allocated: the devices that other claims have.
    """

    def __init__(
        self,
        classes: Mapping[str, Mapping[str, Any]],
        slices: Callable[[str], Iterable[Slice]],
        allocated: Collection[DeviceID],
    ) -> None:
        self._classes = classes
        self._slices = slices
        self._allocated = allocated

    def allocate(
        self, claims: Sequence[Mapping[str, Any]], node: str, labels: Mapping[str, str]
    ) -> list[Allocation] | None:
        """The ``status.allocation`` of each claim; None where the node has not got the devices for all of them.

        Raises:
            AllocatorError: a claim, a class or a pool is wrong.
            AllocationTimeoutError: there is no answer yet.
        """
        search = _Search(self._classes, self._allocated, claims)
        search.look_at(self._slices(node), node, labels)
        chosen = search.run()
        if chosen is None:
            return None
        return [allocation_result(claim, each, node) for claim, each in zip(claims, chosen, strict=True)]


class _Outcome(Enum):
    FOUND = auto()
    NOT_FOUND = auto()
    TOO_MANY = auto()
    """There would be more devices than a result can hold: fewer are needed of an earlier request."""


def _all_devices(request: Request, pools: Sequence[Pool]) -> list[Device]:
    """Which devices a request for all gets; that must be known before any is chosen."""
    for pool in pools:
        if pool.is_incomplete or pool.fault:
            state = "being updated" if pool.is_incomplete else "invalid"
            raise request.error(f"asks for all devices, but resource pool {pool.id} is currently {state}")
    return [device for pool in pools for device in pool.devices if request.selects(device)]


class _Search:
    """One search: what is chosen so far, claim by claim."""

    def __init__(
        self,
        classes: Mapping[str, Mapping[str, Any]],
        allocated: Collection[DeviceID],
        claims: Sequence[Mapping[str, Any]],
    ) -> None:
        self._allocated = allocated
        self._claims = claims
        self._requests = [requests_of(claim, classes) for claim in claims]
        self._constraints: list[list[Constraint]] = []
        self._candidates: list[Device] = []
        self._free: dict[DeviceID, dict[tuple[str, str], Decimal]] = {}
        self._fault = ""
        self._users: defaultdict[DeviceID, set[int]] = defaultdict(set)
        self._results: list[list[Chosen]] = [[] for _ in claims]
        self._steps = 0

    def look_at(self, slices: Iterable[Slice], node: str, labels: Mapping[str, str]) -> None:
        """Find the devices of a node, and those of the requests for all devices."""
        pools = gather_pools(slices, node, labels)
        for claim, requests in zip(self._claims, self._requests, strict=True):
            least = 0
            for alternatives in requests:
                for request in alternatives:
                    if request.is_all:
                        request.devices = _all_devices(request, pools)
                        request.count = len(request.devices)
                least += min(request.count for request in alternatives)
            if least > _MOST_DEVICES:
                text = f"number of requested devices {least} exceeds the claim limit of {_MOST_DEVICES}"
                raise AllocatorError(f"claim {claim_name(claim)}: {text}")
            self._constraints.append(constraints_of(claim))
        for pool in pools:
            if pool.fault:
                self._fault = f"pool {pool.name} is invalid: {pool.fault}"
                break
            self._candidates += pool.devices
            self._count(pool)

    def _count(self, pool: Pool) -> None:
        """Work out what the devices that are allocated have left of the pool's counters."""
        free = dict(pool.counters)
        for device in pool.devices:
            self._free[device.id] = free
            if device.id in self._allocated:
                _subtract(free, device.consumed)

    def run(self) -> list[list[Chosen]] | None:
        """What each claim gets."""
        return self._results if self._claim(0) is _Outcome.FOUND else None

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
            outcome = self._devices(claim, number, request, index + 1, place + 1)
            if outcome is _Outcome.FOUND:
                return outcome
            self._give_back(claim, request, device)
            if outcome is _Outcome.TOO_MANY:
                return outcome
        if self._fault and not request.is_all:
            raise AllocatorError(self._fault)
        return _Outcome.NOT_FOUND

    def _take(self, claim: int, request: Request, device: Device) -> bool:
        """Choose a device for a request where it is free, selected, and allowed by the constraints."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise AllocationTimeoutError
        users = self._users[device.id]
        is_used = claim in users if request.is_admin else bool(users) or device.id in self._allocated
        if is_used or not request.selects(device) or not request.tolerates(device):
            return False
        free = self._free.get(device.id, {})
        if any(free[counter] < amount for counter, amount in device.consumed.items()):
            return False
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
        users.add(claim)
        _subtract(free, device.consumed)
        self._results[claim].append(Chosen(request, device))
        return True

    def _give_back(self, claim: int, request: Request, device: Device) -> None:
        for constraint in self._constraints[claim]:
            constraint.remove(request)
        self._users[device.id].discard(claim)
        for counter, amount in device.consumed.items():
            self._free[device.id][counter] += amount
        self._results[claim].pop()


def _subtract(free: dict[tuple[str, str], Decimal], consumed: Counters) -> None:
    for counter, amount in consumed.items():
        free[counter] -= amount
