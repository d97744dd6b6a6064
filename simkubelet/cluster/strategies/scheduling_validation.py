"""What an API server refuses in labels, label selectors, affinity and topology spread constraints of a pod's spec.

Source: pkg/apis/core/validation/validation.go, ``validateAffinity``, ``ValidateNodeSelectorTerm``,
``validatePodAffinityTerm``, ``ValidateMatchLabelKeysAndMismatchLabelKeys``, ``validateTopologySpreadConstraints``
(kubernetes v1.34.4); apimachinery/pkg/apis/meta/v1/validation/validation.go, ``ValidateLabelSelector`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...model.version import Version
from ..api.errors import FieldError
from ..api.registry.names import is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name

__all__ = [
    "validate_affinity",
    "validate_label_selector",
    "validate_labels",
    "validate_node_selector",
    "validate_spread_constraints",
]

_Fields: TypeAlias = Mapping[str, Any]

_SET_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
"""The operators that requirements on labels and on nodes have in common."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT: Final = 100
_NO_OPERATOR: Final = "not a valid selector operator"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")
_NOT_POSITIVE: Final = "must be greater than zero"


def validate_affinity(affinity: _Fields, path: str) -> list[FieldError]:
    """What is wrong with a pod's ``affinity``."""
    errors = _validate_node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        terms, where = affinity.get(kind) or {}, f"{path}.{kind}"
        for place, term in enumerate(terms.get(_REQUIRED) or ()):
            errors += _validate_pod_term(term, f"{where}.{_REQUIRED}[{place}]")
        for place, each in enumerate(terms.get(_PREFERRED) or ()):
            one = f"{where}.{_PREFERRED}[{place}]"
            errors += _validate_weight(each, one)
            errors += _validate_pod_term(each.get("podAffinityTerm") or {}, f"{one}.podAffinityTerm")
    return errors


def _validate_node_affinity(affinity: _Fields, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    required = affinity.get(_REQUIRED)
    if required is not None:
        errors += validate_node_selector(required, f"{path}.{_REQUIRED}")
    for place, each in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{place}]"
        errors += _validate_weight(each, where)
        errors += _validate_node_term(each.get("preference") or {}, f"{where}.preference", checks_values=False)
    return errors


def validate_node_selector(selector: _Fields, path: str, release: Version | None = None) -> list[FieldError]:
    """What is wrong with a node selector; keys and values are refused in the words of a release."""
    where = f"{path}.nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [FieldError.required(where, "must have at least one node selector term")]
    return [
        error
        for place, term in enumerate(terms)
        for error in _validate_node_term(term, f"{where}[{place}]", checks_values=True, release=release)
    ]


def _validate_weight(term: _Fields, path: str) -> list[FieldError]:
    weight = term.get("weight") or 0
    if 1 <= weight <= _MAX_WEIGHT:
        return []
    return [FieldError.invalid(f"{path}.weight", weight, f"must be in the range 1-{_MAX_WEIGHT}")]


def _validate_node_term(
    term: _Fields, path: str, *, checks_values: bool, release: Version | None = None
) -> list[FieldError]:
    errors: list[FieldError] = []
    for place, each in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{place}]"
        errors += _validate_label_requirement(each, where, checks_values=checks_values, release=release)
    for place, each in enumerate(term.get("matchFields") or ()):
        errors += _validate_field_requirement(each, f"{path}.matchFields[{place}]")
    return errors


def _validate_label_requirement(
    requirement: _Fields, path: str, *, checks_values: bool, release: Version | None
) -> list[FieldError]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    values: Sequence[str] = requirement.get("values") or ()
    errors = []
    if operator in _SET_OPERATORS:
        errors += _validate_set(operator, values, path)
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(FieldError.required(f"{path}.values", text))
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, _NO_OPERATOR))
    errors += [FieldError.invalid(f"{path}.key", key, fault) for fault in is_qualified_name(key, release)]
    for place, value in enumerate(values if checks_values else ()):
        faults = is_label_value(value, release)
        errors += [FieldError.invalid(f"{path}.values[{place}]", value, fault) for fault in faults]
    return errors


def _validate_field_requirement(requirement: _Fields, path: str) -> list[FieldError]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    values: Sequence[str] = requirement.get("values") or ()
    errors = []
    if operator not in ("In", "NotIn"):
        errors.append(FieldError.invalid(f"{path}.operator", operator, _NO_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(FieldError.required(f"{path}.values", text))
    if key != "metadata.name":
        return [*errors, FieldError.invalid(f"{path}.key", key, "not a valid field selector key")]
    for place, value in enumerate(values):
        errors += [FieldError.invalid(f"{path}.values[{place}]", value, fault) for fault in is_dns_subdomain(value)]
    return errors


def _validate_pod_term(term: _Fields, path: str) -> list[FieldError]:
    key: str = term.get("topologyKey") or ""
    errors = [
        *validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector"),
        *validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector"),
    ]
    for name in term.get("namespaces") or ():
        errors += [FieldError.invalid(f"{path}.namespace", name, fault) for fault in is_dns_label(name)]
    errors += _validate_label_keys(term, path)
    if not key:
        errors.append(FieldError.required(f"{path}.topologyKey", "can not be empty"))
    return errors + [FieldError.invalid(f"{path}.topologyKey", key, fault) for fault in is_qualified_name(key)]


def validate_spread_constraints(constraints: Sequence[_Fields], path: str) -> list[FieldError]:
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
        errors += _validate_label_keys({**each, "mismatchLabelKeys": None}, where)
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


def validate_labels(labels: Mapping[str, str], path: str, release: Version | None = None) -> list[FieldError]:
    """What is wrong with labels, in the words of a release."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += [FieldError.invalid(path, key, fault) for fault in is_qualified_name(key, release)]
        errors += [FieldError.invalid(path, value, fault) for fault in is_label_value(value, release)]
    return errors


def validate_label_selector(selector: _Fields | None, path: str) -> list[FieldError]:
    """What is wrong with a label selector; one that is left out is none."""
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for place, each in enumerate(selector.get("matchExpressions") or ()):
        errors += _validate_selector_requirement(each, f"{path}.matchExpressions[{place}]")
    return errors


def _validate_selector_requirement(requirement: _Fields, path: str) -> list[FieldError]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    values: Sequence[str] = requirement.get("values") or ()
    errors = []
    if operator in _SET_OPERATORS:
        errors += _validate_set(operator, values, path)
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, _NO_OPERATOR))
    errors += [FieldError.invalid(f"{path}.key", key, fault) for fault in is_qualified_name(key)]
    for place, value in enumerate(values):
        errors += [FieldError.invalid(f"{path}.values[{place}]", value, fault) for fault in is_label_value(value)]
    return errors


def _validate_set(operator: str, values: Sequence[str], path: str) -> list[FieldError]:
    """Whether one of the `_SET_OPERATORS` has values where it needs them, and only there."""
    if operator in ("In", "NotIn") and not values:
        return [FieldError.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [FieldError.forbidden(f"{path}.values", text)]
    return []


def _validate_label_keys(term: _Fields, path: str) -> list[FieldError]:
    """What is wrong with the ``matchLabelKeys`` and the ``mismatchLabelKeys`` beside a label selector.

    The requirements that they stand for are in the selector already.
    """
    selector: _Fields | None = term.get("labelSelector")
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
