"""What an API server refuses in the containers of a pod and in quantities of resources, and how it writes quantities.

The gate ContainerRestartRules is on.

Source: pkg/apis/core/validation/validation.go, ``validateContainers``, ``validateInitContainers``,
``validateContainerCommon``, ``validateResourceRequirements``, ``ValidateResourceQuantityValue`` (kubernetes v1.34.4);
apimachinery/pkg/api/resource/quantity.go, ``ErrFormatWrong`` (v0.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...model.errors import InputError
from ...model.resources import canonical_quantity, is_extended_resource, parse_quantity
from ..api.errors import FieldError, StatusError
from ..api.registry.names import is_dns_label, is_qualified_name

__all__ = [
    "canonical_amounts",
    "choose",
    "validate_amounts",
    "validate_containers",
    "validate_init_containers",
]

_Container: TypeAlias = Mapping[str, Any]

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PORT_RULE: Final = "must be between 1 and 65535, inclusive"
_VARIABLE_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_HOOKS: Final = ("postStart", "preStop")
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_OF_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_RULES_AT_MOST: Final = 20
_MAX_PORT: Final = 65535
_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_OF_CONTAINERS: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD_RESOURCES: Final = _OF_CONTAINERS | {
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
_COUNTED_RESOURCES: Final = frozenset({"pods"})
_HUGE_PAGES: Final = "hugepages-"


def validate_containers(containers: Sequence[_Container], volumes: Collection[str], path: str) -> list[FieldError]:
    """What is wrong with ``containers``; `volumes` are the names of the pod's."""
    if not containers:
        return [FieldError.required(path)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for place, container in enumerate(containers):
        where = f"{path}[{place}]"
        errors += _validate_common(container, volumes, where)
        name = container.get("name") or ""
        if name in names:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        names.add(name)
        errors += _validate_restart_policy(container, where)
    return errors + _host_port_conflicts(containers, path)


def validate_init_containers(
    containers: Sequence[_Container], others: Sequence[_Container], volumes: Collection[str], path: str
) -> list[FieldError]:
    """What is wrong with ``initContainers``; `others` are the pod's ``containers``."""
    errors: list[FieldError] = []
    names = {container.get("name") or "" for container in others}
    for place, container in enumerate(containers):
        where = f"{path}[{place}]"
        errors += _validate_common(container, volumes, where)
        is_sidecar = container.get("restartPolicy") == "Always"
        if is_sidecar and container.get("restartPolicyRules"):
            text = "restartPolicyRules are not allowed for init containers with restart policy Always"
            errors.append(FieldError.forbidden(f"{where}.restartPolicyRules", text))
        elif container.get("restartPolicy") is not None:
            errors += _validate_restart_policy(container, where)
        name = container.get("name") or ""
        if name in names:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        elif name:
            names.add(name)
        if not is_sidecar:
            text = "may not be set for init containers without restartPolicy=Always"
            given = (field for field in _OF_SIDECARS if container.get(field) is not None)
            errors += [FieldError.forbidden(f"{where}.{field}", text) for field in given]
    return errors


def choose(value: Any, choices: Sequence[str], path: str) -> list[FieldError]:
    """What is wrong with a field that has one of some words."""
    if not value:
        return [FieldError.required(path)]
    return [] if value in choices else [FieldError.not_supported(path, value, choices)]


def validate_amounts(amounts: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with the capacity or the allocatable of a node."""
    return [error for name in sorted(amounts) for error in _validate_amount(name, amounts[name], f"{path}.{name}")]


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
        raise StatusError.bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: {_QUANTITY_RULE}'
        ) from None


def _validate_common(container: _Container, volumes: Collection[str], path: str) -> list[FieldError]:
    name, image = container.get("name") or "", container.get("image") or ""
    errors = [FieldError.invalid(f"{path}.name", name, fault) for fault in is_dns_label(name)]
    if not name:
        errors = [FieldError.required(f"{path}.name")]
    if not image:
        errors.append(FieldError.required(f"{path}.image"))
    errors += choose(container.get("terminationMessagePolicy"), _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    errors += _validate_ports(container.get("ports") or (), f"{path}.ports")
    errors += _validate_env(container.get("env") or (), f"{path}.env")
    errors += _validate_mounts(container.get("volumeMounts") or (), volumes, f"{path}.volumeMounts")
    for name, handler in (container.get("lifecycle") or {}).items():
        if name in _HOOKS:
            errors += _validate_handler(handler, f"{path}.lifecycle.{name}")
    errors += choose(container.get("imagePullPolicy"), _PULL_POLICIES, f"{path}.imagePullPolicy")
    return errors + _validate_requirements(container.get("resources") or {}, f"{path}.resources")


def _validate_handler(handler: Mapping[str, Any], path: str) -> list[FieldError]:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        return [FieldError.required(path, "must specify a handler type")]
    return [FieldError.forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in given[1:]]


def _validate_ports(ports: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors, names = [], set()
    for place, port in enumerate(ports):
        where = f"{path}[{place}]"
        if name := port.get("name"):
            faults = _port_name_faults(name)
            errors += [FieldError.invalid(f"{where}.name", name, fault) for fault in faults]
            if not faults and name in names:
                errors.append(FieldError.duplicate(f"{where}.name", name))
            names.add(name)
        if not port.get("containerPort"):
            errors.append(FieldError.required(f"{where}.containerPort"))
        for field in ("containerPort", "hostPort"):
            if port.get(field) and not 1 <= port[field] <= _MAX_PORT:
                errors.append(FieldError.invalid(f"{where}.{field}", port[field], _PORT_RULE))
        errors += choose(port.get("protocol"), _PROTOCOLS, f"{where}.protocol")
    return errors


def _port_name_faults(name: str) -> list[str]:
    rules = {
        "must be no more than 15 characters": len(name) <= 15,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": re.fullmatch("[-a-z0-9]*", name),
        "must contain at least one letter (a-z)": re.search("[a-z]", name),
        "must not contain consecutive hyphens": "--" not in name,
        "must not begin or end with a hyphen": not (name.startswith("-") or name.endswith("-")),
    }
    return [text for text, is_kept in rules.items() if not is_kept]


def _host_port_conflicts(containers: Sequence[_Container], path: str) -> list[FieldError]:
    errors, taken = [], set()
    for place, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if text in taken:
                    errors.append(FieldError.duplicate(f"{path}[{place}].ports[{number}].hostPort", text))
                taken.add(text)
    return errors


def _validate_env(variables: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors = []
    for place, variable in enumerate(variables):
        where, name = f"{path}[{place}]", variable.get("name") or ""
        if not name:
            errors.append(FieldError.required(f"{where}.name"))
        elif not (name.isascii() and name.isprintable()) or "=" in name:
            errors.append(FieldError.invalid(f"{where}.name", name, _VARIABLE_RULE))
        if variable.get("valueFrom") is not None and variable.get("value"):
            text = "may not be specified when `value` is not empty"
            errors.append(FieldError.invalid(f"{where}.valueFrom", "", text))
    return errors


def _validate_mounts(mounts: Sequence[Mapping[str, Any]], volumes: Collection[str], path: str) -> list[FieldError]:
    errors, places, volumes = [], set(), set(volumes)
    for number, mount in enumerate(mounts):
        where, name, place = f"{path}[{number}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(FieldError.required(f"{where}.name"))
        if name not in volumes:
            errors.append(FieldError.not_found(f"{where}.name", name))
        if not place:
            errors.append(FieldError.required(f"{where}.mountPath"))
        if place in places:
            errors.append(FieldError.invalid(f"{where}.mountPath", place, "must be unique"))
        places.add(place)
    return errors


def _validate_restart_policy(container: _Container, path: str) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors = []
    if policy is None and rules:
        text = "must specify restartPolicy when restart rules are used"
        errors.append(FieldError.required(f"{path}.restartPolicy", text))
    elif policy is not None and policy not in _RESTART_POLICIES:
        errors.append(FieldError.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > _RULES_AT_MOST:
        errors.append(FieldError.too_long(f"{path}.restartPolicyRules", _RULES_AT_MOST))
    for place, rule in enumerate(rules):
        where, codes = f"{path}.restartPolicyRules[{place}]", rule.get("exitCodes")
        if rule.get("action") != "Restart":
            errors.append(FieldError.not_supported(f"{where}.action", rule.get("action") or "", ["Restart"]))
        if codes is None:
            errors.append(FieldError.required(f"{where}.exitCodes", "must be specified"))
        elif codes.get("operator") not in ("In", "NotIn"):
            operator = codes.get("operator") or ""
            errors.append(FieldError.not_supported(f"{where}.exitCodes.operator", operator, ["In", "NotIn"]))
    return errors


def _validate_requirements(resources: Mapping[str, Any], path: str) -> list[FieldError]:
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


def _validate_name(name: str, path: str) -> list[FieldError]:
    errors = [FieldError.invalid(path, name, fault) for fault in is_qualified_name(name)]
    is_huge_page = name.startswith(_HUGE_PAGES)
    if "/" not in name:
        if not errors and name not in _STANDARD_RESOURCES and not is_huge_page:
            errors.append(FieldError.invalid(path, name, "must be a standard resource type or fully qualified"))
        if name not in _OF_CONTAINERS and not is_huge_page:
            errors.append(FieldError.invalid(path, name, "must be a standard resource for containers"))
    elif "kubernetes.io/" not in name and not is_extended_resource(name):
        errors.append(FieldError.invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def _validate_amount(name: str, text: Any, path: str) -> list[FieldError]:
    quantity, errors = parse_quantity(text), []
    if quantity < 0:
        errors.append(FieldError.invalid(path, str(text), "must be greater than or equal to 0"))
    if (name in _COUNTED_RESOURCES or is_extended_resource(name)) and quantity * 1000 % 1000:
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
