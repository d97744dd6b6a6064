"""What an API server refuses in the status of a pod.

Source: pkg/apis/core/validation/validation.go, ``ValidatePodStatusUpdate`` and what it calls; pkg/registry/core/pod/
strategy.go, ``podStatusStrategy`` (kubernetes v1.34.4, v1.35.4, v1.36.3, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from ....model.pod import RestartPolicy
from ....model.version import Difference, Version
from ...api.errors import FieldError
from ...api.registry.names import is_dns_subdomain, is_qualified_name
from ...objects.objects import JSON
from ...objects.pod_json import KEEPS_CLASS_OF_REJECTED
from .checks import Fields, PodRules, choose, duplicate_errors, in_range, ip_errors, ip_version, refused
from .gates import RESTART_RULES
from .network import NAMES_PLACE

__all__ = ["keep_generations", "validate_status"]

_STATUSES: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}
_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_IMMUTABLE: Final = "field is immutable"
_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_MAX_INT32: Final = 2**31 - 1
_MAX_UINT32: Final = 2**32 - 1
_NOT_NEGATIVE: Final = "must be a non-negative integer"
_TWO_IPS: Final = "may specify no more than one IP for each IP family"
_RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
_VALIDATION: Final = "pkg/apis/core/validation/validation.go, {} (kubernetes v1.34.4 to v1.37.0)"
_MAY_NOT_NOMINATE: Final = Difference(
    "a pod that has a node may not be nominated for one",
    {"1.26": False, "1.35": True},
    _VALIDATION.format("``ValidatePodStatusUpdate``"),
)
_CLAIM_PATH: Final = Difference(
    "the field that is shown for a wrong name of a claim in a pod's status",
    {"1.26": "name", "1.36": "resourceClaimName"},
    _VALIDATION.format("``validatePodResourceClaimStatuses``"),
)
_INIT_RULES_COUNT: Final = Difference(
    "an init container that has ended may be started again by its own restart policy and rules",
    {"1.26": False, "1.35": True},
    _VALIDATION.format("``ValidateInitContainerStateTransition``"),
)
_CLAIM_RULE: Final = Difference(
    "the text about the status of a claim that a container does not use",
    {
        "1.26": (
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
            "'claim:<claimName>' if request is empty"
        ),
        "1.37": (
            "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when "
            "container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
        ),
    },
    _VALIDATION.format("``validateContainerStatusAllocatedResourcesStatus``"),
)
_MOST_UID: Final = Difference(
    "the highest id of a user in a container's status",
    {"1.26": _MAX_INT32, "1.37": _MAX_UINT32},
    _VALIDATION.format("``validateContainerStatusUsers``"),
)
_EXTENDED_COUNT: Final = Difference(
    "the status of a container may have the claim that serves its extended resources",
    {"1.26": False, "1.37": True},
    _VALIDATION.format("``matchesExtendedResourceClaimStatus``"),
)
_WHERE_CONDITIONS: Final = Difference(
    "the part of a pod that is named for a wrong condition of its status",
    {"1.26": "metadata", "1.33": "status"},
    "pkg/apis/core/validation/validation.go, ``ValidatePodStatusUpdate`` (kubernetes v1.32.13, v1.33.13)",
)
_USER_PATH: Final = Difference(
    "the path below a container's status of what is wrong with its user",
    {"1.26": "linux", "1.33": "user.linux"},
    "pkg/apis/core/validation/validation.go, ``validateContainerStatusUsers`` (kubernetes v1.32.13, v1.33.13)",
)
_NAMES_CLAIMS: Final = Difference(
    "the health of devices in a container's status may be that of claims",
    {"1.26": False, "1.32": True},
    "pkg/apis/core/validation/validation.go, ``validateContainerStatusAllocatedResourcesStatus`` "
    "(kubernetes v1.31.14, v1.32.13)",
)
_CLAIM: Final = "claim:"


def keep_generations(new: JSON, old: Fields) -> None:
    """Take over the generations that a status and its conditions have seen, where a writer leaves them out."""
    if not new.get("observedGeneration") and old.get("observedGeneration"):
        new["observedGeneration"] = old["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in old.get("conditions") or ():
        known.setdefault(condition.get("type") or "", []).append(condition.get("observedGeneration") or 0)
    for condition in new.get("conditions") or ():
        before = known.get(condition.get("type") or "") or [0]
        generation = before.pop(0)
        if not condition.get("observedGeneration") and generation:
            condition["observedGeneration"] = generation


def validate_status(rules: PodRules, new: Fields, old: Fields) -> list[FieldError]:
    """What is wrong with the status of a pod beside that which is stored; the specs are the same."""
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new["spec"]
    return [
        *_validate_conditions(
            status.get("conditions") or (), f"{rules.of(_WHERE_CONDITIONS)}.conditions", rules.release
        ),
        *_validate_nomination(rules, status, before, spec),
        *_validate_numbers(rules, status, before),
        *_validate_transitions(rules, status, before, spec),
        *_validate_claims(rules, status.get("resourceClaimStatuses") or (), spec),
        *_validate_addresses(rules, status, before, "podIPs"),
        *_validate_addresses(rules, status, before, "hostIPs"),
        *_validate_users(rules, status, spec),
        *_validate_devices(rules, status, spec),
    ]


def _validate_conditions(conditions: Sequence[Fields], path: str, release: Version) -> list[FieldError]:
    errors: list[FieldError] = []
    for place, condition in enumerate(conditions):
        kind, generation = condition.get("type") or "", condition.get("observedGeneration") or 0
        if generation < 0:
            errors.append(FieldError.invalid(f"{path}[{place}].observedGeneration", generation, _NOT_NEGATIVE))
        if kind not in _SYSTEM_CONDITIONS:
            errors += refused(kind, f"{path}[{place}].Type", is_qualified_name(kind, release))
    return errors


def _validate_nomination(rules: PodRules, status: Fields, before: Fields, spec: Fields) -> list[FieldError]:
    node, where = status.get("nominatedNodeName") or "", "status.nominatedNodeName"
    if not node or node == (before.get("nominatedNodeName") or ""):
        return []
    errors = refused(node, where, is_dns_subdomain(node))
    if spec.get("nodeName") and rules.of(_MAY_NOT_NOMINATE):
        errors.append(FieldError.forbidden(where, "may not be set on pods that are already bound to a node"))
    return errors


def _validate_numbers(rules: PodRules, status: Fields, before: Fields) -> list[FieldError]:
    errors, generation = [], status.get("observedGeneration") or 0
    if generation < 0:
        errors.append(FieldError.invalid("status.observedGeneration", generation, _NOT_NEGATIVE))
    is_changed = (status.get("qosClass") or "") != (before.get("qosClass") or "")
    if is_changed and rules.of(KEEPS_CLASS_OF_REJECTED):
        errors.append(FieldError.invalid("status.qosClass", status.get("qosClass") or "", _IMMUTABLE))
    return errors


def _validate_transitions(rules: PodRules, status: Fields, before: Fields, spec: Fields) -> list[FieldError]:
    """A container that has ended and is not to be started again stays ended."""
    errors: list[FieldError] = []
    for name, kind in _STATUSES.items():
        if _all_may_restart(rules, spec) and kind != "ephemeralContainers":
            continue
        containers = {each.get("name") or "": each for each in reversed(spec.get(kind) or ())}
        states = {each.get("name") or "": each.get("state") or {} for each in reversed(status.get(name) or ())}
        for place, one in enumerate(before.get(name) or ()):
            ended, state = (one.get("state") or {}).get("terminated"), states.get(one.get("name") or "")
            if ended is None or state is None or state.get("terminated") is not None:
                continue
            container = containers.get(one.get("name") or "")
            if not _restarts(rules, kind, container, spec, ended.get("exitCode") or 0):
                text = "may not be transitioned to non-terminated state"
                errors.append(FieldError.forbidden(f"status.{name}[{place}].state", text))
    return errors


def _all_may_restart(rules: PodRules, spec: Fields) -> bool:
    return (
        rules.allows(_RESTART_ALL)
        and rules.allows(RESTART_RULES)
        and any(
            rule.get("action") == "RestartAllContainers"
            for kind in ("containers", "initContainers")
            for container in spec.get(kind) or ()
            for rule in container.get("restartPolicyRules") or ()
        )
    )


def _restarts(rules: PodRules, kind: str, container: Fields | None, spec: Fields, code: int) -> bool:
    if kind == "ephemeralContainers":
        return False
    of_pod = RestartPolicy(spec["restartPolicy"])
    uses_own = rules.allows(RESTART_RULES) and (kind == "containers" or rules.of(_INIT_RULES_COUNT))
    if not uses_own:
        is_sidecar = kind == "initContainers" and (container or {}).get("restartPolicy") == "Always"
        return of_pod.restarts_after(code) or is_sidecar
    if container is None:
        return False
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        is_listed = code in (codes.get("values") or ())
        if codes and is_listed == (codes.get("operator") == "In") and rule.get("action") == "Restart":
            return True
    own = container.get("restartPolicy")
    return RestartPolicy(own).restarts_after(code) if own else of_pod.restarts_after(code)


def _validate_claims(rules: PodRules, statuses: Sequence[Fields], spec: Fields) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    known = {claim.get("name") or "" for claim in spec.get("resourceClaims") or ()}
    for place, each in enumerate(statuses):
        where, name, claim = (
            f"status.resourceClaimStatuses[{place}]",
            each.get("name") or "",
            each.get("resourceClaimName"),
        )
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(FieldError.invalid(f"{where}.name", name, text))
        if name in names:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        names.add(name)
        if claim is not None:
            errors += refused(claim, f"{where}.{rules.of(_CLAIM_PATH)}", is_dns_subdomain(claim))
    return errors


def _validate_addresses(rules: PodRules, status: Fields, before: Fields, name: str) -> list[FieldError]:
    found = [each.get("ip") or "" for each in status.get(name) or ()]
    known = {each.get("ip") or "" for each in before.get(name) or ()}
    path, errors = f"status.{name}", []
    if name == "hostIPs" and found and found[0] != (status.get("hostIP") or ""):
        errors.append(FieldError.invalid(f"{path}[0].ip", found[0], "must be equal to `hostIP`"))
    for place, address in enumerate(found):
        errors += ip_errors(rules, address, f"{path}[{place}]", known)
    if len(found) > 1:
        families = [ip_version(address) for address in found]
        if None in families:
            wrong = families.index(None)
            fault = f"invalid IP[{wrong}]: {found[wrong]}" if rules.of(NAMES_PLACE) else "ip <nil> is invalid"
            text = f"failed to check for dual stack with error:{fault}"
            errors.append(FieldError("InternalError", path, None, text))
        if len(found) > 2 or len({*families} - {None}) != 2:
            errors.append(FieldError.invalid(path, [{"IP": address} for address in found], _TWO_IPS))
        errors += duplicate_errors(rules, found, path)
    return errors


def _validate_users(rules: PodRules, status: Fields, spec: Fields) -> list[FieldError]:
    errors: list[FieldError] = []
    system = (spec.get("os") or {"name": "linux"}).get("name") or ""
    for name in _STATUSES:
        for place, each in enumerate(status.get(name) or ()):
            user, where = (each.get("user") or {}).get("linux"), f"status.{name}[{place}].{rules.of(_USER_PATH)}"
            if user is None or system not in ("linux", "windows"):
                continue
            if system == "windows":
                errors.append(FieldError.forbidden(where, "cannot be set for a windows pod"))
                continue
            errors += in_range(user.get("uid") or 0, 0, rules.of(_MOST_UID), f"{where}.uid")
            errors += in_range(user.get("gid") or 0, 0, _MAX_INT32, f"{where}.gid")
            for number, group in enumerate(user.get("supplementalGroups") or ()):
                errors += in_range(group, 0, _MAX_INT32, f"{where}.supplementalGroups[{number}]")
    return errors


def _validate_devices(rules: PodRules, status: Fields, spec: Fields) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, kind in _STATUSES.items():
        containers = {each.get("name") or "": each for each in reversed(spec.get(kind) or ())}
        used: dict[str, set[str]] = {}
        for place, each in enumerate(status.get(name) or ()):
            where, resources = f"status.{name}[{place}].allocatedResourcesStatus", each.get("allocatedResourcesStatus")
            if resources and kind == "ephemeralContainers":
                errors.append(FieldError.forbidden(where, "must not be specified in container status"))
                continue
            container = containers.get(each.get("name") or "")
            if resources and container is not None and container["name"] not in used:
                used[container["name"]] = _used(container, status, rules)
            of_container = None if container is None else used.get(container["name"])
            for number, resource in enumerate(resources or ()):
                errors += _validate_resource(rules, resource, of_container, f"{where}[{number}]")
    return errors


def _validate_resource(rules: PodRules, resource: Fields, used: Set[str] | None, path: str) -> list[FieldError]:
    """What is wrong with the health of a resource's devices; `used` are the names of its container, if there is one."""
    errors, name = [], resource.get("name") or ""
    if used is not None and name not in used:
        text = "must match one of the container's resource requests"
        if not rules.of(_NAMES_CLAIMS):
            text = "must match one of the container's resource requirements"
        elif name.startswith(_CLAIM):
            text = rules.of(_CLAIM_RULE)
        errors.append(FieldError.invalid(f"{path}.name", name, text))
    seen: set[str] = set()
    for index, device in enumerate(resource.get("resources") or ()):
        where, device_id = f"{path}.resources[{index}]", device.get("resourceID") or ""
        health = device.get("health") or ""
        errors += (
            choose(health, _HEALTHS, f"{where}.health")
            if health
            else [FieldError.not_supported(f"{where}.health", "", _HEALTHS)]
        )
        if device_id in seen:
            errors.append(FieldError.duplicate(f"{where}.resourceID", device_id))
        seen.add(device_id)
    return errors


def _used(container: Fields, status: Fields, rules: PodRules) -> set[str]:
    """The names by which the status of a container may have what it uses: of resources, and of claims."""
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    if not rules.of(_NAMES_CLAIMS):
        return set(requests)
    names = {name for name in requests if not name.startswith(_CLAIM)}
    for claim in resources.get("claims") or ():
        names.add(f"{_CLAIM}{claim.get('name') or ''}" + (f"/{claim['request']}" if claim.get("request") else ""))
    extended = status.get("extendedResourceClaimStatus") or {}
    if rules.of(_EXTENDED_COUNT) and extended.get("resourceClaimName"):
        for mapping in extended.get("requestMappings") or ():
            is_own = mapping.get("containerName") == container.get("name") and mapping.get("requestName")
            if is_own and str(requests.get(mapping.get("resourceName"), "0")) != "0":
                names.add(f"{_CLAIM}{extended['resourceClaimName']}/{mapping['requestName']}")
    return names
