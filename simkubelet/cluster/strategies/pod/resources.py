"""What an API server refuses in resources: of containers, of whole pods, and in the claims that they use.

Source: pkg/apis/core/validation/validation.go, ``validateResourceRequirements``, ``validateResourceClaimNames``,
``validatePodResourceClaims``, ``validatePodResources``, ``validatePodResourceConsistency``,
``ValidateResourceQuantityValue`` (kubernetes v1.34.4); pkg/apis/core/helper/helpers.go,
``IsHugePageResourceValueDivisible``; component-helpers/resource/helpers.go, ``AggregateContainerRequests``,
``AggregateContainerLimits`` (v0.34.4).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from ....model.errors import InputError
from ....model.resources import canonical_quantity, is_extended_resource, parse_quantity
from ....model.version import Difference, Version
from ...api.errors import FieldError
from ...api.registry.names import is_dns_label, is_dns_subdomain, is_qualified_name
from ..internal_form import internal
from .checks import Fields, PodRules, refused

__all__ = [
    "aggregated",
    "claim_names",
    "is_huge_page",
    "is_of_whole_pods",
    "may_overcommit",
    "quantity_text",
    "validate_amount",
    "validate_amounts",
    "validate_claims",
    "validate_container_resource",
    "validate_pod_resources",
    "validate_requirements",
]

_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED_RESOURCES: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD_RESOURCES: Final = (
    _OF_CONTAINERS
    | _COUNTED_RESOURCES
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS}
    | {"storage", "requests.storage"}
)
_HUGE_PAGES: Final = "hugepages-"
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_OF_PODS: Final = ("cpu", _HUGE_PAGES, "memory")
_NATIVE: Final = "kubernetes.io/"
_NO_CLAIM: Final = "must be one of the names in pod.spec.resourceClaims"
_NO_SOURCE: Final = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
_TWO_SOURCES: Final = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
_SHOWS_LIMIT: Final = Difference(
    "the text about a request that its limit does not allow shows the limit",
    {"1.26": False, "1.27": True},
    "pkg/apis/core/validation/validation.go, ``ValidateContainerResourceRequirements`` (kubernetes v1.26.15, v1.27.16)",
)


def is_huge_page(name: str) -> bool:
    """Whether a resource is huge pages of one size."""
    return name.startswith(_HUGE_PAGES)


def may_overcommit(name: str) -> bool:
    """Whether a container may ask for less of a resource than it may use."""
    return ("/" not in name or _NATIVE in name) and not is_huge_page(name)


def is_of_whole_pods(name: str) -> bool:
    """Whether a pod may ask for a resource as a whole."""
    return name in ("cpu", "memory") or is_huge_page(name)


def quantity_text(amount: Decimal, like: str = "") -> str:
    """A sum of quantities as it is written, with the kind of suffix of another quantity."""
    if not amount or not like.endswith("i") or amount != amount.to_integral_value():
        # An exponent of 0 is written only by authors.
        has_exponent = re.search("[eE][-+0-9]", like) and (not amount % 1000 or amount % 1)
        exponent = "e0" if has_exponent else ""
        return canonical_quantity(f"{amount.normalize():f}{exponent}")
    place, whole = 0, int(amount)
    while whole % 1024 == 0 and place < len(_BINARY) - 1:
        whole, place = whole // 1024, place + 1
    return f"{whole}{_BINARY[place]}"


def validate_amounts(amounts: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the capacity or the allocatable of a node."""
    return [error for name in sorted(amounts) for error in validate_amount(name, amounts[name], f"{path}.{name}")]


def validate_amount(name: str, text: Any, path: str) -> list[FieldError]:
    """What is wrong with an amount of a resource."""
    quantity, errors = parse_quantity(text), []
    if quantity < 0:
        errors.append(FieldError.invalid(path, str(text), "must be greater than or equal to 0"))
    if (name in _COUNTED_RESOURCES or is_extended_resource(name)) and math.ceil(quantity * 1000) % 1000:
        errors.append(FieldError.invalid(path, str(text), "must be an integer"))
    return errors


