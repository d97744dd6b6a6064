"""Names of drivers, pools, devices, attributes and shares, as API servers check them in objects of resource.k8s.io.

Source: pkg/apis/resource/validation/validation.go; pkg/apis/core/validation/validation.go,
``ValidateCSIDriverName`` (kubernetes v1.34.4, v1.35.4, v1.36.3).
"""

from __future__ import annotations

import re
from typing import Final

from ....golang.text import quoted
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_c_identifier, is_dns_label, is_dns_subdomain
from ..rules import Rules

__all__ = [
    "validate_driver_name",
    "validate_full_name",
    "validate_label",
    "validate_name",
    "validate_pool_name",
    "validate_subdomain",
    "validate_uid",
]

_DRIVER_AT_MOST: Final = 63
_POOL_AT_MOST: Final = 253
_ID_AT_MOST: Final = 32
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UID_RULE: Final = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)
_EMPTY_IS_MISSING: Final = Difference(
    "an empty name of an attribute or capacity, or part of it, is a missing value, else a wrong one; an empty driver "
    "is a wrong value as well as a missing one, else only that",
    {"1.26": True, "1.35": False},
    "pkg/apis/resource/validation/validation.go, ``validateQualifiedName`` (kubernetes v1.34.4, v1.35.4)",
)
_NO_DOMAIN: Final = Difference(
    "what the name of an attribute in a constraint lacks",
    {
        "1.26": "must include a domain",
        "1.35": "a fully qualified name must be a domain and a name separated by a slash",
    },
    "pkg/apis/resource/validation/validation.go, ``validateQualifiedName`` (kubernetes v1.34.4, v1.35.4)",
)


def validate_label(name: str, path: str) -> list[FieldError]:
    """The name of a device, a request or a counter."""
    return [FieldError.invalid(path, name, fault) for fault in is_dns_label(name)]


def validate_subdomain(name: str, path: str) -> list[FieldError]:
    """The name of a node or a class."""
    return [FieldError.invalid(path, name, fault) for fault in is_dns_subdomain(name)]


def validate_driver_name(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of a driver, or the domain of an attribute."""
    errors = [] if name else [FieldError.required(path)]
    if errors and not rules.of(_EMPTY_IS_MISSING):
        return errors
    if len(name.encode()) > _DRIVER_AT_MOST:
        errors.append(FieldError.too_long(path, _DRIVER_AT_MOST))
    return errors + [FieldError.invalid(path, name, fault) for fault in is_dns_subdomain(name.lower())]


def validate_pool_name(name: str, path: str) -> list[FieldError]:
    """The name of a pool: subdomains with slashes between them."""
    if not name:
        return [FieldError.required(path)]
    errors = [FieldError.too_long(path, _POOL_AT_MOST)] if len(name.encode()) > _POOL_AT_MOST else []
    return errors + [error for part in name.split("/") for error in validate_subdomain(part, path)]


def validate_name(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of an attribute or a capacity: an identifier, with or without a domain."""
    if not name and rules.of(_EMPTY_IS_MISSING):
        return [FieldError.required(path, "name required")]
    match name.split("/"):
        case [id_]:
            return _validate_identifier(id_, path)
        case [domain, id_]:
            return [
                *(validate_driver_name(rules, domain, path) if domain else [_empty_part(rules, "domain", path)]),
                *(_validate_identifier(id_, path) if id_ else [_empty_part(rules, "name", path)]),
            ]
        case _:
            return []


def _empty_part(rules: Rules, part: str, path: str) -> FieldError:
    why = f"the {part} must not be empty"
    return FieldError.required(path, why) if rules.of(_EMPTY_IS_MISSING) else FieldError.invalid(path, "", why)


def validate_full_name(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of an attribute with its domain."""
    errors = validate_name(rules, name, path)
    if "/" not in name and (name or not rules.of(_EMPTY_IS_MISSING)):
        errors.append(FieldError.invalid(path, name, rules.of(_NO_DOMAIN)))
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
