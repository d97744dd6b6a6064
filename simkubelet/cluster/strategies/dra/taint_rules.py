"""The rules of DeviceTaintRules, from 1.37 on.

Source: pkg/registry/resource/devicetaintrule/strategy.go; pkg/apis/resource/v1/defaults.go; validation/validation.go,
 ``validateDeviceTaintRuleSpec``, ``ValidateDeviceTaintRuleStatusUpdate`` (kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...api.errors import FieldError
from ...api.registry.strategy import Strategy, keep_status
from ...objects.objects import JSON, WallTime
from ..rules import Rules
from .claim_status import CONDITIONS_AT_MOST, validate_conditions
from .device_names import validate_driver_name, validate_label, validate_pool_name
from .fields import validate_taint

__all__ = ["DeviceTaintRuleStrategy"]


class DeviceTaintRuleStrategy(Strategy):
    """A rule has a taint, whose time is that of its effect, and says which devices have it.

    Args:
        rules: of the server.
        wall_time: the date.
    """

    allow_unconditional_update = False
    empty: Mapping[str, Any] = {"spec": {"taint": {"key": "", "effect": ""}}, "status": {}}

    def __init__(self, rules: Rules, wall_time: WallTime) -> None:
        self._rules = rules
        self._wall_time = wall_time

    def default(self, new: JSON) -> None:
        taint = new.setdefault("spec", {}).setdefault("taint", {})
        for name in ("key", "effect"):
            taint.setdefault(name, "")
        taint.setdefault("timeAdded", self._wall_time.now())
        if not taint.get("value"):
            taint.pop("value", None)
        new.setdefault("status", {})

    def prepare_for_create(self, new: JSON) -> None:
        new["metadata"]["generation"] = 1
        new["status"] = {}

    def validate(self, new: JSON) -> list[FieldError]:
        spec = new["spec"]
        selector = spec.get("deviceSelector") or {}
        checks: dict[str, Callable[[str, str], list[FieldError]]] = {
            "driver": partial(validate_driver_name, self._rules),
            "pool": validate_pool_name,
            "device": validate_label,
        }
        errors = [
            error
            for name, check in checks.items()
            if selector.get(name) is not None
            for error in check(selector[name], f"spec.deviceSelector.{name}")
        ]
        return errors + validate_taint(self._rules, spec["taint"], "spec.taint")

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        taint, before = new["spec"]["taint"], old["spec"]["taint"]
        if taint["effect"] != before["effect"] and taint["timeAdded"] == before["timeAdded"]:
            taint["timeAdded"] = self._wall_time.now()
        if new["spec"] != old["spec"]:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        conditions = new["status"].get("conditions") or ()
        errors = validate_conditions(self._rules, conditions, "status.conditions")
        if len(conditions) > CONDITIONS_AT_MOST:
            errors.append(FieldError.too_many("status.conditions", len(conditions), CONDITIONS_AT_MOST))
        return errors
