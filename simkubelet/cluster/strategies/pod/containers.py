"""What an API server refuses in the containers of a pod: of each kind, and what they have in common.

Source: pkg/apis/core/validation/validation.go, ``validateContainers``, ``validateInitContainers``,
``validateEphemeralContainers``, ``validateContainerCommon``, ``validateContainerRestartPolicy``,
``validateInitContainerRestartPolicy``, ``validateResizePolicy``, ``validateContainerPorts`` (kubernetes v1.34.4,
v1.35.4, v1.36.3).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_dns_label
from .checks import Fields, PodRules, among, choose, in_range, is_port_name, refused, required
from .environment import validate_env, validate_env_from
from .gates import RESTART_RULES
from .handlers import validate_lifecycle, validate_probes
from .mounts import validate_devices, validate_mounts
from .resources import validate_requirements
from .security import validate_container_security

__all__ = [
    "PULL_POLICIES",
    "SIDECARS_RESIZE",
    "PodOf",
    "validate_containers",
    "validate_ephemeral_containers",
    "validate_image",
    "validate_init_containers",
]

_VALIDATION: Final = "pkg/apis/core/validation/validation.go (kubernetes v1.34.4, v1.35.4, v1.36.3)"
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESIZED: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_OF_SIDECARS: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_RULES_AT_MOST: Final = 20
_CODES_AT_MOST: Final = 255
_MAX_PORT: Final = 65535
SIDECARS_RESIZE: Final = "InPlacePodVerticalScaling"
_RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
_OF_OTHERS: Final = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip
"""What an ephemeral container may not have, in the order of its fields."""
_NOT_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_INIT_RULES_NEED_POLICY: Final = Difference(
    "an init container's `restartPolicyRules` need a `restartPolicy`, too", {"1.26": False, "1.35": True}, _VALIDATION
)
_WHOSE_POLICY: Final = Difference(
    "the text about a container's `resizePolicy` in a pod that is never restarted says whose policy it is",
    {"1.26": "", "1.36": "pod "},
    _VALIDATION,
)
_COUNTS_RULES: Final = Difference(
    "too many `restartPolicyRules` or exit codes are counted in the text, else it calls their list too long",
    {"1.26": False, "1.36": True},
    _VALIDATION,
)
_WHICH_INIT: Final = Difference(
    "which init containers have no probes and hooks, in the text about one that has",
    {"1.26": "", "1.28": " without restartPolicy=Always"},
    "pkg/apis/core/validation/validation.go, ``validateInitContainers`` (kubernetes v1.27.16, v1.28.15)",
)
_ACTIONS: Final = Difference(
    "the actions of `restartPolicyRules` in the text about another one, where all containers may be restarted",
    {"1.26": ("Restart",), "1.36": ("Restart", "RestartAllContainers")},
    _VALIDATION,
)
_INIT_IS_NOT_RESTARTED: Final = Difference(
    "an init container that is no sidecar may not be restarted to be resized",
    {"1.26": False, "1.36": True},
    _VALIDATION,
)
_NO_RESTART: Final = "must not be set to 'RestartContainer' for non-sidecar initContainers"
_NO_POLICY: Final = "must specify restartPolicy when restart rules are used"


@dataclass(frozen=True, slots=True)
class PodOf:
    """The pod of containers, as they are checked in it.

    Attributes:
        rules: of the server for this pod.
        spec: the pod's.
        volumes: name -> volume, of those without fault.
        claims: the names of its claims.
    """

    rules: PodRules
    spec: Fields
    volumes: Mapping[str, Fields]
    claims: frozenset[str]

    @property
    def grace_s(self) -> int | None:
        found: int | None = self.spec.get("terminationGracePeriodSeconds")
        return found

    @property
    def system(self) -> str | None:
        os = self.spec.get("os")
        return None if os is None else os.get("name") or ""


def validate_containers(pod: PodOf, path: str) -> list[FieldError]:
    """What is wrong with ``containers``."""
    containers: Sequence[Fields] = pod.spec.get("containers") or ()
    if not containers:
        return [FieldError.required(path)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for place, container in enumerate(containers):
        where, name = f"{path}[{place}]", container.get("name") or ""
        errors += _validate_common(pod, container, where)
        if name in names:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        names.add(name)
        errors += _validate_handlers(pod, container, where)
        if pod.rules.allows(RESTART_RULES):
            errors += _validate_restart(pod.rules, container, where)
        elif container.get("restartPolicy") is not None:
            errors.append(FieldError.forbidden(f"{where}.restartPolicy", "may not be set for non-init containers"))
    return errors + _host_port_conflicts(containers, path)


def validate_init_containers(pod: PodOf, path: str) -> list[FieldError]:
    """What is wrong with ``initContainers``."""
    errors: list[FieldError] = []
    names = {container.get("name") or "" for container in pod.spec.get("containers") or ()}
    for place, container in enumerate(pod.spec.get("initContainers") or ()):
        where, name = f"{path}[{place}]", container.get("name") or ""
        is_sidecar = container.get("restartPolicy") == "Always"
        errors += _validate_common(pod, container, where)
        errors += _validate_init_restart(pod.rules, container, where)
        if name in names:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        elif name:
            names.add(name)
        errors += _host_port_conflicts([container], path)
        if is_sidecar:
            errors += _validate_handlers(pod, container, where)
        else:
            text = f"may not be set for init containers{pod.rules.of(_WHICH_INIT)}"
            given = (field for field in _OF_SIDECARS if container.get(field) is not None)
            errors += [FieldError.forbidden(f"{where}.{field}", text) for field in given]
        policies = container.get("resizePolicy") or ()
        if policies and not pod.rules.allows(SIDECARS_RESIZE):
            shown = [
                {"ResourceName": each.get("resourceName", ""), "RestartPolicy": each.get("restartPolicy", "")}
                for each in policies
            ]
            errors.append(FieldError.invalid(f"{where}.resizePolicy", shown, "must not be set for init containers"))
        if not is_sidecar and pod.rules.of(_INIT_IS_NOT_RESTARTED):
            errors += [
                FieldError.invalid(f"{where}.resizePolicy[{number}].restartPolicy", "RestartContainer", _NO_RESTART)
                for number, policy in enumerate(policies)
                if policy.get("restartPolicy") == "RestartContainer"
            ]
    return errors


def validate_ephemeral_containers(pod: PodOf, path: str) -> list[FieldError]:
    """What is wrong with ``ephemeralContainers``."""
    others = {each.get("name") or "" for kind in ("containers", "initContainers") for each in pod.spec.get(kind) or ()}
    names, errors = set(others), []
    for place, container in enumerate(pod.spec.get("ephemeralContainers") or ()):
        where, name = f"{path}[{place}]", container.get("name") or ""
        errors += [*_validate_common(pod, container, where), *validate_image(container, where)]
        if name in names:
            errors.append(FieldError.duplicate(f"{where}.name", name))
        names.add(name)
        target = container.get("targetContainerName") or ""
        if target and target not in others:
            errors.append(FieldError.not_found(f"{where}.targetContainerName", target))
        errors += [
            FieldError.forbidden(f"{where}.{field}", _NOT_EPHEMERAL)
            for field in _OF_OTHERS
            if container.get(field) not in (None, []) and (container[field] or field != "resources")
        ]
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            at = f"{where}.volumeMounts[{number}]"
            given = (field for field in ("subPath", "subPathExpr") if mount.get(field))
            errors += [FieldError.forbidden(f"{at}.{field}", _NOT_EPHEMERAL) for field in given]
    return errors


def validate_image(container: Fields, path: str) -> list[FieldError]:
    """What is wrong with the image of a container of a pod; templates may have blanks around it."""
    image = container.get("image") or ""
    text = "must not have leading or trailing whitespace"
    return [] if image.strip() == image else [FieldError.invalid(f"{path}.image", image, text)]


def _validate_common(pod: PodOf, container: Fields, path: str) -> list[FieldError]:
    name, rules = container.get("name") or "", pod.rules
    host_users = pod.spec.get("hostUsers")
    return [
        *(refused(name, f"{path}.name", is_dns_label(name)) if name else [FieldError.required(f"{path}.name")]),
        *required(container, "image", path),
        *choose(container.get("terminationMessagePolicy"), _MESSAGE_POLICIES, f"{path}.terminationMessagePolicy"),
        *_validate_ports(container.get("ports") or (), f"{path}.ports"),
        *validate_env(rules, container.get("env") or (), f"{path}.env"),
        *validate_env_from(rules, container.get("envFrom") or (), f"{path}.envFrom"),
        *validate_mounts(container, pod.volumes, f"{path}.volumeMounts"),
        *validate_devices(container, pod.volumes, f"{path}.volumeDevices"),
        *choose(container.get("imagePullPolicy"), PULL_POLICIES, f"{path}.imagePullPolicy"),
        *validate_requirements(rules, container.get("resources") or {}, pod.claims, f"{path}.resources"),
        *_validate_resizing(pod, container.get("resizePolicy") or (), f"{path}.resizePolicy"),
        *validate_container_security(
            rules, container.get("securityContext"), host_users is not False, f"{path}.securityContext"
        ),
    ]


def _validate_handlers(pod: PodOf, container: Fields, path: str) -> list[FieldError]:
    errors = []
    if container.get("lifecycle") is not None:
        lifecycle = container["lifecycle"]
        errors += validate_lifecycle(pod.rules, lifecycle, pod.grace_s, pod.system, f"{path}.lifecycle")
    return errors + validate_probes(pod.rules, container, pod.grace_s, path)


def _validate_ports(ports: Sequence[Fields], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for place, port in enumerate(ports):
        where = f"{path}[{place}]"
        if name := port.get("name"):
            faults = is_port_name(name)
            errors += refused(name, f"{where}.name", faults)
            if not faults and name in names:
                errors.append(FieldError.duplicate(f"{where}.name", name))
            names.update(() if faults else (name,))
        if not port.get("containerPort"):
            errors.append(FieldError.required(f"{where}.containerPort"))
        for field in ("containerPort", "hostPort"):
            errors += in_range(port.get(field) or None, 1, _MAX_PORT, f"{where}.{field}")
        errors += choose(port.get("protocol"), _PROTOCOLS, f"{where}.protocol")
    return errors


def _host_port_conflicts(containers: Sequence[Fields], path: str) -> list[FieldError]:
    errors, taken = [], set()
    for place, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if text in taken:
                    errors.append(FieldError.duplicate(f"{path}[{place}].ports[{number}].hostPort", text))
                taken.add(text)
    return errors


def _validate_resizing(pod: PodOf, policies: Sequence[Fields], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    known: set[str] = set()
    for place, each in enumerate(policies):
        name, policy = each.get("resourceName") or "", each.get("restartPolicy") or ""
        if name in known:
            errors.append(FieldError.duplicate(f"{path}[{place}]", name))
        known.add(name)
        errors += [*choose(name, _RESIZED, path), *choose(policy, _RESIZE_POLICIES, path)]
        if pod.spec.get("restartPolicy") == "Never" and policy != "NotRequired":
            text = f"must be 'NotRequired' when {pod.rules.of(_WHOSE_POLICY)}`restartPolicy` is 'Never'"
            errors.append(FieldError.invalid(path, policy, text))
    return errors


def _validate_init_restart(rules: PodRules, container: Fields, path: str) -> list[FieldError]:
    policy, given = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        needs_policy = given and rules.of(_INIT_RULES_NEED_POLICY)
        return [FieldError.required(f"{path}.restartPolicy", _NO_POLICY)] if needs_policy else []
    if not rules.allows(RESTART_RULES):
        return among(policy, ["Always"], f"{path}.restartPolicy")
    if policy != "Always" or rules.allows(_RESTART_ALL):
        return _validate_restart(rules, container, path)
    text = "restartPolicyRules are not allowed for init containers with restart policy Always"
    return [FieldError.forbidden(f"{path}.restartPolicyRules", text)] if given else []


def _validate_restart(rules: PodRules, container: Fields, path: str) -> list[FieldError]:
    policy, given = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    errors = among(policy, _RESTART_POLICIES, f"{path}.restartPolicy")
    if policy is None and given:
        errors = [FieldError.required(f"{path}.restartPolicy", _NO_POLICY)]
    errors += _too_many(rules, given, _RULES_AT_MOST, f"{path}.restartPolicyRules")
    may_restart_all = rules.allows(_RESTART_ALL)
    actions = ("Restart", "RestartAllContainers") if may_restart_all else ("Restart",)
    shown = rules.of(_ACTIONS) if may_restart_all else actions
    for place, rule in enumerate(given):
        where, codes, action = f"{path}.restartPolicyRules[{place}]", rule.get("exitCodes"), rule.get("action") or ""
        if action not in actions:
            errors.append(FieldError.not_supported(f"{where}.action", action, shown))
        if codes is None:
            errors.append(FieldError.required(f"{where}.exitCodes", "must be specified"))
            continue
        errors += among(codes.get("operator") or "", ("In", "NotIn"), f"{where}.exitCodes.operator")
        errors += _too_many(rules, codes.get("values") or (), _CODES_AT_MOST, f"{where}.exitCodes.values")
    return errors


def _too_many(rules: PodRules, items: Collection[object], limit: int, path: str) -> list[FieldError]:
    if len(items) <= limit:
        return []
    counts = rules.of(_COUNTS_RULES)
    return [FieldError.too_many(path, len(items), limit) if counts else FieldError.too_long(path, limit)]
