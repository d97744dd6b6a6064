"""How well a pod is served where memory is short: its class, and which of its containers the kernel ends first.

Source: pkg/apis/core/v1/helper/qos/qos.go, ``ComputePodQOS``; kubelet/qos/policy.go, ``GetContainerOOMScoreAdjust``,
helpers.go, ``minRegularContainerMemory``; kubelet/types/pod_update.go, ``IsNodeCriticalPod`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from .pod import Container, ContainerKind, Pod
from .resources import ResourceName, parse_quantity

__all__ = ["MEMORY", "oom_score_adj", "quality_of_service"]

MEMORY = ResourceName("memory")
_NONE: Final = Decimal(0)
_COUNTED: Final = ("cpu", "memory")
_LAST_TO_GO: Final = -997
_FIRST_TO_GO: Final = 1000
_CRITICAL_PRIORITY: Final = 2_000_000_000
_NODE_CRITICAL: Final = "system-node-critical"


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``, by a pod's ``spec``; only CPU and memory count.

    Raises:
        InputError: a quantity is none.
    """
    is_guaranteed = True
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    whole = spec.get("resources")
    if whole is not None:
        # What a pod asks for as a whole is all that counts.
        requests, limits = (_amounts(whole.get(kind) or {}) for kind in ("requests", "limits"))
        is_guaranteed = not whole.get("limits") or set(limits) == set(_COUNTED)
    for container in () if whole is not None else _all_containers(spec):
        resources = container.get("resources") or {}
        given = resources.get("limits") or {}
        # The default of an API server, which a static pod has not met.
        asked = _amounts({**given, **(resources.get("requests") or {})})
        limit = _amounts(given)
        is_guaranteed = is_guaranteed and set(limit) == set(_COUNTED)
        requests = {name: requests.get(name, _NONE) + asked.get(name, _NONE) for name in {*requests, *asked}}
        limits = {name: limits.get(name, _NONE) + limit.get(name, _NONE) for name in {*limits, *limit}}
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _all_containers(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))


def _amounts(quantities: Mapping[str, Any]) -> dict[str, Decimal]:
    amounts = {name: parse_quantity(text) for name, text in quantities.items() if name in _COUNTED}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def oom_score_adj(pod: Pod, container: Container, capacity: int) -> int:
    """What the kernel adds to the share of memory that a container's processes use, in thousandths.

    Args:
        pod: Its pod.
        container: One of the pod's.
        capacity: Bytes of memory of the node.
    """
    if _is_node_critical(pod):
        return _LAST_TO_GO
    known = (pod.manifest.get("status") or {}).get("qosClass")
    match known or quality_of_service(pod.spec):
        case "Guaranteed":
            return _LAST_TO_GO
        case "BestEffort":
            return _FIRST_TO_GO
    asked = container.requests.get(MEMORY, 0)
    if container.kind is ContainerKind.SIDECAR:
        asked = max(asked, min(each.requests.get(MEMORY, 0) for each in pod.app_containers))
    score = _FIRST_TO_GO - _FIRST_TO_GO * asked // capacity
    # Between those of the other classes.
    return min(max(score, _FIRST_TO_GO + _LAST_TO_GO), _FIRST_TO_GO - 1)


def _is_node_critical(pod: Pod) -> bool:
    priority = pod.spec.get("priority")
    is_critical = pod.is_static or pod.mirror_of is not None
    is_critical = is_critical or (isinstance(priority, int) and priority >= _CRITICAL_PRIORITY)
    return is_critical and pod.spec.get("priorityClassName") == _NODE_CRITICAL
