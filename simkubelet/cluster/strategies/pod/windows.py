"""What an API server refuses in pods for Windows, and in the options for Windows of others.

Source: pkg/apis/core/validation/validation.go, ``validateOS``, ``validateLinux``, ``validateWindows``,
``validateWindowsSecurityContextOptions``, ``validateWindowsHostProcessPod`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from typing import Final

from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_dns_subdomain
from .checks import Fields, PodRules, containers_of, refused

__all__ = ["validate_host_processes", "validate_system", "validate_windows_options"]

_SYSTEMS: Final = ("linux", "windows")
_NO_SYSTEM: Final = Difference(
    "the reason that the API server gives for refusing an `os` without a name",
    {"1.26": "cannot be empty", "1.34": ""},
    "pkg/apis/core/validation/validation.go, ``validateOS`` (kubernetes v1.33.13, v1.34.4)",
)
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_OF_PODS_SECURITY: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_OF_CONTAINERS_SECURITY: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_SPEC_AT_MOST_KIB: Final = 64
_DOMAIN_AT_MOST: Final = 256
_USER_AT_MOST: Final = 104
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")


def validate_system(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with ``os``, and what a pod may not have for its system."""
    if spec.get("os") is None:
        return []
    system = spec["os"].get("name") or ""
    if not system:
        return [FieldError.required(f"{path}.os.name", rules.of(_NO_SYSTEM))]
    if system not in _SYSTEMS:
        return [FieldError.not_supported(f"{path}.os", system, _SYSTEMS)]
    if system == "linux":
        text = "windows options cannot be set for a linux pod"
        places = [(spec, path), *containers_of(spec, path)]
        return [
            FieldError.forbidden(f"{where}.securityContext.windowsOptions", text)
            for part, where in places
            if (part.get("securityContext") or {}).get("windowsOptions") is not None
        ]
    security = spec.get("securityContext") or {}
    where = f"{path}.securityContext"
    errors = [_forbidden(f"{where}.{name}") for name in _OF_PODS_SECURITY if security.get(name) not in (None, [])]
    errors += [_forbidden(f"{path}.{name}") for name in ("hostPID", "hostIPC") if spec.get(name)]
    errors += [
        _forbidden(f"{path}.{name}") for name in ("hostUsers", "shareProcessNamespace") if spec.get(name) is not None
    ]
    for container, at in containers_of(spec, path):
        security = container.get("securityContext") or {}
        errors += [
            _forbidden(f"{at}.securityContext.{name}")
            for name in _OF_CONTAINERS_SECURITY
            if security.get(name) is not None
        ]
    return errors


def _forbidden(path: str) -> FieldError:
    return FieldError.forbidden(path, _NOT_ON_WINDOWS)


def validate_windows_options(options: Fields | None, path: str) -> list[FieldError]:
    """What is wrong with ``windowsOptions``."""
    options, errors = options or {}, []
    name, spec, user = (options.get(each) for each in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName"))
    if name is not None:
        errors += refused(name, f"{path}.gmsaCredentialSpecName", is_dns_subdomain(name))
    if spec is not None and not spec:
        text = "gmsaCredentialSpec cannot be an empty string"
        errors.append(FieldError.invalid(f"{path}.gmsaCredentialSpec", spec, text))
    elif spec is not None and len(spec.encode()) > _SPEC_AT_MOST_KIB * 1024:
        text = f"gmsaCredentialSpec size must be under {_SPEC_AT_MOST_KIB} KiB"
        errors.append(FieldError.invalid(f"{path}.gmsaCredentialSpec", spec, text))
    return errors + ([] if user is None else refused(user, f"{path}.runAsUserName", _user_faults(user)))


def _user_faults(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if re.search(r"[\x00-\x1f\x7f]", name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, slash, user = name.rpartition("\\")
    rules = {
        f"runAsUserName's Domain length must be under {_DOMAIN_AT_MOST} characters": (
            len(domain.encode()) < _DOMAIN_AT_MOST
        ),
        "runAsUserName's Domain doesn't match the NetBios nor the DNS format": (
            not slash or _NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain)
        ),
        "runAsUserName's User cannot be empty": user,
        f"runAsUserName's User length must not be longer than {_USER_AT_MOST} characters": (
            len(user.encode()) <= _USER_AT_MOST
        ),
        "runAsUserName's User cannot contain only periods or spaces": not re.fullmatch(r"[. ]+", user),
        r'runAsUserName\'s User cannot contain the following characters: "/\:;|=,+*?<>@[]'.replace("\\'", "'"): (
            not re.search(r'["/\\:;|=,+*?<>@\[\]]', user)
        ),
    }
    return [text for text, is_kept in rules.items() if not is_kept]


def validate_host_processes(spec: Fields, path: str) -> list[FieldError]:
    """What a pod with processes of its node, on Windows, must have."""
    of_pod = _is_host_process(spec)
    errors, total, count = [], 0, 0
    for container, where in containers_of(spec, path):
        own = _is_host_process(container)
        if of_pod is not None and own is not None and of_pod != own:
            at = f"{where}.securityContext.windowsOptions.hostProcess"
            text = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
            errors.append(FieldError.invalid(at, own, text))
        total, count = total + 1, count + bool(of_pod if own is None else own)
    if count and count != total:
        text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(FieldError.invalid(path, "", text))
    if count and not spec.get("hostNetwork"):
        text = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(FieldError.invalid(f"{path}.hostNetwork", False, text))
    return errors


def _is_host_process(part: Fields) -> bool | None:
    found: bool | None = ((part.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    return found
