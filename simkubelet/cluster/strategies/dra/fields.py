"""Rules that fields of several kinds of resource.k8s.io share: lists, names of drivers, pools and attributes.

Each function returns what is wrong, in the order in which the API server says it; where that is the order of a Go map,
the names' order.

Source: pkg/apis/resource/validation/validation.go; pkg/apis/core/validation/validation.go,
``ValidateCSIDriverName`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from ....golang.text import quoted
from ...api.errors import FieldError
from ...api.registry.names import (
    is_c_identifier,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
)
from ...objects.device_selector import expression_refusal

__all__ = [
    "CONFIGS_AT_MOST",
    "REQUESTS_AT_MOST",
    "Check",
    "Fields",
    "validate_binding_conditions",
    "validate_configuration",
    "validate_driver_name",
    "validate_full_name",
    "validate_label",
    "validate_list",
    "validate_map",
    "validate_name",
    "validate_pool_name",
    "validate_raw",
    "validate_selectors",
    "validate_set",
    "validate_subdomain",
    "validate_taint",
    "validate_toleration",
    "validate_uid",
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
_DRIVER_AT_MOST: Final = 63
_POOL_AT_MOST: Final = 253
_ID_AT_MOST: Final = 32
_LEAST_SHOWN: Final = 16
_EFFECTS: Final = ("NoExecute", "NoSchedule")
_OPERATORS: Final = ("Equal", "Exists")
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UID_RULE: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)
_OMITTED: Final = "<value omitted>"


def validate_list(items: Sequence[T] | None, limit: int, check: Check[T], path: str) -> list[FieldError]:
    """Each item by itself, and their number; a negative limit is none."""
    items = items or ()
    errors = [error for place, item in enumerate(items) for error in check(item, f"{path}[{place}]")]
    if 0 <= limit < len(items):
        errors.append(FieldError.too_many(path, len(items), limit))
    return errors


def validate_set(
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
        items: the list.
        limit: of their number.
        check: of one item at its path.
        key: by which they differ.
        path: of the list.
        field: that has the key; empty for the item itself.
        shown: what the message shows for the key.
    """
    errors = validate_list(items, limit, check, path)
    known = set()
    for place, item in enumerate(items or ()):
        if key(item) in known:
            where = f"{path}[{place}].{field}" if field else f"{path}[{place}]"
            errors.append(FieldError.duplicate(where, (shown or key)(item)))
        known.add(key(item))
    return errors


def validate_map(
    items: Mapping[str, T] | None, longest_key: int, check_key: Check[str], check: Check[T], path: str
) -> list[FieldError]:
    """Keys and values; a key longer than `longest_key` is truncated in the path."""
    errors = []
    for key, item in sorted((items or {}).items()):
        where = f"{path}[{_truncated(key, longest_key)}]"
        errors += [*check_key(key, where), *check(item, where)]
    return errors


def _truncated(key: str, longest: int) -> str:
    longest = max(longest, _LEAST_SHOWN)
    if len(key) <= longest:
        return key
    remaining = longest - 3
    return f"{key[: (remaining + 1) // 2]}...{key[len(key) - remaining // 2 :]}"


# Names


def validate_label(name: str, path: str) -> list[FieldError]:
    """The name of a device, a request or a counter."""
    return [FieldError.invalid(path, name, fault) for fault in is_dns_label(name)]


def validate_subdomain(name: str, path: str) -> list[FieldError]:
    """The name of a node or a class."""
    return [FieldError.invalid(path, name, fault) for fault in is_dns_subdomain(name)]


def validate_driver_name(name: str, path: str) -> list[FieldError]:
    """The name of a driver, or the domain of an attribute."""
    errors = [] if name else [FieldError.required(path)]
    if len(name.encode()) > _DRIVER_AT_MOST:
        errors.append(FieldError.too_long(path, _DRIVER_AT_MOST))
    return errors + [FieldError.invalid(path, name, fault) for fault in is_dns_subdomain(name.lower())]


def validate_pool_name(name: str, path: str) -> list[FieldError]:
    """The name of a pool: subdomains with slashes between them."""
    if not name:
        return [FieldError.required(path)]
    errors = [FieldError.too_long(path, _POOL_AT_MOST)] if len(name.encode()) > _POOL_AT_MOST else []
    return errors + [error for part in name.split("/") for error in validate_subdomain(part, path)]


def validate_name(name: str, path: str) -> list[FieldError]:
    """The name of an attribute or a capacity: an identifier, with or without a domain."""
    if not name:
        return [FieldError.required(path, "name required")]
    match name.split("/"):
        case [id_]:
            return _validate_identifier(id_, path)
        case [domain, id_]:
            missing = "the {} must not be empty"
            return [
                *(
                    validate_driver_name(domain, path)
                    if domain
                    else [FieldError.required(path, missing.format("domain"))]
                ),
                *(_validate_identifier(id_, path) if id_ else [FieldError.required(path, missing.format("name"))]),
            ]
        case _:
            return []


