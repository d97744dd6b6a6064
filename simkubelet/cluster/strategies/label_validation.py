"""What an API server refuses in labels and label selectors of a pod's spec.

Source: apimachinery/pkg/apis/meta/v1/validation/validation.go, ``ValidateLabelSelector`` (v0.34.4);
pkg/apis/core/validation/validation.go, ``ValidateMatchLabelKeysAndMismatchLabelKeys`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..api.errors import FieldError
from ..api.registry.names import is_label_value, is_qualified_name

__all__ = ["SET_OPERATORS", "validate_label_keys", "validate_label_selector", "validate_labels", "validate_set"]

SET_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
"""The operators that requirements on labels and on nodes have in common."""


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """What is wrong with labels."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += [FieldError.invalid(path, key, fault) for fault in is_qualified_name(key)]
        errors += [FieldError.invalid(path, value, fault) for fault in is_label_value(value)]
    return errors


def validate_label_selector(selector: Mapping[str, Any] | None, path: str) -> list[FieldError]:
    """What is wrong with a label selector; one that is left out is none."""
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for place, each in enumerate(selector.get("matchExpressions") or ()):
        errors += _validate_requirement(each, f"{path}.matchExpressions[{place}]")
    return errors


def validate_label_keys(term: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the ``matchLabelKeys`` and the ``mismatchLabelKeys`` beside a label selector.

    The requirements that they stand for are in the selector already.
    """
    selector: Mapping[str, Any] | None = term.get("labelSelector")
    matching: Sequence[str] = term.get("matchLabelKeys") or ()
    mismatching: Sequence[str] = term.get("mismatchLabelKeys") or ()
    errors: list[FieldError] = []
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            errors.append(FieldError.forbidden(f"{path}.{name}", text))
        for place, key in enumerate(() if selector is None else keys):
            errors += [FieldError.invalid(f"{path}.{name}[{place}]", key, fault) for fault in is_qualified_name(key)]
    places = {key: place for place, key in enumerate(matching)}
    known = set((selector or {}).get("matchLabels") or ())
    for each in (selector or {}).get("matchExpressions") or ():
        key = each.get("key") or ""
        if key in places and key in known:
            # The path is the real one's: it leaves the field's name out.
            text = "exists in both matchLabelKeys and labelSelector"
            errors.append(FieldError.invalid(f"{path}[{places[key]}]", key, text))
        known.add(key)
    text = "exists in both matchLabelKeys and mismatchLabelKeys"
    return errors + [
        FieldError.invalid(f"{path}.matchLabelKeys[{place}]", key, text)
        for place, key in enumerate(matching)
        if key in mismatching
    ]


def validate_set(operator: str, values: Sequence[str], path: str) -> list[FieldError]:
    """Whether one of the `SET_OPERATORS` has values where it needs them, and only there."""
    if operator in ("In", "NotIn") and not values:
        return [FieldError.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [FieldError.forbidden(f"{path}.values", text)]
    return []


def _validate_requirement(requirement: Mapping[str, Any], path: str) -> list[FieldError]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    values: Sequence[str] = requirement.get("values") or ()
    errors = []
    if operator in SET_OPERATORS:
        errors += validate_set(operator, values, path)
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += [FieldError.invalid(f"{path}.key", key, fault) for fault in is_qualified_name(key)]
    for place, value in enumerate(values):
        errors += [FieldError.invalid(f"{path}.values[{place}]", value, fault) for fault in is_label_value(value)]
    return errors
