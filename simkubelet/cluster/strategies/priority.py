"""The priority of a pod, by its priority class.

Source: plugin/pkg/admission/priority/admission.go, ``admitPod`` (kubernetes v1.34.4); pkg/apis/scheduling/helpers.go.
"""

from __future__ import annotations

from typing import Final

from ..objects.objects import JSON, Key, Objects

__all__ = ["PREEMPTION_POLICIES", "PRIORITY_CLASSES", "SYSTEM_PRIORITIES", "PriorityError", "set_priority"]

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
SYSTEM_PRIORITIES: Final = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
"""The classes that every cluster has: value and description."""

PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_PREEMPTS: Final = PREEMPTION_POLICIES[0]


class PriorityError(Exception):
    """The pod's priority is not what its class says, or there is no such class."""


def set_priority(spec: JSON, objects: Objects) -> None:
    """Write the priority and the preemption policy into a pod's spec.

    Raises:
        PriorityError: the author named a class that there is not, or other values than the class has.
    """
    if not spec.get("priorityClassName") and (default := _default_class(objects)) is not None:
        spec["priorityClassName"] = default["metadata"]["name"]
    name = spec.get("priorityClassName")
    priority, policy = _values(name, objects) if name else (0, _PREEMPTS)
    if spec.get("priority", priority) != priority:
        raise PriorityError(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
    if spec.get("preemptionPolicy", policy) != policy:
        raise PriorityError(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    spec.update(priority=priority, preemptionPolicy=policy)


def _values(name: str, objects: Objects) -> tuple[int, str]:
    found = objects.get(Key(PRIORITY_CLASSES, "", name))
    if found is not None:
        return int(found["value"]), str(found.get("preemptionPolicy") or _PREEMPTS)
    if name not in SYSTEM_PRIORITIES:
        raise PriorityError(f"no PriorityClass with name {name} was found")
    return SYSTEM_PRIORITIES[name][0], _PREEMPTS


def _default_class(objects: Objects) -> JSON | None:
    """Of several default classes the one with the lowest value."""
    defaults = [each for each in objects.all_of(PRIORITY_CLASSES) if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)
