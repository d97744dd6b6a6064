"""What an API server refuses in requests for devices: in the specs of ResourceClaims and their templates.

Source: pkg/apis/resource/validation/validation.go, ``validateDeviceClaim``; pkg/apis/core/validation/validation.go,
``ValidateTemplateObjectMeta`` (kubernetes v1.34.4, v1.35.4, v1.36.3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.metadata import validate_annotations
from ...api.registry.names import is_dns_subdomain
from ..internal_form import METADATA_FIELDS
from ..pod.scheduling import validate_labels
from ..rules import Rules
from .device_names import validate_full_name, validate_label
from .fields import (
    CAPACITY,
    CONFIGS_AT_MOST,
    REQUESTS_AT_MOST,
    Fields,
    validate_configuration,
    validate_list,
    validate_selectors,
    validate_set,
    validate_toleration,
)

__all__ = [
    "RequestNames",
    "request_names",
    "validate_claim_spec",
    "validate_request_name",
    "validate_requests_of",
    "validate_template_spec",
]

RequestNames: TypeAlias = Mapping[str, Collection[str]]
"""The names of a claim's requests, each with those of its alternatives."""

_CONSTRAINTS_AT_MOST: Final = 32
_ALTERNATIVES_AT_MOST: Final = 8
_ALL: Final = "All"
_EXACT_COUNT: Final = "ExactCount"
_ONE_OF: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_ONE_FIRST: Final = Difference(
    "of a request with both `exactly` and `firstAvailable`, or none, nothing else is checked but its name",
    {"1.26": False, "1.35": True},
    "pkg/apis/resource/validation/validation.go, ``validateDeviceRequest`` (kubernetes v1.34.4, v1.35.4)",
)
_OF_TEMPLATES: Final = ("annotations", "labels")


def validate_claim_spec(rules: Rules, spec: Fields, path: str, *, stored: bool) -> list[FieldError]:
    """What is wrong with a claim's spec; `stored` where it cannot have changed since it was accepted."""
    devices = spec.get("devices") or {}
    names, where = request_names(spec), f"{path}.devices"
    compared = _compared_attributes(devices.get("constraints") or ())
    return [
        *validate_set(
            rules,
            devices.get("requests"),
            REQUESTS_AT_MOST,
            partial(_validate_request, rules, compared),
            lambda request: str(request.get("name") or ""),
            f"{where}.requests",
            "name",
        ),
        *validate_list(
            rules,
            devices.get("constraints"),
            _CONSTRAINTS_AT_MOST,
            lambda constraint, at: _validate_constraint(rules, constraint, at, names),
            f"{where}.constraints",
        ),
        *validate_list(
            rules,
            devices.get("config"),
            CONFIGS_AT_MOST,
            lambda config, at: [
                *validate_requests_of(rules, config, at, names),
                *validate_configuration(rules, config, at, stored=stored),
            ],
            f"{where}.config",
        ),
    ]


def validate_template_spec(rules: Rules, spec: Fields, path: str, *, stored: bool) -> list[FieldError]:
    """What is wrong with a template's spec: of the metadata for claims it may have labels and annotations only."""
    metadata, where = spec.get("metadata") or {}, f"{path}.metadata"
    return [
        *validate_annotations(metadata.get("annotations") or {}, f"{where}.annotations", rules.release),
        *validate_labels(metadata.get("labels") or {}, f"{where}.labels", rules.release),
        *(
            FieldError.forbidden(f"{where}.{name}", "cannot be set")
            for name in METADATA_FIELDS
            if name not in _OF_TEMPLATES and metadata.get(name) not in (None, "", 0, [])
        ),
        *validate_claim_spec(rules, spec.get("spec") or {}, f"{path}.spec", stored=stored),
    ]


def request_names(spec: Fields) -> RequestNames:
    """The names that constraints, configurations and results may use."""
    return {
        request.get("name") or "": {each.get("name") or "" for each in request.get("firstAvailable") or ()}
        for request in (spec.get("devices") or {}).get("requests") or ()
    }


def validate_requests_of(rules: Rules, fields: Fields, path: str, names: RequestNames) -> list[FieldError]:
    """The ``requests`` of a constraint or a configuration."""
    return validate_set(
        rules,
        fields.get("requests"),
        REQUESTS_AT_MOST,
        lambda name, at: validate_request_name(name, at, names),
        lambda name: str(name),
        f"{path}.requests",
    )


def validate_request_name(name: str, path: str, names: RequestNames) -> list[FieldError]:
    """The name of one of a claim's requests, or of one of its alternatives."""
    request, slash, alternative = name.partition("/")
    no_request = FieldError.invalid(path, name, _NO_REQUEST)
    if "/" in alternative:
        return [no_request]
    errors = [error for part in name.split("/") for error in validate_label(part, path)]
    is_known = request in names and (not slash or alternative in names[request])
    return errors if is_known else [*errors, no_request]


