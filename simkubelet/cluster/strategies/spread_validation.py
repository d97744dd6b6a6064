"""What an API server refuses in a pod's topology spread constraints.

Source: pkg/apis/core/validation/validation.go, ``validateTopologySpreadConstraints`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..api.errors import FieldError
from .label_validation import validate_label_keys, validate_label_selector

__all__ = ["validate_spread_constraints"]

_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")
_NOT_POSITIVE: Final = "must be greater than zero"


def validate_spread_constraints(constraints: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with ``topologySpreadConstraints``."""
    kinds = [(each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints]
    errors: list[FieldError] = []
    for place, each in enumerate(constraints):
        where, (key, action) = f"{path}[{place}]", kinds[place]
        skew = each.get("maxSkew") or 0
        if skew <= 0:
            errors.append(FieldError.invalid(f"{where}.maxSkew", skew, _NOT_POSITIVE))
        if not key:
            errors.append(FieldError.required(f"{where}.topologyKey", "can not be empty"))
        if action not in _ACTIONS:
            errors.append(FieldError.not_supported(f"{where}.whenUnsatisfiable", action, _ACTIONS))
        if kinds[place] in kinds[place + 1 :]:
            pair = f"{where}.{{topologyKey, whenUnsatisfiable}}"
            errors.append(FieldError.duplicate(pair, f"{{{key}, {action}}}"))
        errors += _validate_min_domains(each.get("minDomains"), action, f"{where}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = each.get(name)
            if policy is not None and policy not in _POLICIES:
                errors.append(FieldError.not_supported(f"{where}.{name}", policy, _POLICIES))
        errors += validate_label_keys({**each, "mismatchLabelKeys": None}, where)
        errors += validate_label_selector(each.get("labelSelector"), f"{where}.labelSelector")
    return errors


def _validate_min_domains(least: int | None, action: str, path: str) -> list[FieldError]:
    if least is None:
        return []
    errors = [FieldError.invalid(path, least, _NOT_POSITIVE)] if least <= 0 else []
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(FieldError.invalid(path, least, text))
    return errors
