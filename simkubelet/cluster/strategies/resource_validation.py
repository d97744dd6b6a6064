"""Quantities of resources in pods and nodes: the canonical form, and their validation.

Source: apimachinery/pkg/api/resource/quantity.go, ``ErrFormatWrong`` (v0.34.4); pkg/apis/core/validation/validation.go,
``validateResourceRequirements``, ``ValidateResourceQuantityValue`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...model.errors import InputError
from ...model.resources import canonical_quantity, is_extended_resource, parse_quantity
from ..api.errors import FieldError, StatusError
from ..api.registry.names import is_qualified_name

__all__ = ["canonical_amounts", "validate_amounts", "validate_requirements"]

_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_CONTAINER: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD: Final = _CONTAINER | {
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
}
_COUNTED: Final = frozenset({"pods"})
_HUGE_PAGES: Final = "hugepages-"


def canonical_amounts(amounts: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Resource -> quantity, each as it is written back.

    Args:
        amounts: what the author wrote.
        kind: of the object, for the error.

    Raises:
        StatusError: one is no quantity.
    """
    try:
        return {name: canonical_quantity(text) for name, text in amounts.items()}
    except InputError:
        raise StatusError.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {_RULE}') from None


def validate_requirements(resources: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with a container's ``resources``, whose quantities have been read."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name in sorted(amounts):
            place = f"{path}.{kind}[{name}]"
            errors += [*_validate_name(name, place), *_validate_amount(name, amounts[name], place)]
            if kind == "requests":
                errors += _compare(name, requests[name], limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.append(FieldError.forbidden(path, "HugePages require cpu or memory"))
    return errors


def validate_amounts(amounts: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the capacity or the allocatable of a node."""
    return [error for name in sorted(amounts) for error in _validate_amount(name, amounts[name], f"{path}.{name}")]


def _validate_name(name: str, path: str) -> list[FieldError]:
    errors = [FieldError.invalid(path, name, fault) for fault in is_qualified_name(name)]
    is_huge_page = name.startswith(_HUGE_PAGES)
    if "/" not in name:
        if not errors and name not in _STANDARD and not is_huge_page:
            errors.append(FieldError.invalid(path, name, "must be a standard resource type or fully qualified"))
        if name not in _CONTAINER and not is_huge_page:
            errors.append(FieldError.invalid(path, name, "must be a standard resource for containers"))
    elif "kubernetes.io/" not in name and not is_extended_resource(name):
        errors.append(FieldError.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _validate_amount(name: str, text: Any, path: str) -> list[FieldError]:
    quantity, errors = parse_quantity(text), []
    if quantity < 0:
        errors.append(FieldError.invalid(path, str(text), "must be greater than or equal to 0"))
    if (name in _COUNTED or is_extended_resource(name)) and quantity * 1000 % 1000:
        errors.append(FieldError.invalid(path, str(text), "must be an integer"))
    return errors


def _compare(name: str, request: Any, limit: Any, path: str) -> list[FieldError]:
    may_differ = ("/" not in name or "kubernetes.io/" in name) and not name.startswith(_HUGE_PAGES)
    if limit is None:
        text = "Limit must be set for non overcommitable resources"
        return [] if may_differ else [FieldError.required(f"{path}.limits", text)]
    asked, most = parse_quantity(request), parse_quantity(limit)
    if asked == most or (may_differ and asked < most):
        return []
    rule = "must be less than or equal to" if may_differ else "must be equal to"
    return [FieldError.invalid(f"{path}.requests", str(request), f"{rule} {name} limit of {limit}")]
