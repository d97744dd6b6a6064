"""The rules of Events: few for those of core, strict ones for those of events.k8s.io.

Source: pkg/registry/core/event/strategy.go, pkg/apis/core/validation/events.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
from typing import Final

from ..api.errors import FieldError
from ..api.registry.names import is_qualified_name
from ..api.registry.strategy import Strategy
from ..objects.objects import JSON

__all__ = ["CoreEventStrategy", "EventStrategy"]

_SHORT_LIMIT: Final = 128
_NOTE_LIMIT: Final = 1024
_TYPES: Final = ("Normal", "Warning")
_OLD: Final = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type", "eventTime",
    "action", "related", "reportingController", "reportingInstance",
)  # fmt: skip
_ALWAYS_THERE: Final[JSON] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_STORED_NAMES: Final = {"reportingController": "reportingComponent"}


class CoreEventStrategy(Strategy):
    """An event may be created by a PUT; it is in the namespace of the object that it is about."""

    allow_create_on_update = True
    controller_field = "reportingComponent"
    empty = _ALWAYS_THERE

    def default(self, new: JSON) -> None:
        for name, nothing in self.empty.items():
            new.setdefault(name, copy.copy(nothing))

    def validate(self, new: JSON) -> list[FieldError]:
        involved, namespace = (new.get("involvedObject") or {}).get("namespace", ""), new["metadata"]["namespace"]
        if not new.get("eventTime"):
            fits = involved == namespace or (not involved and namespace == "default")
            return [] if fits else [_elsewhere(involved)]
        errors = [] if involved or namespace in ("default", "kube-system") else [_elsewhere(involved)]
        controller = new.get("reportingComponent") or ""
        if not controller:
            errors.append(FieldError.required(self.controller_field))
        errors += [
            FieldError.invalid(self.controller_field, controller, fault) for fault in is_qualified_name(controller)
        ]
        for name in ("reportingInstance", "action", "reason"):
            if not new.get(name):
                errors.append(FieldError.required(name))
            errors += _too_long(name, new.get(name) or "", _SHORT_LIMIT)
        return errors + _too_long("message", new.get("message") or "", _NOTE_LIMIT)


class EventStrategy(CoreEventStrategy):
    """An event has a time, no field of the old form, and changes by its series only."""

    controller_field = "reportingController"

    def validate(self, new: JSON) -> list[FieldError]:
        errors = super().validate(new) + _check_series(new)
        if not new.get("eventTime"):
            errors.append(FieldError.required("eventTime"))
        if new.get("type") not in _TYPES:
            errors.append(FieldError.invalid("type", "", f"has invalid value: {new.get('type') or ''}"))
        return errors + [FieldError.invalid(name, "", "needs to be unset") for name in _OLD if new.get(name)]

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = super().validate(new)
        if new.get("series") != old.get("series"):
            errors += _check_series(new)
        for field in _FIXED:
            name = _STORED_NAMES.get(field, field)
            if (new.get(name) or None) != (old.get(name) or None):
                errors.append(FieldError.invalid(field, new.get(name), "field is immutable"))
        return errors


def _elsewhere(namespace: str) -> FieldError:
    return FieldError.invalid("involvedObject.namespace", namespace, "does not match event.namespace")


def _too_long(name: str, text: str, limit: int) -> list[FieldError]:
    is_short = len(text.encode()) <= limit
    return [] if is_short else [FieldError.invalid(name, "", f"can have at most {limit} characters")]


def _check_series(event: JSON) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if series.get("count", 0) < 2:
        errors.append(FieldError.invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(FieldError.required("series.lastObservedTime"))
    return errors