def validate_requirements(
    rules: PodRules,
    resources: Fields,
    claims: frozenset[str],
    path: str,
    check_name: Callable[[str, str, Version], list[FieldError]] | None = None,
) -> list[FieldError]:
    """What is wrong with ``resources``, whose quantities have been read.

    Args:
        rules: of the pod.
        resources: of a container or a pod.
        claims: the names of the pod's claims.
        path: of the resources.
        check_name: of a resource; of a container's by default.
    """
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    check = check_name or validate_container_resource
    errors = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name in sorted(amounts):
            place = f"{path}.{kind}[{name}]"
            errors += [*check(name, place, rules.release), *validate_amount(name, amounts[name], place)]
            if kind == "requests":
                errors += _compare(rules, name, requests[name], limits.get(name), path)
            if is_huge_page(name) and not _is_divisible(name, amounts[name]):
                text = f"{amounts[name]} is not positive integer multiple of {name}"
                errors.append(FieldError.invalid(place, str(amounts[name]), text))
    names = {*limits, *requests}
    if any(map(is_huge_page, names)) and not names & {"cpu", "memory"}:
        errors.append(FieldError.forbidden(path, "HugePages require cpu or memory"))
    return errors + _validate_claim_uses(resources.get("claims") or (), claims, f"{path}.claims")


def _is_divisible(name: str, amount: Any) -> bool:
    try:
        size = parse_quantity(name.removeprefix(_HUGE_PAGES))
    except InputError:
        return False
    if size <= 0 or math.ceil(size * 1000) % 1000:
        return False
    return math.ceil(parse_quantity(amount)) % math.ceil(size) == 0


