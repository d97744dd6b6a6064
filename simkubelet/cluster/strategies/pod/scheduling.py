"""What an API server refuses in what a pod's spec says about where the pod goes, in labels and in label selectors.

Source: pkg/apis/core/validation/validation.go, ``validateAffinity``, ``ValidateNodeSelectorTerm``,
``validatePodAffinityTerm``, ``ValidateMatchLabelKeysAndMismatchLabelKeys``, ``validateTopologySpreadConstraints``,
``ValidateTolerations``, ``validateSchedulingGates`` (kubernetes v1.34.4, v1.35.4);
apimachinery/pkg/apis/meta/v1/validation/validation.go, ``ValidateLabelSelector`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ....model.version import Difference, Version
from ...api.errors import FieldError
from ...api.registry.names import is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name
from .checks import Fields, PodRules, choose, refused

__all__ = [
    "SPREAD_KEYS_MERGE",
    "validate_affinity",
    "validate_label_selector",
    "validate_labels",
    "validate_node_selector",
    "validate_placement",
    "validate_spread_constraints",
    "validate_taint_effect",
    "validate_tolerations",
]

_SET_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
"""The operators that requirements on labels and on nodes have in common."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT: Final = 100
_NO_OPERATOR: Final = "not a valid selector operator"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES: Final = ("Honor", "Ignore")
_NOT_POSITIVE: Final = "must be greater than zero"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NO_KEY: Final = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
SPREAD_KEYS_MERGE: Final = "MatchLabelKeysInPodTopologySpreadSelectorMerge"
_OPERATORS: Final = Difference(
    "the operators of tolerations in the text about another one",
    {"1.26": ("Equal", "Exists"), "1.35": ("Equal", "Exists", "Lt", "Gt")},
    "pkg/apis/core/validation/validation.go, ``ValidateTolerations`` (kubernetes v1.34.4, v1.35.4)",
)
_CHECKS_SELECTORS: Final = Difference(
    "the selectors of topology spread constraints are checked",
    {"1.26": False, "1.27": True},
    "pkg/apis/core/validation/validation.go, ``validateTopologySpreadConstraints`` (kubernetes v1.26.15, v1.27.16)",
)
_CHECKS_VALUES: Final = Difference(
    "the values in the required node affinity of a pod have to be those of labels",
    {"1.26": False, "1.33": True},
    "pkg/apis/core/validation/validation.go, ``validateNodeAffinity`` (kubernetes v1.32.13, v1.33.13)",
)


