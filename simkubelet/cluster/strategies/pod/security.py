"""What an API server refuses in security contexts, of pods and of containers.

The API server runs with ``--allow-privileged``, as installers set it up.

Source: pkg/apis/core/validation/validation.go, ``ValidateSecurityContext``, ``validatePodSpecSecurityContext``,
``validateSysctls``, ``validateSeccompProfileField``, ``ValidateAppArmorProfileField``, ``validateHostUsers``
(kubernetes v1.34.4, v1.35.4, v1.37.0); component-helpers/node/util/sysctl/namespace.go (v0.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ....model.version import Difference
from ...api.errors import FieldError
from ..internal_form import internal
from .checks import Fields, PodRules, among, check_relative_path, choose, containers_of, id_faults, in_range, refused
from .windows import validate_windows_options

__all__ = [
    "ANY_SELINUX_POLICY",
    "app_armor_errors",
    "validate_container_security",
    "validate_host_users",
    "validate_pod_security",
]

ANY_SELINUX_POLICY: Final = "SELinuxMount"
_HOST_NETWORK_OF_USERS: Final = "UserNamespacesHostNetworkSupport"
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_AT_MOST: Final = 253
_SYSCTL_RULE: Final = f"must have at most {_SYSCTL_AT_MOST} characters and match regex ^{_SYSCTL}$"
_OF_IPC: Final = (
    "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm",
    "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg",
)  # fmt: skip
_PROFILE_AT_MOST: Final = 4095
_MAX_INT32: Final = 2**31 - 1
_SET_WHEN: Final = "must be set when {} type is Localhost"
_ONLY_WHEN: Final = "can only be set when {} type is Localhost"
_NO_SHARING: Final = "ShareProcessNamespace and HostPID cannot both be enabled"
_SHARED_WITH_USERS: Final = Difference(
    "why a pod with users of its own may not share something with its node",
    {"1.26": "when `pod.Spec.HostUsers` is false", "1.34": "when `hostUsers` is false"},
    "pkg/apis/core/validation/validation.go, ``validateHostUsers`` (kubernetes v1.33.13, v1.34.4)",
)
_NO_DEVICES_OF_VOLUMES: Final = Difference(
    "a pod with users of its own may have no `volumeDevices`",
    {"1.26": False, "1.34": True},
    "pkg/apis/core/validation/validation.go, ``validateHostUsers`` (kubernetes v1.33.13, v1.34.4)",
)
_NAMES_HOST_SYSCTLS: Final = Difference(
    "sysctls of a namespace that a pod shares with its node are refused",
    {"1.26": False, "1.29": True},
    "pkg/apis/core/validation/validation.go, ``ValidateHostSysctl`` (kubernetes v1.28.15, v1.29.6)",
)
_WHERE_SHARED: Final = Difference(
    "the path of the refusal of `shareProcessNamespace` beside `hostPID`",
    {"1.26": "securityContext.shareProcessNamespace", "1.37": "shareProcessNamespace"},
    "pkg/apis/core/validation/validation.go, ``validateShareProcessNamespace`` (kubernetes v1.36.3, v1.37.0)",
)


def validate_container_security(
    rules: PodRules, security: Fields | None, host_users: bool, path: str
) -> list[FieldError]:
    """What is wrong with a container's ``securityContext``; `host_users` says that the pod has its node's users."""
    if security is None:
        return []
    proc = security.get("procMount")
    errors = [
        *id_faults(security, "runAsUser", path),
        *id_faults(security, "runAsGroup", path),
        *among(proc, ("Default", "Unmasked"), f"{path}.procMount"),
    ]
    if proc == "Unmasked" and host_users:
        text = "`hostUsers` must be false to use `Unmasked`"
        errors.append(FieldError.invalid(f"{path}.procMount", proc, text))
    errors += _seccomp_errors(security.get("seccompProfile"), f"{path}.seccompProfile")
    if security.get("allowPrivilegeEscalation") is False:
        added = (security.get("capabilities") or {}).get("add") or ()
        reasons = ["`privileged` to true"] if security.get("privileged") else []
        reasons += ["`capabilities.Add` CAP_SYS_ADMIN" for each in added if each == "CAP_SYS_ADMIN"]
        shown = internal("SecurityContext", dict(security), rules.release)
        errors += [
            FieldError.invalid(path, shown, f"cannot set `allowPrivilegeEscalation` to false and {reason}")
            for reason in reasons
        ]
    errors += validate_windows_options(security.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + app_armor_errors(security.get("appArmorProfile"), f"{path}.appArmorProfile")


def validate_pod_security(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with the ``securityContext`` of a whole pod; `path` is that of the spec."""
    security, where = spec.get("securityContext") or {}, f"{path}.securityContext"
    errors = [error for name in ("fsGroup", "runAsUser", "runAsGroup") for error in id_faults(security, name, where)]
    for place, group in enumerate(security.get("supplementalGroups") or ()):
        errors += in_range(group, 0, _MAX_INT32, f"{where}.supplementalGroups[{place}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        errors.append(FieldError.invalid(f"{path}.{rules.of(_WHERE_SHARED)}", True, _NO_SHARING))
    policies = ("MountOption", "Recursive") if rules.allows(ANY_SELINUX_POLICY) else ("Recursive",)
    return [
        *errors,
        *_validate_sysctls(rules, spec, security.get("sysctls") or (), f"{where}.sysctls"),
        *among(security.get("fsGroupChangePolicy"), ("Always", "OnRootMismatch"), f"{where}.fsGroupChangePolicy"),
        *_seccomp_errors(security.get("seccompProfile"), f"{where}.seccompProfile"),
        *validate_windows_options(security.get("windowsOptions"), f"{where}.windowsOptions"),
        *app_armor_errors(security.get("appArmorProfile"), f"{where}.appArmorProfile"),
        *among(security.get("supplementalGroupsPolicy"), ("Merge", "Strict"), f"{where}.supplementalGroupsPolicy"),
        *among(security.get("seLinuxChangePolicy"), policies, f"{where}.seLinuxChangePolicy"),
    ]


def _validate_sysctls(rules: PodRules, spec: Fields, sysctls: Sequence[Fields], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    known: set[str] = set()
    for place, sysctl in enumerate(sysctls):
        where, name = f"{path}[{place}].name", sysctl.get("name") or ""
        if not name:
            errors.append(FieldError.required(where))
        elif len(name.encode()) > _SYSCTL_AT_MOST or not re.fullmatch(_SYSCTL, name):
            errors.append(FieldError.invalid(where, name, _SYSCTL_RULE))
        elif name in known:
            errors.append(FieldError.duplicate(where, name))
        known.add(name)
        if rules.of(_NAMES_HOST_SYSCTLS):
            errors += refused(name, where, _host_sysctl_faults(spec, name))
    return errors


def _host_sysctl_faults(spec: Fields, sysctl: str) -> list[str]:
    """Whether a sysctl is of a namespace that the pod shares with its node."""
    name = _with_dots(sysctl).partition("*")[0]
    if spec.get("hostNetwork") and name.startswith("net."):
        return ["may not be specified when 'hostNetwork' is true"]
    if spec.get("hostIPC") and (name in _OF_IPC or name.startswith("fs.mqueue.")):
        return ["may not be specified when 'hostIPC' is true"]
    return []


def _with_dots(name: str) -> str:
    """The name of a sysctl with dots between its parts, where they may be slashes.

    Source: component-helpers/node/util/sysctl/sysctl.go, ``NormalizeName`` (v0.34.4).
    """
    first = re.search(r"[./]", name)
    if first is None or first[0] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def _seccomp_errors(profile: Fields | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local, where = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    errors = choose(kind, _PROFILES, f"{path}.type")
    if not kind:
        errors = [FieldError.required(f"{path}.type", "type is required when seccompProfile is set")]
    if kind == "Localhost":
        text = _SET_WHEN.format("seccomp")
        return errors + ([FieldError.required(where, text)] if local is None else check_relative_path(local, where))
    if local is not None:
        shown = {"Type": kind, "LocalhostProfile": local}
        errors.append(FieldError.invalid(where, shown, _ONLY_WHEN.format("seccomp")))
    return errors


def app_armor_errors(profile: Fields | None, path: str) -> list[FieldError]:
    """What is wrong with a profile of AppArmor."""
    if profile is None:
        return []
    kind, local, where = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [FieldError.required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _PROFILES:
        return [FieldError.not_supported(f"{path}.type", kind, _PROFILES)]
    if kind != "Localhost":
        return [] if local is None else [FieldError.invalid(where, local, _ONLY_WHEN.format("AppArmor"))]
    if local is None or not local:
        return [FieldError.required(where, _SET_WHEN.format("AppArmor"))]
    errors = []
    if local.strip() != local:
        errors.append(FieldError.invalid(where, local, "must not be padded with whitespace"))
    if len(local.encode()) > _PROFILE_AT_MOST:
        errors.append(FieldError.too_long(where, _PROFILE_AT_MOST))
    return errors


def validate_host_users(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    """What a pod with users of its own may not share with its node."""
    if spec.get("hostUsers") is not False:
        return []
    text = rules.of(_SHARED_WITH_USERS)
    shared = {"hostNetwork": "hostNetwork", "hostPID": "HostPID", "hostIPC": "HostIPC"}
    if rules.allows(_HOST_NETWORK_OF_USERS):
        del shared["hostNetwork"]
    errors = [FieldError.forbidden(f"{path}.{shown}", text) for name, shown in shared.items() if spec.get(name)]
    if not rules.of(_NO_DEVICES_OF_VOLUMES):
        return errors
    return errors + [
        FieldError.forbidden(f"{where}.volumeDevices", text)
        for container, where in containers_of(spec, path)
        if container.get("volumeDevices")
    ]
