"""Priority classes: what the API server refuses, and the two that every cluster begins with.

Source: pkg/registry/scheduling/priorityclass/strategy.go, pkg/apis/scheduling/validation/validation.go,
pkg/apis/scheduling/v1/helpers.go, plugin/pkg/admission/priority/admission.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ..api.errors import FieldError, StatusError
from ..api.registry.kinds import kind_named
from ..api.registry.registry import Registry
from ..api.registry.strategy import Strategy
from ..objects.objects import JSON, Objects
from .priority import PREEMPTION_POLICIES, PRIORITY_CLASSES, SYSTEM_PRIORITIES

__all__ = ["PriorityClassStrategy", "ensure_priority_classes"]

_KIND: Final = kind_named(PRIORITY_CLASSES)
_RESERVED: Final = "system-"
_HIGHEST: Final = 1_000_000_000


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
        if policy not in PREEMPTION_POLICIES:
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
    for name, (value, description) in SYSTEM_PRIORITIES.items():
        if registry.objects.get(_KIND.key("", name)) is None:
            registry.create(_KIND, "", {"metadata": {"name": name}, "value": value, "description": description})


def _unlike_the_systems(name: str, value: int, *, is_default: bool) -> str:
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    expected, _ = SYSTEM_PRIORITIES[name]
    if value != expected:
        return f"value of {name} PriorityClass must be {expected}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""