def validate_container_resource(name: str, path: str, release: Version) -> list[FieldError]:
    """What is wrong with the name of a resource of a container."""
    errors = _validate_name(name, path, release)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not is_huge_page(name):
            errors.append(FieldError.invalid(path, name, "must be a standard resource for containers"))
    elif _NATIVE not in name and not is_extended_resource(name):
        errors.append(FieldError.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _validate_pod_resource(name: str, path: str, release: Version) -> list[FieldError]:
    errors = _validate_name(name, path, release)
    if errors or is_of_whole_pods(name):
        return errors
    return [FieldError.not_supported(path, name, _OF_PODS)]


def _validate_name(name: str, path: str, release: Version) -> list[FieldError]:
    if faults := is_qualified_name(name, release):
        return refused(name, path, faults)
    is_standard = name in _STANDARD_RESOURCES or is_huge_page(name) or name.startswith("requests.hugepages-")
    if "/" not in name and not is_standard:
        return [FieldError.invalid(path, name, "must be a standard resource type or fully qualified")]
    return []


def _compare(rules: PodRules, name: str, request: Any, limit: Any, path: str) -> list[FieldError]:
    may_differ = may_overcommit(name)
    if limit is None:
        text = "Limit must be set for non overcommitable resources"
        return [] if may_differ else [FieldError.required(f"{path}.limits", text)]
    asked, most = parse_quantity(request), parse_quantity(limit)
    if asked == most or (may_differ and asked < most):
        return []
    rule = "must be less than or equal to" if may_differ else "must be equal to"
    shown = f" of {limit}" if rules.of(_SHOWS_LIMIT) else ""
    return [FieldError.invalid(f"{path}.requests", str(request), f"{rule} {name} limit{shown}")]


# Claims


def claim_names(spec: Fields) -> frozenset[str]:
    """The names by which containers use a pod's claims."""
    return frozenset(claim.get("name") or "" for claim in spec.get("resourceClaims") or ()) - {""}


def validate_claims(claims: Sequence[Fields], release: Version, path: str, *, is_mirror: bool) -> list[FieldError]:
    """What is wrong with a pod's ``resourceClaims``; the mirror of a static pod has none."""
    errors: list[FieldError] = []
    known: set[str] = set()
    for place, claim in enumerate(claims):
        where, name = f"{path}[{place}]", claim.get("name") or ""
        if is_mirror:
            errors.append(FieldError.forbidden("", "static pods do not support resource claims"))
            continue
        if not name:
            errors.append(FieldError.required(f"{where}.name"))
        elif name in known:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        else:
            errors += refused(name, f"{where}.name", is_dns_label(name))
            known.add(name)
        sources = [source for source in ("resourceClaimName", "resourceClaimTemplateName") if source in claim]
        if len(sources) != 1:
            shown = internal("PodResourceClaim", dict(claim), release)
            errors.append(FieldError.invalid(where, shown, _TWO_SOURCES if sources else _NO_SOURCE))
        for source in sources:
            errors += refused(claim[source], f"{where}.{source}", is_dns_subdomain(claim[source]))
    return errors


def _validate_claim_uses(uses: Sequence[Fields], claims: frozenset[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    known: set[str] = set()
    # Claim -> how many of `known` are requests of it.
    requests: Counter[str] = Counter()
    for place, use in enumerate(uses):
        where, name, request = f"{path}[{place}]", use.get("name") or "", use.get("request") or ""
        if not name:
            errors.append(FieldError.required(where))
            continue
        if name in known:
            errors.append(FieldError.duplicate(where, name))
        else:
            key = f"{name}/{request}" if request else name
            errors += refused(request, f"{where}.request", is_dns_label(request)) if request else []
            if key in known:
                errors.append(FieldError.duplicate(where, key))
            else:
                errors += [] if request else [FieldError.duplicate(where, name)] * requests[name]
                claim, is_request, _ = key.partition("/")
                requests[claim] += bool(is_request)
            known.add(key)
        if name not in claims:
            errors.append(FieldError("FieldValueNotFound", where, name, _no_claim(claims)))
    return errors


@lru_cache(maxsize=1)
def _no_claim(claims: frozenset[str]) -> str:
    """The detail of all errors about a pod's claims, which is as long as the names of all of them."""
    return f"{_NO_CLAIM}: {', '.join(sorted(claims))}" if claims else f"{_NO_CLAIM} which is empty"


# Whole pods


def aggregated(spec: Fields, kind: str) -> dict[str, tuple[Decimal, str]]:
    """What a pod's containers ask for together: resource -> amount, and a quantity with its kind of suffix.

    Args:
        spec: of the pod.
        kind: ``requests`` or ``limits``.
    """
    sums: dict[str, tuple[Decimal, str]] = {}
    sidecars: dict[str, tuple[Decimal, str]] = {}
    most: dict[str, tuple[Decimal, str]] = {}
    for container in spec.get("containers") or ():
        _add(sums, _amounts(container, kind))
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(sums, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _raise(most, amounts)
    _raise(sums, most)
    return sums


def _amounts(container: Fields, kind: str) -> dict[str, tuple[Decimal, str]]:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return {name: (parse_quantity(text), str(text)) for name, text in amounts.items()}


def _add(sums: dict[str, tuple[Decimal, str]], amounts: Mapping[str, tuple[Decimal, str]]) -> None:
    for name, (amount, text) in amounts.items():
        before, like = sums.get(name, (Decimal(0), text))
        sums[name] = (before + amount, like if before else text)


def _raise(sums: dict[str, tuple[Decimal, str]], amounts: Mapping[str, tuple[Decimal, str]]) -> None:
    for name, (amount, text) in amounts.items():
        if name not in sums or amount > sums[name][0]:
            sums[name] = (amount, text)


def validate_pod_resources(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with the ``resources`` of a whole pod; `path` is that of the spec."""
    resources = spec.get("resources")
    if resources is None or not rules.allows("PodLevelResources"):
        return []
    where = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [FieldError.forbidden(where, "may not be set for a windows pod")]
    errors = []
    if resources.get("claims") is not None:
        text = "claims may not be set for Resources at pod-level"
        errors.append(FieldError.forbidden(f"{where}.claims", text))
    errors += validate_requirements(rules, resources, claim_names(spec), where, _validate_pod_resource)
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors += _covers(requests, aggregated(spec, "requests"), f"{where}.requests", "requests")
    pages = {name: sum_ for name, sum_ in aggregated(spec, "limits").items() if is_huge_page(name)}
    errors += _covers(limits, pages, f"{where}.limits", "limits")
    for place, container in enumerate(spec.get("containers") or ()):
        for name, text in sorted(((container.get("resources") or {}).get("limits") or {}).items()):
            if name in limits and parse_quantity(text) > parse_quantity(limits[name]):
                rule = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(FieldError.invalid(f"{where}.containers[{place}][{name}].limits", str(text), rule))
    return errors


def _covers(amounts: Fields, sums: Mapping[str, tuple[Decimal, str]], path: str, kind: str) -> list[FieldError]:
    return [
        FieldError.invalid(
            f"{path}[{name}]",
            str(amounts[name]),
            f"must be greater than or equal to aggregate container {kind} of {quantity_text(amount, like)}",
        )
        for name, (amount, like) in sorted(sums.items())
        if name in amounts and amount > parse_quantity(amounts[name])
    ]
