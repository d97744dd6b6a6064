"""What an API server refuses in a pod's names, its DNS settings and the ports of its node.

Source: pkg/apis/core/validation/validation.go, ``validatePodDNSConfig``, ``ValidateHostAliases``,
``validatePodHostName``, ``validatePodHostNetworkDeps`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_dns_subdomain, is_dns_subdomain_with_underscores
from .checks import Fields, PodRules, choose, ip_errors, refused

__all__ = [
    "EXPLAINS_IPS",
    "NAMES_PLACE",
    "RELAXED_SEARCHES",
    "validate_dns",
    "validate_host_aliases",
    "validate_host_name",
    "validate_host_ports",
]

RELAXED_SEARCHES: Final = "RelaxedDNSSearchValidation"
EXPLAINS_IPS: Final = Difference(
    "texts about wrong addresses of a pod's spec and ranges of nodes give examples, and their paths count host aliases",
    {"1.26": False, "1.30": True},
    "pkg/apis/core/validation/validation.go, ``ValidateHostAliases``, ``validatePodDNSConfig``, ``ValidateNode`` "
    "(kubernetes v1.29.6, v1.30.14)",
)
NAMES_PLACE: Final = Difference(
    "the text about the families of addresses and ranges says which of them is none",
    {"1.26": False, "1.27": True},
    "k8s.io/utils/net/net.go, ``ParseCIDRs``, ``IsDualStackIPs`` (as required by kubernetes v1.26.15, v1.27.16)",
)
_WRONG_PORT: Final = Difference(
    "which port is wrong where a container of its node's network has two of them",
    {"1.26": ("containerPort", "hostPort"), "1.28": ("hostPort", "containerPort")},
    "pkg/apis/core/validation/validation.go, ``validateHostNetwork`` (kubernetes v1.27.16, v1.28.15)",
)
_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SERVERS_AT_MOST: Final = 3
_SEARCHES_AT_MOST: Final = 32
_CHARACTERS_AT_MOST: Final = 2048
_NAME_AT_MOST: Final = 64


def validate_dns(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with ``dnsPolicy`` and ``dnsConfig``; `path` is that of the spec."""
    policy, config, where = spec.get("dnsPolicy"), spec.get("dnsConfig"), f"{path}.dnsConfig"
    errors = choose(policy, _POLICIES, f"{path}.dnsPolicy")
    if policy == "None" and config is None:
        return [*errors, FieldError.required(where, "must provide `dnsConfig` when `dnsPolicy` is None")]
    servers, searches = ((config or {}).get(name) or [] for name in ("nameservers", "searches"))
    if policy == "None" and not servers:
        text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [*errors, FieldError.required(f"{where}.nameservers", text)]
    if len(servers) > _SERVERS_AT_MOST:
        text = f"must not have more than {_SERVERS_AT_MOST} nameservers"
        errors.append(FieldError.invalid(f"{where}.nameservers", servers, text))
    for place, server in enumerate(servers):
        errors += _ip_errors(rules, server, f"{where}.nameservers[{place}]")
    limits = {
        f"must not have more than {_SEARCHES_AT_MOST} search paths": len(searches) <= _SEARCHES_AT_MOST,
        f"must not have more than {_CHARACTERS_AT_MOST} characters (including spaces) in the search list": (
            len(" ".join(searches).encode()) <= _CHARACTERS_AT_MOST
        ),
    }
    errors += refused(searches, f"{where}.searches", [text for text, is_kept in limits.items() if not is_kept])
    for place, search in enumerate(searches):
        errors += _validate_search(rules, search, f"{where}.searches[{place}]")
    for place, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            errors.append(FieldError.required(f"{where}.options[{place}]", "must not be empty"))
    return errors


def _validate_search(rules: PodRules, search: str, path: str) -> list[FieldError]:
    plain = search.removesuffix(".")
    if not rules.allows(RELAXED_SEARCHES):
        return refused(plain, path, is_dns_subdomain(plain))
    return [] if search == "." else refused(plain, path, is_dns_subdomain_with_underscores(plain, rules.release))


def _ip_errors(rules: PodRules, address: str, path: str) -> list[FieldError]:
    errors = ip_errors(rules, address, path)
    return errors if rules.of(EXPLAINS_IPS) else refused(address, path, ["must be valid IP address"] * len(errors))


def validate_host_aliases(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with ``hostAliases``."""
    errors: list[FieldError] = []
    for place, alias in enumerate(spec.get("hostAliases") or ()):
        is_counted = rules.of(EXPLAINS_IPS)
        where = f"{path}.hostAliases[{place}]" if is_counted else f"{path}.hostAliases"
        errors += _ip_errors(rules, alias.get("ip") or "", f"{where}.ip")
        for number, name in enumerate(alias.get("hostnames") or ()):
            at = f"{where}.hostnames[{number}]" if is_counted else f"{where}.hostnames"
            errors += refused(name, at, is_dns_subdomain(name))
    return errors


def validate_host_name(spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with ``hostnameOverride``."""
    name, where = spec.get("hostnameOverride"), f"{path}.hostnameOverride"
    if name is None:
        return []
    errors = [
        FieldError.forbidden(where, f"may not be specified when {other} is true")
        for other in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(other)
    ]
    if len(name.encode()) > _NAME_AT_MOST:
        errors.append(FieldError.too_long(where, _NAME_AT_MOST))
    return errors + refused(name, where, is_dns_subdomain(name))


def validate_host_ports(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """Refuse ports of the node that are not those of the containers, where both are the same network."""
    errors: list[FieldError] = []
    if not spec.get("hostNetwork"):
        return errors
    for place, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort") or 0
            if host_port != (port.get("containerPort") or 0) and (host_port or not rules.is_template):
                wrong, other = rules.of(_WRONG_PORT)
                where = f"{path}.containers[{place}].ports[{number}].{wrong}"
                text = f"must match `{other}` when `hostNetwork` is true"
                errors.append(FieldError.invalid(where, port.get(wrong) or 0, text))
    return errors
