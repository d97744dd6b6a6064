"""Devices that several claims may share, and what is left of their capacities.

A claim's share of a device takes of each capacity what its request asks for, rounded up as the capacity's policy says;
where it asks for nothing, the policy's default or all there is. Other devices must have what a request asks for, too.

Source: k8s.io/dynamic-resource-allocation v0.36.3, v0.37.0, structured/internal/incubating/consumable_capacity.go,
allocator_incubating.go, ``allocateDevice``; structured/internal/allocatedstate.go.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from ....model.resources import canonical_quantity, format_amount, parse_quantity
from ....model.version import Difference
from .pools import Device, DeviceID
from .requests import Request

__all__ = ["KNOWS_SHARES", "Consumed", "FreeCapacity", "Shares"]

KNOWS_SHARES: Final = Difference(
    "devices that allow several allocations are shared by claims, and requests for capacity count",
    {"1.26": False, "1.36": True},
    "pkg/features/kube_features.go, ``DRAConsumableCapacity`` (kubernetes v1.35.4, v1.36.3)",
)

Consumed = Mapping[str, str]
"""Capacity -> the quantity that a share takes of it."""


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares that claims have.

    Attributes:
        devices: those of which there are any.
        consumed: device -> capacity -> what its shares take together; only of shares of devices with capacities.
    """

    devices: Collection[DeviceID] = frozenset()
    consumed: Mapping[DeviceID, Mapping[str, Decimal]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Iterable[Mapping[str, Any]]) -> Shares:
        """The shares among results of allocations, as claims have them in their status."""
        devices: set[DeviceID] = set()
        consumed: dict[DeviceID, dict[str, Decimal]] = {}
        for result in results:
            device = DeviceID(result["driver"], result["pool"], result["device"])
            devices.add(device)
            if "consumedCapacity" in result:
                total = consumed.setdefault(device, {})
                for name, amount in result["consumedCapacity"].items():
                    total[name] = total.get(name, Decimal()) + parse_quantity(amount)
        return cls(devices, consumed)


class FreeCapacity:
    """What the shares of other claims, and those of the search so far, leave."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._taken: defaultdict[DeviceID, list[Consumed]] = defaultdict(list)

    def fits(self, request: Request, device: Device) -> bool:
        """Whether a device has what a request asks for."""
        if not request.capacity and not device.is_shared:
            return True
        capacities = device.capacities
        if not request.capacity.keys() <= capacities.keys():
            return False
        used = self._shares.consumed.get(device.id, {})
        for name, capacity in capacities.items():
            amount = parse_quantity(_consumed_of(request.capacity.get(name), capacity))
            if _violates(amount, capacity.get("requestPolicy") or {}):
                return False
            taken = sum((parse_quantity(one[name]) for one in self._taken[device.id]), Decimal())
            if used.get(name, Decimal()) + amount + taken > parse_quantity(capacity["value"]):
                return False
        return True

    def is_in_use(self, device: Device) -> bool:
        """Whether a device has shares, which have taken its counters."""
        return device.id in self._shares.consumed or bool(self._taken[device.id])

    def take(self, request: Request, device: Device) -> Consumed:
        """Add a share to those of a device."""
        consumed = {
            name: canonical_quantity(_consumed_of(request.capacity.get(name), capacity))
            for name, capacity in device.capacities.items()
        }
        self._taken[device.id].append(consumed)
        return consumed

    def give_back(self, device: Device) -> None:
        """Forget the share that was added last."""
        self._taken[device.id].pop()


def _consumed_of(asked: str | None, capacity: Mapping[str, Any]) -> str:
    """The quantity that a share takes of a capacity."""
    policy = capacity.get("requestPolicy") or {}
    if asked is None:
        return str(policy.get("default") or capacity["value"])
    allowed = policy.get("validRange") or {}
    if "min" in allowed:
        return _rounded_up(asked, allowed)
    larger = (one for one in policy.get("validValues") or () if parse_quantity(one) >= parse_quantity(asked))
    return str(next(larger, asked))


def _rounded_up(asked: str, allowed: Mapping[str, str]) -> str:
    least = allowed["min"]
    if parse_quantity(asked) < parse_quantity(least):
        return least
    if "step" not in allowed:
        return asked
    begin, step = _whole(parse_quantity(least)), _whole(parse_quantity(allowed["step"]))
    steps = -(-(_whole(parse_quantity(asked)) - begin) // step)
    return format_amount("memory", begin + step * steps)


def _violates(amount: Decimal, policy: Mapping[str, Any]) -> bool:
    """Whether a policy excludes an amount, which was rounded up."""
    if "default" in policy and amount == parse_quantity(policy["default"]):
        return False
    if (allowed := policy.get("validRange")) is not None:
        if "max" in allowed and amount > parse_quantity(allowed["max"]):
            return True
        begin, step = (_whole(parse_quantity(allowed.get(name, "0"))) for name in ("min", "step"))
        return step > 0 and (_whole(amount) - begin) % step != 0
    values = policy.get("validValues") or ()
    return bool(values) and all(amount != parse_quantity(one) for one in values)


def _whole(amount: Decimal) -> int:
    return math.ceil(amount)
