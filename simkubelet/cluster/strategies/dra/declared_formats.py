"""Formats of texts that types of resource.k8s.io declare of their fields: what keeps a value from having one.

Source: apimachinery/pkg/api/validate/strfmt.go, apimachinery/pkg/api/validate/content (v0.37.2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ...api.errors import FieldError
from ...api.registry.names import is_c_identifier, is_caseless_subdomain, is_dns_label, is_dns_subdomain
from ...api.registry.names import is_qualified_name as is_label_key
from ..rules import Rules

__all__ = [
    "check_driver",
    "check_extended_resource",
    "check_full_name",
    "check_label_key",
    "check_long_name",
    "check_pool",
    "check_share",
    "check_short_name",
]

_DOMAIN_AT_MOST: Final = 63
_POOL_AT_MOST: Final = 253
_ID_AT_MOST: Final = 32
_QUOTA: Final = "requests."
_NATIVE: Final = "kubernetes.io/"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_short_name(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of a counter, or of a set of counters."""
    return _refused(name, path, is_dns_label(name, rules.release))


def check_long_name(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of a class."""
    return _refused(name, path, is_dns_subdomain(name, rules.release))


def check_label_key(rules: Rules, key: str, path: str) -> list[FieldError]:
    """The key of a toleration."""
    return _refused(key, path, is_label_key(key, rules.release))


def check_driver(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of a driver, with letters of either case."""
    errors = _refused(name, path, is_caseless_subdomain(name, rules.release))
    if len(name) > _DOMAIN_AT_MOST:
        errors.append(FieldError("FieldValueTooLong", path, None, f"may not be more than {_DOMAIN_AT_MOST} characters"))
    return errors


def check_pool(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of a pool: subdomains with slashes between them."""
    errors = [FieldError.too_long(path, _POOL_AT_MOST)] if len(name.encode()) > _POOL_AT_MOST else []
    for place, part in enumerate(name.split("/")):
        if part:
            faults = is_dns_subdomain(part, rules.release)
            errors += _refused(part, path, [f"segment {place}: {fault}" for fault in faults])
        else:
            errors.append(FieldError.invalid(path, name, f"segment {place}: must not be empty"))
    return errors


def check_share(rules: Rules, uid: str, path: str) -> list[FieldError]:
    """The id of a share of a device."""
    is_uuid = _UUID.fullmatch(uid) is not None
    return [] if is_uuid else [FieldError.invalid(path, uid, "must be a lowercase UUID in 8-4-4-4-12 format")]


def check_full_name(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of an attribute with its domain."""
    errors = []
    match name.split("/"):
        case [id_]:
            errors += _check_identifier(id_, path)
        case [domain, id_]:
            errors += _check_domain(rules, domain, path)
            errors += _check_identifier(id_, path) if id_ else [_empty("name", path)]
        case _:
            pass
    if "/" not in name:
        why = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(FieldError.invalid(path, name, why))
    return errors


def check_extended_resource(rules: Rules, name: str, path: str) -> list[FieldError]:
    """The name of an extended resource that a class stands for."""
    faults = []
    if "/" not in name:
        faults.append("a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif _NATIVE in name:
        faults.append(f'must not have "{_NATIVE}" domain')
    if name.startswith(_QUOTA):
        faults.append(f'must not have "{_QUOTA}" prefix')
    return _refused(name, path, [*faults, *is_label_key(_QUOTA + name, rules.release)])


def _check_domain(rules: Rules, domain: str, path: str) -> list[FieldError]:
    if not domain:
        return [_empty("prefix", path)]
    errors = [FieldError.too_long(path, _DOMAIN_AT_MOST)] if len(domain.encode()) > _DOMAIN_AT_MOST else []
    return errors + _refused(domain, path, [f"prefix: {fault}" for fault in is_dns_subdomain(domain, rules.release)])


def _check_identifier(id_: str, path: str) -> list[FieldError]:
    errors = [FieldError.too_long(path, _ID_AT_MOST)] if len(id_.encode()) > _ID_AT_MOST else []
    return errors + _refused(id_, path, is_c_identifier(id_))


def _empty(part: str, path: str) -> FieldError:
    return FieldError.invalid(path, "", f"{part} must not be empty")


def _refused(value: str, path: str, faults: Sequence[str]) -> list[FieldError]:
    return [FieldError.invalid(path, value, fault) for fault in faults]