def validate_placement(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with what a pod's spec says about where the pod goes."""
    constraints = spec.get("topologySpreadConstraints") or ()
    return [
        *validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector", rules.release),
        *validate_affinity(spec.get("affinity") or {}, f"{path}.affinity", rules.release),
        *_validate_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates", rules.release),
        *validate_spread_constraints(rules, constraints, f"{path}.topologySpreadConstraints"),
        *validate_tolerations(rules, spec.get("tolerations") or (), f"{path}.tolerations"),
    ]


def _validate_gates(gates: Sequence[Fields], path: str, release: Version) -> list[FieldError]:
    errors, seen = [], set()
    for place, gate in enumerate(gates):
        where, name = f"{path}[{place}]", gate.get("name") or ""
        errors += refused(name, where, is_qualified_name(name, release))
        if name in seen:
            errors.append(FieldError.duplicate(where, name))
        seen.add(name)
    return errors


def validate_tolerations(rules: PodRules, tolerations: Sequence[Fields], path: str) -> list[FieldError]:
    """What is wrong with ``tolerations``."""
    errors = []
    for place, each in enumerate(tolerations):
        where = f"{path}[{place}]"
        key, operator, effect = each.get("key") or "", each.get("operator") or "", each.get("effect") or ""
        if key:
            errors += refused(key, f"{where}.key", is_qualified_name(key, rules.release))
        elif operator != "Exists":
            errors.append(FieldError.invalid(f"{where}.operator", operator, _NO_KEY))
        if each.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(FieldError.invalid(f"{where}.effect", effect, text))
        errors += _validate_operator(rules, operator, each.get("value") or "", where)
        if effect:
            errors += validate_taint_effect(effect, f"{where}.effect")
    return errors


def _validate_operator(rules: PodRules, operator: str, value: str, path: str) -> list[FieldError]:
    where = f"{path}.operator"
    if operator in ("Equal", ""):
        faults = is_label_value(value, rules.release)
        return [FieldError.invalid(where, value, ";".join(faults))] if faults else []
    if operator == "Exists":
        text = "value must be empty when `operator` is 'Exists'"
        return [FieldError.invalid(where, value, text)] if value else []
    # The newer operators, whose gate is off, are among those of the text for themselves only.
    known = rules.of(_OPERATORS) if operator in ("Lt", "Gt") else ("Equal", "Exists")
    return [FieldError.not_supported(where, operator, known)]


def validate_taint_effect(effect: str, path: str) -> list[FieldError]:
    """What is wrong with the effect of a taint or a toleration."""
    return choose(effect, _EFFECTS, path)


def validate_affinity(affinity: Fields, path: str, release: Version) -> list[FieldError]:
    """What is wrong with a pod's ``affinity``."""
    errors = _validate_node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity", release)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms, where = affinity.get(kind) or {}, f"{path}.{kind}"
        for place, term in enumerate(terms.get(_REQUIRED) or ()):
            errors += _validate_pod_term(term, f"{where}.{_REQUIRED}[{place}]", release)
        for place, each in enumerate(terms.get(_PREFERRED) or ()):
            one = f"{where}.{_PREFERRED}[{place}]"
            errors += _validate_weight(each, one)
            errors += _validate_pod_term(each.get("podAffinityTerm") or {}, f"{one}.podAffinityTerm", release)
    return errors


def _validate_node_affinity(affinity: Fields, path: str, release: Version) -> list[FieldError]:
    errors: list[FieldError] = []
    required = affinity.get(_REQUIRED)
    if required is not None:
        checks_values = _CHECKS_VALUES.at(release)
        errors += validate_node_selector(required, f"{path}.{_REQUIRED}", release, checks_values=checks_values)
    for place, each in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{place}]"
        errors += _validate_weight(each, where)
        errors += _validate_node_term(each.get("preference") or {}, f"{where}.preference", release, checks_values=False)
    return errors


def validate_node_selector(
    selector: Fields, path: str, release: Version, *, checks_values: bool = True
) -> list[FieldError]:
    """What is wrong with a node selector; keys and values are refused in the words of a release."""
    where = f"{path}.nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [FieldError.required(where, "must have at least one node selector term")]
    return [
        error
        for place, term in enumerate(terms)
        for error in _validate_node_term(term, f"{where}[{place}]", release, checks_values=checks_values)
    ]


def _validate_weight(term: Fields, path: str) -> list[FieldError]:
    weight = term.get("weight") or 0
    if 1 <= weight <= _MAX_WEIGHT:
        return []
    return [FieldError.invalid(f"{path}.weight", weight, f"must be in the range 1-{_MAX_WEIGHT}")]


def _validate_node_term(term: Fields, path: str, release: Version, *, checks_values: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for place, each in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{place}]"
        errors += _validate_label_requirement(each, where, release, checks_values=checks_values)
    for place, each in enumerate(term.get("matchFields") or ()):
        errors += _validate_field_requirement(each, f"{path}.matchFields[{place}]")
    return errors


