"""Rules that many fields of pods share: words, numbers, paths, ports, names of variables and keys.

Each function returns what is wrong, in the order in which the API server says it.

Source: apimachinery/pkg/util/validation/validation.go, ip.go (v0.34.4); pkg/apis/core/validation/validation.go,
``validateLocalDescendingPath``, ``ValidateLocalNonReservedPath``, ``IsValidIPForLegacyField`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from ....model.version import Difference, Version
from ...api.errors import FieldError
from ...api.registry.names import explained
from ..rules import Rules

__all__ = [
    "Fields",
    "PodRules",
    "among",
    "check_file_mode",
    "check_path_steps",
    "check_relative_path",
    "check_unreserved_path",
    "choose",
    "cidr_errors",
    "cidr_version",
    "containers_of",
    "duplicate_errors",
    "id_faults",
    "in_range",
    "ip_errors",
    "ip_version",
    "is_config_key",
    "is_http_header",
    "is_port_name",
    "is_strict_variable_name",
    "is_variable_name",
    "non_negative",
    "port_errors",
    "refused",
    "required",
    "variable_name_faults",
]

Fields: TypeAlias = Mapping[str, Any]
T = TypeVar("T")

_MAX_PORT: Final = 65535
_MAX_INT32: Final = 2**31 - 1
_FILE_MODE: Final = 0o777
_MODE_RULE: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_NO_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_MAPPED: Final = "must not be an IPv4-mapped IPv6 address"
_STRICT_IPS: Final = "StrictIPCIDRValidation"
_NAMES_DUPLICATES: Final = Difference(
    "the API server names the addresses and ranges of pods and nodes that are there twice",
    {"1.26": True, "1.33": False},
    "pkg/apis/core/validation/validation.go, ``validatePodIPs``, ``validateHostIPs``, ``ValidateNode`` "
    "(kubernetes v1.32.13, v1.33.13)",
)
_NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_DIGITS: Final = re.compile("[0-9]{1,9}")
_RELAXED_NAMES: Final = "RelaxedEnvironmentVariableValidation"
_VARIABLE_RULE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)
_STRICT_VARIABLE_RULE: Final = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not "
    "start with a digit"
)
_CONFIG_KEY_RULE: Final = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_HEADER_RULE: Final = "a valid HTTP header must consist of alphanumeric characters or '-'"


@dataclass(frozen=True, slots=True)
class PodRules:
    """What decides how a pod's spec is checked.

    Attributes:
        rules: of the server.
        is_template: the spec is that of a template of pods.
    """

    rules: Rules
    is_template: bool = False

    def allows(self, gate: str) -> bool:
        """Whether a gate is on."""
        return gate in self.rules.gates

    @property
    def release(self) -> Version:
        return self.rules.release

    def of(self, difference: Difference[T]) -> T:
        """What a difference between releases is here."""
        return self.rules.of(difference)


def containers_of(spec: Fields, path: str) -> Iterator[tuple[Fields, str]]:
    """All containers of a spec with their paths, in the order in which the API server visits them."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for place, container in enumerate(spec.get(kind) or ()):
            yield container, f"{path}.{kind}[{place}]"


def refused(value: object, path: str, faults: Sequence[str]) -> list[FieldError]:
    """An error for each fault of a value."""
    return [FieldError.invalid(path, value, fault) for fault in faults]


def required(fields: Fields, name: str, path: str) -> list[FieldError]:
    """What is wrong with a field that may not be empty."""
    return [] if fields.get(name) else [FieldError.required(f"{path}.{name}")]


def choose(value: Any, choices: Sequence[str], path: str) -> list[FieldError]:
    """What is wrong with a field that has one of some words."""
    if not value:
        return [FieldError.required(path)]
    return [] if value in choices else [FieldError.not_supported(path, value, choices)]


def among(value: Any, choices: Sequence[str], path: str) -> list[FieldError]:
    """What is wrong with a field that may be left out, and else has one of some words."""
    return [] if value is None or value in choices else [FieldError.not_supported(path, value, choices)]


def in_range(value: int | None, least: int, most: int, path: str) -> list[FieldError]:
    """What is wrong with a number that may be left out."""
    if value is None or least <= value <= most:
        return []
    return [FieldError.invalid(path, value, f"must be between {least} and {most}, inclusive")]


def non_negative(value: int | None, path: str) -> list[FieldError]:
    """What is wrong with a number that is not below zero."""
    return [FieldError.invalid(path, value, "must be greater than or equal to 0")] if (value or 0) < 0 else []


def id_faults(fields: Fields, name: str, path: str) -> list[FieldError]:
    """What is wrong with the id of a user or a group."""
    return in_range(fields.get(name), 0, _MAX_INT32, f"{path}.{name}")


def check_file_mode(fields: Fields, name: str, path: str) -> list[FieldError]:
    """What is wrong with the permission bits of a file."""
    mode = fields.get(name)
    if mode is None or 0 <= mode <= _FILE_MODE:
        return []
    return [FieldError.invalid(f"{path}.{name}", mode, _MODE_RULE)]


def check_path_steps(text: str, path: str) -> list[FieldError]:
    """Refuse a path that goes up."""
    return [FieldError.invalid(path, text, "must not contain '..'")] if ".." in text.split("/") else []


def check_relative_path(text: str, path: str) -> list[FieldError]:
    """Refuse a path that goes up or begins at the root."""
    absolute = [FieldError.invalid(path, text, "must be a relative path")] if text.startswith("/") else []
    return absolute + check_path_steps(text, path)


def check_unreserved_path(text: str, path: str) -> list[FieldError]:
    """The same, and names that begin with two dots are the kubelet's."""
    errors = check_relative_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(FieldError.invalid(path, text, "must not start with '..'"))
    return errors