def _compared_attributes(constraints: Sequence[Fields]) -> RequestNames:
    """The attributes that constraints compare, by request; those that they compare of all requests are at ``""``."""
    found: dict[str, set[str]] = {}
    for constraint in constraints:
        given = (constraint.get(name) for name in ("matchAttribute", "distinctAttribute"))
        attribute = next((name for name in given if name is not None), None)
        for request in constraint.get("requests") or ("",) if attribute is not None else ():
            found.setdefault(request, set()).add(str(attribute))
    return found


def _validate_request(rules: Rules, compared: RequestNames, request: Fields, path: str) -> list[FieldError]:
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    errors = validate_label(request.get("name") or "", f"{path}.name")
    fault = _not_one(path, has_exactly=exactly is not None, has_alternatives=bool(alternatives))
    if fault is not None and rules.of(_ONE_FIRST):
        return [*errors, fault]
    errors += validate_set(
        rules,
        alternatives,
        _ALTERNATIVES_AT_MOST,
        lambda each, at: [
            *validate_label(each.get("name") or "", f"{at}.name"),
            *_validate_choice(rules, each, at),
            *_validate_derived(rules, each, at, compared, request.get("name") or "", each.get("name") or ""),
        ],
        lambda each: str(each.get("name") or ""),
        f"{path}.firstAvailable",
        "name",
    )
    if exactly is not None:
        errors += _validate_choice(rules, exactly, f"{path}.exactly")
        errors += _validate_derived(rules, exactly, f"{path}.exactly", compared, request.get("name") or "")
    return errors if fault is None else [*errors, fault]


def _not_one(path: str, *, has_exactly: bool, has_alternatives: bool) -> FieldError | None:
    """What is wrong with a request that has not one of its two forms."""
    if has_exactly == has_alternatives:
        several = f"{_ONE_OF}, but multiple fields are set"
        return FieldError.invalid(path, None, several) if has_exactly else FieldError.required(path, _ONE_OF)
    return None


def _validate_choice(rules: Rules, request: Fields, path: str) -> list[FieldError]:
    """What a request and each of its alternatives have: a class, selectors, how many devices, tolerations."""
    class_name = request.get("deviceClassName") or ""
    errors = [] if class_name else [FieldError.required(f"{path}.deviceClassName")]
    errors += [
        FieldError.invalid(f"{path}.deviceClassName", class_name, fault)
        for fault in (is_dns_subdomain(class_name) if class_name else ())
    ]
    errors += validate_selectors(rules, request.get("selectors"), f"{path}.selectors")
    errors += _validate_count(request.get("allocationMode") or "", request.get("count") or 0, path)
    # Their number has no limit.
    tolerations = request.get("tolerations")
    return errors + validate_list(rules, tolerations, -1, partial(validate_toleration, rules), f"{path}.tolerations")


def _validate_derived(rules: Rules, choice: Fields, path: str, compared: RequestNames, *names: str) -> list[FieldError]:
    """The attributes that a request derives, which constraints must compare; that is no use of their expressions.

    Source: pkg/apis/resource/validation/validation.go, ``validateDeviceDerivedAttribute`` (kubernetes v1.37.2).
    """
    reference = "/".join(names)
    used = [name for request in {"", reference, reference.split("/")[0]} for name in compared.get(request, ())]
    why = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"

    def check(attribute: Fields, at: str) -> list[FieldError]:
        name = attribute.get("name") or ""
        return [FieldError.invalid(f"{at}.name", name, why)] if name and name not in used else []

    attributes, where = choice.get("derivedAttributes"), f"{path}.derivedAttributes"
    return validate_set(rules, attributes, -1, check, lambda attribute: str(attribute.get("name") or ""), where)


def _validate_count(mode: str, count: int, path: str) -> list[FieldError]:
    match mode:
        case "All":
            why = "must not be specified when allocationMode is 'All'"
            return [FieldError.invalid(f"{path}.count", count, why)] if count else []
        case "ExactCount":
            return [FieldError.invalid(f"{path}.count", count, "must be greater than zero")] if count <= 0 else []
        case _:
            return [FieldError.not_supported(f"{path}.allocationMode", mode, (_ALL, _EXACT_COUNT))]


def _validate_constraint(rules: Rules, constraint: Fields, path: str, names: RequestNames) -> list[FieldError]:
    errors = validate_requests_of(rules, constraint, path, names)
    for name in ("matchAttribute", "distinctAttribute"):
        if constraint.get(name) is not None:
            return errors + validate_full_name(rules, constraint[name], f"{path}.{name}")
    if CAPACITY in rules.gates:
        # None is set; the message is the real one's.
        why = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        return [*errors, FieldError.required(path, why)]
    return [*errors, FieldError.required(f"{path}.matchAttribute")]