def _validate_label_requirement(
    requirement: Fields, path: str, release: Version, *, checks_values: bool
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


def _validate_field_requirement(requirement: Fields, path: str) -> list[FieldError]:
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


def _validate_pod_term(term: Fields, path: str, release: Version) -> list[FieldError]:
    key: str = term.get("topologyKey") or ""
    errors = [
        *validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector", release),
        *validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector", release),
    ]
    for name in term.get("namespaces") or ():
        errors += [FieldError.invalid(f"{path}.namespace", name, fault) for fault in is_dns_label(name)]
    errors += _validate_label_keys(term, path, release)
    if not key:
        errors.append(FieldError.required(f"{path}.topologyKey", "can not be empty"))
    return errors + refused(key, f"{path}.topologyKey", is_qualified_name(key, release))


def validate_spread_constraints(rules: PodRules, constraints: Sequence[Fields], path: str) -> list[FieldError]:
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
        if rules.allows(SPREAD_KEYS_MERGE):
            errors += _validate_label_keys({**each, "mismatchLabelKeys": None}, where, rules.release)
        else:
            errors += _validate_unmerged_keys(each, f"{where}.matchLabelKeys", rules.release)
        if rules.of(_CHECKS_SELECTORS):
            errors += validate_label_selector(each.get("labelSelector"), f"{where}.labelSelector", rules.release)
    return errors


def _validate_min_domains(least: int | None, action: str, path: str) -> list[FieldError]:
    if least is None:
        return []
    errors = [FieldError.invalid(path, least, _NOT_POSITIVE)] if least <= 0 else []
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(FieldError.invalid(path, least, text))
    return errors


def validate_labels(labels: Mapping[str, str], path: str, release: Version) -> list[FieldError]:
    """What is wrong with labels."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += [FieldError.invalid(path, key, fault) for fault in is_qualified_name(key, release)]
        errors += [FieldError.invalid(path, value, fault) for fault in is_label_value(value, release)]
    return errors


def validate_label_selector(selector: Fields | None, path: str, release: Version) -> list[FieldError]:
    """What is wrong with a label selector; one that is left out is none."""
    if selector is None:
        return []
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels", release)
    for place, each in enumerate(selector.get("matchExpressions") or ()):
        errors += _validate_selector_requirement(each, f"{path}.matchExpressions[{place}]", release)
    return errors


def _validate_selector_requirement(requirement: Fields, path: str, release: Version) -> list[FieldError]:
    operator, key = requirement.get("operator") or "", requirement.get("key") or ""
    values: Sequence[str] = requirement.get("values") or ()
    errors = []
    if operator in _SET_OPERATORS:
        errors += _validate_set(operator, values, path)
    else:
        errors.append(FieldError.invalid(f"{path}.operator", operator, _NO_OPERATOR))
    errors += refused(key, f"{path}.key", is_qualified_name(key, release))
    for place, value in enumerate(values):
        errors += refused(value, f"{path}.values[{place}]", is_label_value(value, release))
    return errors


def _validate_set(operator: str, values: Sequence[str], path: str) -> list[FieldError]:
    """Whether one of the `_SET_OPERATORS` has values where it needs them, and only there."""
    if operator in ("In", "NotIn") and not values:
        return [FieldError.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
    if operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        return [FieldError.forbidden(f"{path}.values", text)]
    return []


def _validate_label_keys(term: Fields, path: str, release: Version) -> list[FieldError]:
    """What is wrong with the ``matchLabelKeys`` and the ``mismatchLabelKeys`` beside a label selector.

    The requirements that they stand for are in the selector already.
    """
    selector: Fields | None = term.get("labelSelector")
    matching: Sequence[str] = term.get("matchLabelKeys") or ()
    mismatching: Sequence[str] = term.get("mismatchLabelKeys") or ()
    errors: list[FieldError] = []
    for name, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            errors.append(FieldError.forbidden(f"{path}.{name}", text))
        for place, key in enumerate(() if selector is None else keys):
            errors += refused(key, f"{path}.{name}[{place}]", is_qualified_name(key, release))
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


def _validate_unmerged_keys(constraint: Fields, path: str, release: Version) -> list[FieldError]:
    """The same where the requirements are not in the selector.

    Source: ``ValidateMatchLabelKeysInTopologySpread`` (kubernetes v1.33.13).
    """
    keys, selector = constraint.get("matchLabelKeys") or (), constraint.get("labelSelector")
    if not keys:
        return []
    errors = []
    if selector is None:
        errors.append(FieldError.forbidden(path, "must not be specified when labelSelector is not set"))
    known = {*((selector or {}).get("matchLabels") or ())}
    known |= {each.get("key") or "" for each in (selector or {}).get("matchExpressions") or ()}
    for place, key in enumerate(keys):
        errors += refused(key, f"{path}[{place}]", is_qualified_name(key, release))
        if key in known:
            errors.append(
                FieldError.invalid(f"{path}[{place}]", key, "exists in both matchLabelKeys and labelSelector")
            )
    return errors
