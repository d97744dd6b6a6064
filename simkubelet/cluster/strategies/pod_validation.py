"""What an API server refuses in a pod or in the template of one, and what it warns about.

What has no effect on a simulated node (security contexts, DNS settings, probes, most of volumes) is not validated. A
warning names each field without effect where a real cluster would treat the pod otherwise. A field that only says how a
container is isolated or reached is not among them, as none of that shows in the pod.

Source: pkg/apis/core/validation/validation.go, ``ValidatePodCreate``, ``ValidatePodSpec`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ..api.errors import FieldError
from ..api.registry.names import is_dns_label, is_dns_subdomain, is_label_value, is_qualified_name
from .container_validation import choose, validate_containers, validate_init_containers
from .priority_classes import PREEMPTION_POLICIES
from .scheduling_validation import validate_affinity, validate_labels, validate_spread_constraints

__all__ = [
    "NOT_SIMULATED",
    "not_simulated",
    "validate_placement",
    "validate_pod_create",
    "validate_pod_spec",
    "validate_taint_effect",
    "validate_tolerations",
]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_INT32: Final = 2**31 - 1
_NAMES: Final = (
    ("serviceAccountName", is_dns_subdomain),
    ("nodeName", is_dns_subdomain),
    ("hostname", is_dns_label),
    ("subdomain", is_dns_label),
    ("priorityClassName", is_dns_subdomain),
    ("runtimeClassName", is_dns_subdomain),
)
_NO_KEY: Final = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_PROBE: Final = "not run; a container is ready while it runs"
_DRIVER: Final = "there are no volumes of this type; the pod starts without it"
NOT_SIMULATED: Final[Mapping[str, str]] = {
    "activeDeadlineSeconds": "the pod is not ended",
    "overhead": "not counted",
    "readinessGates": "not awaited; the pod is ready when its containers are",
    "resources": "those of a whole pod are not counted",
    "runtimeClassName": "there are no RuntimeClasses; a real cluster refuses a pod of one that it does not have",
    "topologySpreadConstraints": "pods are not spread",
    "volumes[*].persistentVolumeClaim": "there are no claims; on a real cluster the pod waits until the claim is bound",
    **{f"volumes[*].{type_}": _DRIVER for type_ in ("csi", "ephemeral", "image", "iscsi", "nfs")},
    "containers[*].livenessProbe": "not run; the container is not restarted",
    "containers[*].readinessProbe": _PROBE,
    "containers[*].startupProbe": _PROBE,
    "containers[*].lifecycle": "hooks are not run",
    "containers[*].volumeDevices": "no device is attached",
    "containers[*].env[*].valueFrom.resourceFieldRef": "the variable is empty",
    "containers[*].env[*].valueFrom.fileKeyRef": "the variable is empty",
}
"""Path below a pod's ``spec`` -> what becomes of it; ``containers`` stands for ``initContainers`` too."""


