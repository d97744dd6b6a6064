"""The quality of service class of a pod.

Source: pkg/apis/core/v1/helper/qos/qos.go, ``ComputePodQOS`` (kubernetes v1.34.4), without requests at pod level.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from ...model.resources import parse_quantity

__all__ = ["quality_of_service"]

_NONE: Final = Decimal(0)
_COUNTED: Final = ("cpu", "memory")


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``; only CPU and memory count.

    Raises:
        InputError: a quantity is none.
    """
    is_guaranteed = True
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        asked, limit = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
        is_guaranteed = is_guaranteed and set(limit) == set(_COUNTED)
        requests = {name: requests.get(name, _NONE) + asked.get(name, _NONE) for name in {*requests, *asked}}
        limits = {name: limits.get(name, _NONE) + limit.get(name, _NONE) for name in {*limits, *limit}}
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, Decimal]:
    amounts = {name: parse_quantity(text) for name, text in (quantities or {}).items() if name in _COUNTED}
    return {name: amount for name, amount in amounts.items() if amount > 0}
