"""Rules that fields of several kinds of resource.k8s.io share: lists, selectors, configurations, taints.

Each function returns what is wrong, in the order in which the API server says it; where that is the order of a Go map,
the names' order.

Source: pkg/apis/resource/validation/validation.go (kubernetes v1.34.4, v1.35.4, v1.36.3).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import (
    is_label_value,
    is_qualified_name,
)
from ...objects.selector_verdicts import Asked, verdict_on
from ..rules import Rules
from .device_names import validate_driver_name

__all__ = [
    "CAPACITY",
    "CONFIGS_AT_MOST",
    "COUNTED_FIRST",
    "REQUESTS_AT_MOST",
    "Check",
    "Fields",
    "validate_binding_conditions",
    "validate_configuration",
    "validate_list",
    "validate_map",
    "validate_raw",
    "validate_selectors",
    "validate_set",
    "validate_skipped",
    "validate_taint",
    "validate_toleration",
]

T = TypeVar("T")
Fields: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[T, str], list[FieldError]]

REQUESTS_AT_MOST: Final = 32
CONFIGS_AT_MOST: Final = 32
_SELECTORS_AT_MOST: Final = 32
_CONDITIONS_AT_MOST: Final = 4
_EXPRESSION_AT_MOST: Final = 10 * 1024
_PARAMETERS_AT_MOST: Final = 10 * 1024
_LEAST_SHOWN: Final = 16
_OPERATORS: Final = ("Equal", "Exists")
CAPACITY: Final = "DRAConsumableCapacity"
"""The gate of devices that several claims may share."""
_LIST_FUNCTIONS: Final = Difference(
    "further functions of lists that selectors of devices may call",
    {"1.26": (), "1.35": ("slice", "sort", "sortBy", "flatten", "distinct", "reverse", "range")},
    "apiserver/pkg/cel/environment/base.go (v0.34.4, v0.35.4), for new expressions",
)
_OMITTED: Final = "<value omitted>"
_VALIDATION: Final = "pkg/apis/resource/validation/validation.go (kubernetes v1.34.4, v1.35.4, v1.36.3)"
COUNTED_FIRST: Final = Difference(
    "of a list of `resource.k8s.io` with too many items nothing else is checked, and a repeated item is named by its "
    "place, not by the field that it has in common with another",
    {"1.26": False, "1.35": True},
    _VALIDATION,
)
_KEYS_HAVE_PATHS: Final = Difference(
    "a wrong key of a map of `resource.k8s.io` is shown at the path of its value, else at that of the map",
    {"1.26": True, "1.36": False},
    _VALIDATION,
)
_EFFECTS: Final = Difference(
    "the effects of taints of devices",
    {"1.26": ("NoExecute", "NoSchedule"), "1.35": ("NoExecute", "NoSchedule", "None")},
    _VALIDATION,
)


def validate_list(rules: Rules, items: Sequence[T] | None, limit: int, check: Check[T], path: str) -> list[FieldError]:
    """Each item by itself, and their number; a negative limit is none."""
    items = items or ()
    has_too_many, counts_first = 0 <= limit < len(items), rules.of(COUNTED_FIRST)
    surplus = [FieldError.too_many(path, len(items), limit)] if has_too_many else []
    if surplus and counts_first:
        return surplus
    return [error for place, item in enumerate(items) for error in check(item, f"{path}[{place}]")] + surplus


def validate_set(
    rules: Rules,
    items: Sequence[T] | None,
    limit: int,
    check: Check[T],
    key: Callable[[T], Hashable],
    path: str,
    field: str = "",
    shown: Callable[[T], object] | None = None,
) -> list[FieldError]:
    """Items as `validate_list` does, and that no two have the same key.

    Args:
        rules: of the server.
        items: the list.
        limit: of their number.
        check: of one item at its path.
        key: by which they differ.
        path: of the list.
        field: that has the key; empty for the item itself.
        shown: what the message shows for the key.
    """
    errors = validate_list(rules, items, limit, check, path)
    known = set()
    has_place_only = rules.of(COUNTED_FIRST)
    if has_place_only and 0 <= limit < len(items or ()):
        return errors
    for place, item in enumerate(items or ()):
        if key(item) in known:
            where = f"{path}[{place}].{field}" if field and not has_place_only else f"{path}[{place}]"
            errors.append(FieldError.duplicate(where, (shown or key)(item)))
        known.add(key(item))
    return errors


def validate_map(
    rules: Rules,
    items: Mapping[str, T] | None,
    longest_key: int,
    check_key: Check[str],
    check: Check[T],
    path: str,
    limit: int = -1,
) -> list[FieldError]:
    """Keys and values, if there are not too many; a key longer than `longest_key` is truncated in the path."""
    items, errors = items or {}, []
    if 0 <= limit < len(items):
        return [FieldError.too_many(path, len(items), limit)]
    for key, item in sorted(items.items()):
        where = f"{path}[{_truncated(key, longest_key)}]"
        errors += [*check_key(key, where if rules.of(_KEYS_HAVE_PATHS) else path), *check(item, where)]
    return errors


def _truncated(key: str, longest: int) -> str:
    longest = max(longest, _LEAST_SHOWN)
    if len(key) <= longest:
        return key
    remaining = longest - 3
    return f"{key[: (remaining + 1) // 2]}...{key[len(key) - remaining // 2 :]}"


# Parts that several kinds have


def validate_selectors(rules: Rules, selectors: Sequence[Fields] | None, path: str) -> list[FieldError]:
    """Selectors of devices, with their expressions."""
    return validate_list(rules, selectors, _SELECTORS_AT_MOST, partial(_validate_selector, rules), path)


def _validate_selector(rules: Rules, selector: Fields, path: str) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [FieldError.required(f"{path}.cel")]
    expression = cel.get("expression") or ""
    if len(expression.encode()) > _EXPRESSION_AT_MOST:
        return [FieldError.too_long(f"{path}.cel.expression", _EXPRESSION_AT_MOST)]
    verdict = verdict_on(Asked(expression, rules.release, CAPACITY in rules.gates, rules.of(_LIST_FUNCTIONS)))
    if verdict.refusal is not None:
        return [FieldError.invalid(f"{path}.cel.expression", expression, verdict.refusal)]
    if verdict.is_too_costly:
        return [FieldError.forbidden(f"{path}.cel.expression", "too complex, exceeds cost limit")]
    return []


def validate_configuration(rules: Rules, config: Fields, path: str, *, stored: bool) -> list[FieldError]:
    """The opaque parameters for a driver; those that are stored already may be of any size."""
    opaque = config.get("opaque")
    if opaque is None:
        return [FieldError.required(f"{path}.opaque")]
    limit = None if stored else _PARAMETERS_AT_MOST
    return [
        *validate_driver_name(rules, opaque.get("driver") or "", f"{path}.opaque.driver"),
        *validate_raw(opaque.get("parameters"), f"{path}.opaque.parameters", limit),
    ]


def validate_raw(value: Any, path: str, limit: int | None) -> list[FieldError]:
    """An object that only a driver knows, and its size in bytes."""
    if value is None:
        return [FieldError.required(path)]
    if limit is not None and len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()) > limit:
        return [FieldError.too_long(path, limit)]
    if not isinstance(value, dict):
        return [FieldError.invalid(path, _OMITTED, "must be a valid JSON object")]
    return []


def validate_taint(rules: Rules, taint: Fields, path: str) -> list[FieldError]:
    """A taint of a device."""
    key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
    errors = _validate_key(rules, key, f"{path}.key")
    errors += _validate_value(rules, value, f"{path}.value")
    if not effect:
        errors.append(FieldError.required(f"{path}.effect"))
    return errors + _validate_effect(rules, effect, f"{path}.effect")


def validate_toleration(rules: Rules, toleration: Fields, path: str) -> list[FieldError]:
    """A toleration of a request."""
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    errors = _validate_key(rules, key, f"{path}.key") if key else []
    if operator == "Exists":
        if value:
            errors.append(FieldError.invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += _validate_value(rules, value, f"{path}.value")
    elif not operator:
        errors.append(FieldError.required(f"{path}.operator"))
    else:
        errors.append(FieldError.not_supported(f"{path}.operator", operator, _OPERATORS))
    return errors + _validate_effect(rules, toleration.get("effect") or "", f"{path}.effect")


def _validate_key(rules: Rules, key: str, path: str) -> list[FieldError]:
    return [FieldError.invalid(path, key, fault) for fault in is_qualified_name(key, rules.release)]


def _validate_value(rules: Rules, value: str, path: str) -> list[FieldError]:
    return [FieldError.invalid(path, value, fault) for fault in is_label_value(value, rules.release)]


def _validate_effect(rules: Rules, effect: str, path: str) -> list[FieldError]:
    effects = rules.of(_EFFECTS)
    return [] if effect in ("", *effects) else [FieldError.not_supported(path, effect, effects)]


def validate_skipped(fields: Fields, path: str) -> list[FieldError]:
    """The calls that a kubelet leaves out; what a driver has prepared it must be able to take back.

    Source: pkg/apis/resource/validation/validation.go, ``validateSkipNodeOperations`` (kubernetes v1.37.2).
    """
    skipped = fields.get("skipNodeOperations") or ()
    if "NodePrepareResources" not in skipped or {"NodeUnprepareResources", "*"} & set(skipped):
        return []
    why = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
    return [FieldError.invalid(f"{path}.skipNodeOperations", list(skipped), why)]


def validate_binding_conditions(rules: Rules, fields: Fields, path: str) -> list[FieldError]:
    """The conditions under which a device is bound, and those under which binding has failed."""
    names = ("bindingConditions", "bindingFailureConditions")
    found: list[Sequence[str]] = [fields.get(name) or () for name in names]
    wanted, failures = found
    of_binding = {*wanted}
    errors: list[FieldError] = []
    for name, conditions in zip(names, found, strict=True):
        errors += validate_list(rules, conditions, _CONDITIONS_AT_MOST, partial(_validate_key, rules), f"{path}.{name}")
    for name, conditions in zip(names, found, strict=True):
        known: set[str] = set()
        for place, condition in enumerate(conditions):
            where = f"{path}.{name}[{place}]"
            if condition in known:
                errors.append(FieldError.duplicate(where, condition))
            known.add(condition)
            if conditions is failures and condition in of_binding:
                why = "bindingFailureConditions must not overlap with bindingConditions"
                errors.append(FieldError.invalid(where, condition, why))
    first, second = names
    for name, other, is_missing in (
        (first, second, bool(failures) and not wanted),
        (second, first, bool(wanted) and not failures),
    ):
        if is_missing:
            errors.append(FieldError.invalid(f"{path}.{name}", fields.get(name), f"{name} are required to use {other}"))
    return errors
