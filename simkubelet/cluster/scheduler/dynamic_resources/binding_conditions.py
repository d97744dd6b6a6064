"""The binding conditions of a claim's devices: whether a pod that uses the claim may be bound.

A device names conditions that must be true before (``bindingConditions``), and others that say that they never will be
(``bindingFailureConditions``); the allocation has a copy of both. The driver reports conditions in the claim's
``status.devices``.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``isClaimReadyForBinding``,
``isClaimTimeout`` (kubernetes v1.36.3, v1.37.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ....dra.pod_claims import allocation_results
from ....golang.text import quoted
from ...objects.objects import WallTime

__all__ = ["BINDING_TIMEOUT_S", "BindingError", "has_conditions", "is_overdue", "is_ready"]

BINDING_TIMEOUT_S: Final = 600.0


class BindingError(Exception):
    """A pod cannot be bound to where its devices are; the message is the scheduler's."""


def has_conditions(claim: Mapping[str, Any]) -> bool:
    """Whether devices of a claim have binding conditions."""
    return any(_with_conditions(claim))


def is_ready(claim: Mapping[str, Any]) -> bool:
    """Whether all binding conditions of a claim's devices are true; a claim without devices is not ready.

    Devices are looked at one after the other, up to the first that is not ready.

    Raises:
        BindingError: a device reports that it has failed.
    """
    for result in _with_conditions(claim):
        reported = _reported(claim, result)
        for name in result.get("bindingFailureConditions") or ():
            if (condition := reported.get(name, {})).get("status") == "True":
                reason, message = condition.get("reason", ""), quoted(condition.get("message", ""))
                name = claim["metadata"]["name"]
                raise BindingError(f"device binding failed: claim={name}, reason={reason}, message={message}")
        if any(reported.get(name, {}).get("status") != "True" for name in result["bindingConditions"]):
            return False
    return bool((claim.get("status") or {}).get("allocation"))


def is_overdue(claim: Mapping[str, Any], wall_time: WallTime) -> bool:
    """Whether the conditions of a claim's devices should be true by now; they have ten minutes from its allocation."""
    date = ((claim.get("status") or {}).get("allocation") or {}).get("allocationTimestamp")
    if date is None or not has_conditions(claim):
        return False
    return wall_time.seconds(date) + BINDING_TIMEOUT_S < wall_time.elapsed()


def _with_conditions(claim: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (result for result in allocation_results(claim) if result.get("bindingConditions"))


def _reported(claim: Mapping[str, Any], result: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Type -> condition of a device, as its driver reports it."""
    for device in (claim.get("status") or {}).get("devices") or ():
        if all(device.get(part) == result[part] for part in ("driver", "pool", "device")):
            return {one["type"]: one for one in device.get("conditions") or ()}
    return {}