def validate_pod_create(pod: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with a new pod, its metadata aside."""
    spec = pod["spec"]
    errors = validate_pod_spec(spec)
    if spec.get("ephemeralContainers"):
        errors.append(FieldError.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError.forbidden("spec.nodeName", text))
    return errors


def validate_pod_spec(spec: Mapping[str, Any], path: str = "spec", *, is_template: bool = False) -> list[FieldError]:
    """What is wrong with a pod's spec that has its defaults."""
    volumes = [volume.get("name") or "" for volume in spec.get("volumes") or ()]
    containers, init_containers = spec.get("containers") or (), spec.get("initContainers") or ()
    errors = [
        *_validate_volumes(volumes, f"{path}.volumes"),
        *validate_containers(containers, volumes, f"{path}.containers"),
        *validate_init_containers(init_containers, containers, volumes, f"{path}.initContainers"),
        *_validate_host_ports(spec, path, is_template=is_template),
        *choose(spec.get("restartPolicy"), _RESTART_POLICIES, f"{path}.restartPolicy"),
        *choose(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy"),
        *_validate_wishes(spec, path),
    ]
    for field, faults_of in _NAMES:
        if name := spec.get(field):
            errors += [FieldError.invalid(f"{path}.{field}", name, fault) for fault in faults_of(name)]
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = f"must be between 1 and {_MAX_INT32}, inclusive"
        errors.append(FieldError.invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    errors += validate_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    if spec.get("preemptionPolicy") is not None:
        errors += choose(spec["preemptionPolicy"], PREEMPTION_POLICIES, f"{path}.preemptionPolicy")
    return errors if is_template else errors + _validate_images(spec, path)


def validate_placement(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """What is wrong with what a pod's spec says about where the pod goes."""
    return [*_validate_wishes(spec, path), *validate_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")]


def validate_tolerations(tolerations: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """What is wrong with ``tolerations``."""
    errors = []
    for place, each in enumerate(tolerations):
        where = f"{path}[{place}]"
        key, operator = each.get("key") or "", each.get("operator") or ""
        value, effect = each.get("value") or "", each.get("effect") or ""
        if key:
            errors += [FieldError.invalid(f"{where}.key", key, fault) for fault in is_qualified_name(key)]
        elif operator != "Exists":
            errors.append(FieldError.invalid(f"{where}.operator", operator, _NO_KEY))
        if each.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(FieldError.invalid(f"{where}.effect", effect, text))
        if operator in ("Equal", ""):
            if faults := is_label_value(value):
                errors.append(FieldError.invalid(f"{where}.operator", value, ";".join(faults)))
        elif operator != "Exists":
            errors.append(FieldError.not_supported(f"{where}.operator", operator, ["Equal", "Exists"]))
        elif value:
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(FieldError.invalid(f"{where}.operator", value, text))
        if effect:
            errors += validate_taint_effect(effect, f"{where}.effect")
    return errors


def validate_taint_effect(effect: str, path: str) -> list[FieldError]:
    """What is wrong with the effect of a taint or a toleration."""
    return choose(effect, _EFFECTS, path)


def not_simulated(spec: Mapping[str, Any], path: str = "spec") -> list[str]:
    """Return a warning for each field without effect that a pod's spec sets.

    Args:
        spec: of a pod or of a template of pods.
        path: of the spec in its object.
    """
    return [
        f"not simulated: {place}: {why}"
        for field, why in NOT_SIMULATED.items()
        for place in _places_of(spec, field, path)
    ]


def _validate_volumes(names: Sequence[str], path: str) -> list[FieldError]:
    errors, seen = [], set()
    for place, name in enumerate(names):
        where = f"{path}[{place}].name"
        errors += [FieldError.invalid(where, name, fault) for fault in is_dns_label(name)] if name else []
        if not name:
            errors.append(FieldError.required(where))
        if name in seen:
            errors.append(FieldError.duplicate(where, name))
        seen.add(name)
    return errors


def _validate_host_ports(spec: Mapping[str, Any], path: str, *, is_template: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not spec.get("hostNetwork"):
        return errors
    for place, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort") or 0
            if host_port != (port.get("containerPort") or 0) and (host_port or not is_template):
                where = f"{path}.containers[{place}].ports[{number}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.append(FieldError.invalid(where, host_port, text))
    return errors


def _validate_wishes(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    return [
        *validate_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector"),
        *validate_affinity(spec.get("affinity") or {}, f"{path}.affinity"),
        *_validate_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates"),
        *validate_spread_constraints(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints"),
    ]


def _validate_gates(gates: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    errors, seen = [], set()
    for place, gate in enumerate(gates):
        where, name = f"{path}[{place}]", gate.get("name") or ""
        errors += [FieldError.invalid(where, name, fault) for fault in is_qualified_name(name)]
        if name in seen:
            errors.append(FieldError.duplicate(where, name))
        seen.add(name)
    return errors


def _validate_images(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    text = "must not have leading or trailing whitespace"
    return [
        FieldError.invalid(f"{path}.{kind}[{place}].image", container["image"], text)
        for kind in ("containers", "initContainers")
        for place, container in enumerate(spec.get(kind) or ())
        if container.get("image") and container["image"].strip() != container["image"]
    ]


def _places_of(value: Any, field: str, path: str) -> Iterator[str]:
    """The places of a field in a value; a field that is empty is not set."""
    name, _, rest = field.partition(".")
    plain, next_ = name.removesuffix("[*]"), rest.partition(".")[0].removesuffix("[*]")
    for each in (plain, "initContainers") if plain == "containers" else (plain,):
        found = value.get(each)
        places = [(f"{path}.{each}", found)]
        if name != plain:
            places = [
                (f"{path}.{each}[{index}]", item)
                for index, item in enumerate(found or ())
                if not next_ or (isinstance(item, Mapping) and next_ in item)
            ]
        for place, inner in places:
            if rest and isinstance(inner, Mapping):
                yield from _places_of(inner, rest, place)
            elif not rest and inner not in (None, {}, [], ""):
                yield place