def port_errors(port: int | str | None, path: str) -> list[FieldError]:
    """What is wrong with a port, by number or by name."""
    if isinstance(port, str):
        return refused(port, path, is_port_name(port))
    return in_range(port or 0, 1, _MAX_PORT, path)


def is_port_name(name: str) -> list[str]:
    """What keeps a text from being the name of a port."""
    rules = {
        "must be no more than 15 characters": len(name.encode()) <= 15,
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)": re.fullmatch("[-a-z0-9]+", name),
        "must contain at least one letter (a-z)": re.search("[a-z]", name),
        "must not contain consecutive hyphens": "--" not in name,
        "must not begin or end with a hyphen": not (name.startswith("-") or name.endswith("-")),
    }
    return [text for text, is_kept in rules.items() if not is_kept]


def variable_name_faults(rules: PodRules, name: str) -> list[str]:
    """What keeps a text from being the name of a variable of the environment."""
    return is_variable_name(name) if rules.allows(_RELAXED_NAMES) else is_strict_variable_name(name)


def is_variable_name(name: str) -> list[str]:
    """What keeps a text from being the name of a variable by the newer rule."""
    faults = [] if name else ["environment variable name must be non-empty"]
    return faults + ([] if re.fullmatch("[ -<>-~]*", name) else [_VARIABLE_RULE])


def is_strict_variable_name(name: str) -> list[str]:
    """What keeps a text from being the name of a variable by the older rule."""
    pattern = "[-._a-zA-Z][-._a-zA-Z0-9]*"
    faults = []
    if not re.fullmatch(pattern, name):
        faults.append(explained(_STRICT_VARIABLE_RULE, pattern, "my.env-name", "MY_ENV.NAME", "MyEnvName1"))
    return faults + _folder_faults(name)


def is_config_key(key: str) -> list[str]:
    """What keeps a text from being a key of a ConfigMap or a Secret."""
    pattern = "[-._a-zA-Z0-9]+"
    faults = ["must be no more than 253 characters"] if len(key.encode()) > 253 else []
    if not re.fullmatch(pattern, key):
        faults.append(explained(_CONFIG_KEY_RULE, pattern, "key.name", "KEY_NAME", "key-name"))
    return faults + _folder_faults(key)


def _folder_faults(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"must not be '{name}'"]
    return ["must not start with '..'"] if name.startswith("..") else []


def is_http_header(name: str) -> list[str]:
    """What keeps a text from being the name of a header."""
    pattern = "[-A-Za-z0-9]+"
    return [] if re.fullmatch(pattern, name) else [explained(_HEADER_RULE, pattern, "X-Header-Name")]


def ip_errors(rules: PodRules, text: str, path: str, known: Collection[str] = ()) -> list[FieldError]:
    """What is wrong with an address; one that the old object has is not looked at."""
    if text in known:
        return []
    address = _address(text)
    if address is None:
        return [FieldError.invalid(path, text, _NO_IP)]
    if not rules.allows(_STRICT_IPS):
        return []
    errors = [] if _without_zeros(text) == text else [FieldError.invalid(path, text, "must not have leading 0s")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        errors.append(FieldError.invalid(path, text, _MAPPED))
    return errors


def cidr_errors(rules: PodRules, text: str, path: str) -> list[FieldError]:
    """What is wrong with a range of addresses.

    Source: apimachinery/pkg/util/validation/ip.go, ``parseCIDR`` (v0.34.4, v0.36.5).
    """
    network = _network(text)
    if network is None:
        return [FieldError.invalid(path, text, _NO_CIDR)]
    if not rules.allows(_STRICT_IPS):
        return []
    address, _, length = text.partition("/")
    if _without_zeros(address) != address or str(int(length)) != length:
        return [FieldError.invalid(path, text, "must not have leading 0s in IP or prefix length")]
    if isinstance(network.ip, ipaddress.IPv6Address) and network.ip.ipv4_mapped is not None:
        return [FieldError.invalid(path, text, "must not have an IPv4-mapped IPv6 address")]
    if network.ip != network.network.network_address:
        return [FieldError.invalid(path, text, "must not have bits set beyond the prefix length")]
    return []


def duplicate_errors(rules: PodRules, texts: Sequence[str], path: str) -> list[FieldError]:
    """An error for each address or range of a list that is in it before, where a release names these."""
    errors: list[FieldError] = []
    known: set[str] = set()
    for place, text in enumerate(texts if rules.of(_NAMES_DUPLICATES) else ()):
        errors += [FieldError.duplicate(f"{path}[{place}]", text)] if text in known else []
        known.add(text)
    return errors


def cidr_version(text: str) -> int | None:
    """The version of IP of a range of addresses; None for what is none."""
    return None if _network(text) is None else ip_version(text.partition("/")[0])


def _network(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    address, _, length = text.partition("/")
    try:
        return ipaddress.ip_interface(f"{_without_zeros(address)}/{int(length)}") if _DIGITS.fullmatch(length) else None
    except ValueError:
        return None


def ip_version(text: str) -> int | None:
    """The version of IP of an address, 4 for one of it that is written as one of 6; None for what is no address."""
    address = _address(text)
    if address is None:
        return None
    return 4 if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else address.version


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(_without_zeros(text))
    except ValueError:
        return None


def _without_zeros(text: str) -> str:
    """An address without zeros before its decimal numbers, which Go's older reader skips; one with a zone is none."""
    if "%" in text:
        return ""
    return re.sub(r"(?<![0-9A-Fa-f:.])0+(?=[0-9]+\.)|(?<=[.:])0+(?=[0-9]+(\.|$))", "", text) if "." in text else text
