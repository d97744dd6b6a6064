"""Priority classes: their validation, the two that every cluster has, and the priority that they give to pods.

Source: pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/validation/validation.go,
pkg/apis/scheduling/v1/helpers.go, plugin/pkg/admission/priority/admission.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ..api.errors import FieldError, StatusError
from ..api.registry.kinds import kind_named
from ..api.registry.registry import Registry
from ..api.registry.strategy import Strategy
from ..objects.objects import JSON, Key, Objects

__all__ = [
    "PREEMPTION_POLICIES",
    "PRIORITY_CLASSES",
    "PriorityClassStrategy",
    "PriorityError",
    "ensure_priority_classes",
    "set_priority",
]

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_SYSTEM_PRIORITIES: Final = {
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
_KIND: Final = kind_named(PRIORITY_CLASSES)
_RESERVED: Final = "system-"
_HIGHEST: Final = 1_000_000_000


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
    if name not in _SYSTEM_PRIORITIES:
        raise PriorityError(f"no PriorityClass with name {name} was found")
    return _SYSTEM_PRIORITIES[name][0], _PREEMPTS


def _default_class(objects: Objects) -> JSON | None:
    """Of several default classes the one with the lowest value."""
    defaults = [each for each in objects.all_of(PRIORITY_CLASSES) if each.get("globalDefault")]
    return min(defaults, key=lambda each: int(each["value"]), default=None)


class PriorityClassStrategy(Strategy):
    """Values stay, names of the system's are reserved, and one class at most is the default.

    Args:
        objects: where the other classes are.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def default(self, new: JSON) -> None:
        new.setdefault("value", 0)
        new.setdefault("preemptionPolicy", PREEMPTION_POLICIES[0])

    def prepare_for_create(self, new: JSON) -> None:
        new["metadata"]["generation"] = 1
        self._refuse_second_default(new)

    def validate(self, new: JSON) -> list[FieldError]:
        name, value = new["metadata"]["name"], new["value"]
        errors = []
        if name.startswith(_RESERVED):
            if why := _unlike_the_systems(name, value, is_default=bool(new.get("globalDefault"))):
                text = f"priority class names with '{_RESERVED}' prefix are reserved for system use only. error: {why}"
                errors.append(FieldError.forbidden("metadata.name", text))
        elif value > _HIGHEST:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            errors.append(FieldError.forbidden("value", text))
        policy = new["preemptionPolicy"]
        if not policy:
            errors.append(FieldError.required("preemptionPolicy"))
        elif policy not in PREEMPTION_POLICIES:
            errors.append(FieldError.not_supported("preemptionPolicy", policy, PREEMPTION_POLICIES))
        return errors

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0)
        if not old.get("globalDefault"):
            self._refuse_second_default(new)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = []
        if new["value"] != old["value"]:
            errors.append(FieldError.forbidden("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            errors.append(FieldError.invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable"))
        return errors

    def _refuse_second_default(self, new: JSON) -> None:
        if not new.get("globalDefault"):
            return
        for other in self._objects.all_of(PRIORITY_CLASSES):
            if other.get("globalDefault"):
                name = other["metadata"]["name"]
                why = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise StatusError.forbidden(_KIND.resource, new["metadata"].get("name", ""), why)


def ensure_priority_classes(registry: Registry) -> None:
    """Create the classes of the system's own pods."""
    for name, (value, description) in _SYSTEM_PRIORITIES.items():
        if registry.objects.get(_KIND.key("", name)) is None:
            registry.create(_KIND, "", {"metadata": {"name": name}, "value": value, "description": description})


def _unlike_the_systems(name: str, value: int, *, is_default: bool) -> str:
    if name not in _SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    expected, _ = _SYSTEM_PRIORITIES[name]
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