def validate_full_name(name: str, path: str) -> list[FieldError]:
    """The name of an attribute with its domain."""
    errors = validate_name(name, path)
    if name and "/" not in name:
        errors.append(FieldError.invalid(path, name, "must include a domain"))
    return errors


def _validate_identifier(id_: str, path: str) -> list[FieldError]:
    errors = [FieldError.too_long(path, _ID_AT_MOST)] if len(id_.encode()) > _ID_AT_MOST else []
    return errors + [FieldError.invalid(path, id_, fault) for fault in is_c_identifier(id_)]


def validate_uid(uid: str, path: str) -> list[FieldError]:
    """The id of a share of a device."""
    if _UID.fullmatch(uid):
        return []
    why = _no_uuid(uid)
    return [FieldError.invalid(path, uid, f"error validating uid: {why}" if why else _UID_RULE)]


def _no_uuid(text: str) -> str:
    """Why Go's library does not read a text as a UUID; empty where it does.

    Source: github.com/google/uuid v1.6.0, uuid.go, ``Validate``.
    """
    plain = text
    match len(text.encode()):
        case 36:
            pass
        case 45:
            if text[:9].lower() != "urn:uuid:":
                return f"invalid urn prefix: {quoted(text[:9])}"
            plain = text[9:]
        case 38:
            if not (text.startswith("{") and text.endswith("}")):
                return "invalid bracketed UUID format"
            plain = text[1:-1]
        case 32:
            return "" if re.fullmatch("[0-9a-fA-F]{32}", text) else "invalid UUID format"
        case length:
            return f"invalid UUID length: {length}"
    return "" if _UID.fullmatch(plain.lower()) else "invalid UUID format"


# Parts that several kinds have


def validate_selectors(selectors: Sequence[Fields] | None, path: str) -> list[FieldError]:
    """Selectors of devices, with their expressions."""
    return validate_list(selectors, _SELECTORS_AT_MOST, _validate_selector, path)


def _validate_selector(selector: Fields, path: str) -> list[FieldError]:
    cel = selector.get("cel")
    if cel is None:
        return [FieldError.required(f"{path}.cel")]
    expression = cel.get("expression") or ""
    if len(expression.encode()) > _EXPRESSION_AT_MOST:
        return [FieldError.too_long(f"{path}.cel.expression", _EXPRESSION_AT_MOST)]
    refusal = expression_refusal(expression)
    return [] if refusal is None else [FieldError.invalid(f"{path}.cel.expression", expression, refusal)]


def validate_configuration(config: Fields, path: str, *, stored: bool) -> list[FieldError]:
    """The opaque parameters for a driver; those that are stored already may be of any size."""
    opaque = config.get("opaque")
    if opaque is None:
        return [FieldError.required(f"{path}.opaque")]
    limit = None if stored else _PARAMETERS_AT_MOST
    return [
        *validate_driver_name(opaque.get("driver") or "", f"{path}.opaque.driver"),
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


def validate_taint(taint: Fields, path: str) -> list[FieldError]:
    """A taint of a device."""
    key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
    errors = _validate_key(key, f"{path}.key")
    errors += [FieldError.invalid(f"{path}.value", value, fault) for fault in (is_label_value(value) if value else ())]
    if not effect:
        errors.append(FieldError.required(f"{path}.effect"))
    return errors + _validate_effect(effect, f"{path}.effect")


def validate_toleration(toleration: Fields, path: str) -> list[FieldError]:
    """A toleration of a request."""
    key, operator, value = (toleration.get(name) or "" for name in ("key", "operator", "value"))
    errors = _validate_key(key, f"{path}.key") if key else []
    if operator == "Exists":
        if value:
            errors.append(FieldError.invalid(f"{path}.value", value, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        errors += [FieldError.invalid(f"{path}.value", value, fault) for fault in is_label_value(value)]
    elif not operator:
        errors.append(FieldError.required(f"{path}.operator"))
    else:
        errors.append(FieldError.not_supported(f"{path}.operator", operator, _OPERATORS))
    return errors + _validate_effect(toleration.get("effect") or "", f"{path}.effect")


def _validate_key(key: str, path: str) -> list[FieldError]:
    return [FieldError.invalid(path, key, fault) for fault in is_qualified_name(key)]


def _validate_effect(effect: str, path: str) -> list[FieldError]:
    return [] if effect in ("", *_EFFECTS) else [FieldError.not_supported(path, effect, _EFFECTS)]


def validate_binding_conditions(fields: Fields, path: str) -> list[FieldError]:
    """The conditions under which a device is bound, and those under which binding has failed."""
    names = ("bindingConditions", "bindingFailureConditions")
    found: list[Sequence[str]] = [fields.get(name) or () for name in names]
    wanted, failures = found
    errors: list[FieldError] = []
    for name, conditions in zip(names, found, strict=True):
        errors += validate_list(conditions, _CONDITIONS_AT_MOST, _validate_key, f"{path}.{name}")
    for name, conditions in zip(names, found, strict=True):
        for place, condition in enumerate(conditions):
            where = f"{path}.{name}[{place}]"
            if condition in conditions[:place]:
                errors.append(FieldError.duplicate(where, condition))
            if conditions is failures and condition in wanted:
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
