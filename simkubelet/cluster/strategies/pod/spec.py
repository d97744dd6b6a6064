"""What an API server refuses in a pod or in the template of one.

Source: pkg/apis/core/validation/validation.go, ``ValidatePodCreate``, ``validatePodMetadataAndSpec``,
``ValidatePodTemplateSpec``, ``ValidatePodSpec`` (kubernetes v1.34.4, v1.37.0).
"""

from __future__ import annotations

from typing import Final

from ....model.pod import MIRROR_ANNOTATION
from ...api.errors import FieldError
from ...api.registry.metadata import validate_annotations
from ...api.registry.names import is_dns_label, is_dns_subdomain, is_qualified_name
from ..priority_classes import PREEMPTION_POLICIES
from .annotations import validate_pod_annotations, validate_profiles
from .checks import Fields, PodRules, choose, in_range, refused
from .containers import (
    PodOf,
    validate_containers,
    validate_ephemeral_containers,
    validate_image,
    validate_init_containers,
)
from .environment import validate_files_of_variables
from .network import validate_dns, validate_host_aliases, validate_host_name, validate_host_ports
from .projections import token_sources
from .resources import claim_names, validate_claims, validate_pod_resources, validate_requirements
from .scheduling import validate_labels, validate_placement
from .security import validate_host_users, validate_pod_security
from .volumes import validate_volumes
from .windows import validate_host_processes, validate_system

__all__ = ["validate_pod", "validate_pod_create", "validate_pod_template"]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_MAX_INT32: Final = 2**31 - 1
_NAMES: Final = (
    ("serviceAccountName", is_dns_subdomain),
    ("nodeName", is_dns_subdomain),
    ("hostname", is_dns_label),
    ("subdomain", is_dns_label),
    ("priorityClassName", is_dns_subdomain),
)


def validate_pod_create(rules: PodRules, pod: Fields) -> list[FieldError]:
    """What is wrong with a new pod; names, labels and annotations as any object's are checked elsewhere."""
    spec, errors = pod["spec"], validate_pod(rules, pod)
    if spec.get("ephemeralContainers"):
        errors.append(FieldError.forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "cannot be set until all schedulingGates have been cleared"
        errors.append(FieldError.forbidden("spec.nodeName", text))
    return errors + validate_profiles(pod["metadata"].get("annotations") or {}, spec, "spec")


def validate_pod(rules: PodRules, pod: Fields) -> list[FieldError]:
    """What is wrong with a pod that has its defaults, new or not."""
    metadata, spec = pod["metadata"], pod["spec"]
    annotations = metadata.get("annotations") or {}
    errors = validate_pod_annotations(annotations, spec, "metadata.annotations")
    is_mirror = MIRROR_ANNOTATION in annotations
    errors += _validate_spec(rules, spec, metadata.get("name") or "", "spec", is_mirror=is_mirror)
    if not spec.get("serviceAccountName"):
        text = "must not be specified when serviceAccountName is not set"
        tokens = token_sources(spec.get("volumes") or (), "spec.volumes")
        errors += [FieldError.forbidden(where, text) for where in tokens]
    for kind in ("containers", "initContainers"):
        for place, container in enumerate(spec.get(kind) or ()):
            errors += validate_image(container, f"spec.{kind}[{place}]")
    return errors


def validate_pod_template(rules: PodRules, template: Fields, path: str) -> list[FieldError]:
    """What is wrong with a template of pods that has its defaults."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    annotations, where = metadata.get("annotations") or {}, f"{path}.annotations"
    errors = [
        *validate_labels(metadata.get("labels") or {}, f"{path}.labels", rules.release),
        *validate_annotations(annotations, where, rules.release),
        *validate_pod_annotations(annotations, spec, where),
        *_validate_spec(rules, spec, "", f"{path}.spec"),
        *validate_profiles(annotations, spec, f"{path}.spec"),
    ]
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        errors.append(FieldError.forbidden(f"{path}.spec.ephemeralContainers", text))
    return errors


def _validate_spec(rules: PodRules, spec: Fields, name: str, path: str, *, is_mirror: bool = False) -> list[FieldError]:
    volumes, errors = validate_volumes(rules, spec.get("volumes") or (), name, f"{path}.volumes")
    pod = PodOf(rules, spec, volumes, claim_names(spec))
    claims, release = spec.get("resourceClaims") or (), rules.release
    errors += [
        *validate_claims(claims, release, f"{path}.resourceClaims", is_mirror=is_mirror),
        *validate_containers(pod, f"{path}.containers"),
        *validate_init_containers(pod, f"{path}.initContainers"),
        *validate_ephemeral_containers(pod, f"{path}.ephemeralContainers"),
        *validate_pod_resources(rules, spec, path),
        *validate_host_ports(rules, spec, path),
        *choose(spec.get("restartPolicy"), _RESTART_POLICIES, f"{path}.restartPolicy"),
        *validate_dns(rules, spec, path),
        *validate_pod_security(rules, spec, path),
        *validate_placement(rules, spec, path),
        *_validate_readiness(rules, spec, f"{path}.readinessGates"),
        *validate_host_processes(spec, path),
        *validate_host_users(rules, spec, path),
        *validate_host_name(spec, path),
    ]
    for field, faults_of in _NAMES:
        if text := spec.get(field):
            errors += refused(text, f"{path}.{field}", faults_of(text))
    errors += in_range(spec.get("activeDeadlineSeconds"), 1, _MAX_INT32, f"{path}.activeDeadlineSeconds")
    errors += validate_host_aliases(rules, spec, path)
    runtime, preemption = spec.get("runtimeClassName"), spec.get("preemptionPolicy")
    if runtime is not None:
        errors += refused(runtime, f"{path}.runtimeClassName", is_dns_subdomain(runtime))
    if preemption is not None:
        errors += choose(preemption, PREEMPTION_POLICIES, f"{path}.preemptionPolicy")
    if spec.get("overhead") is not None:
        errors += validate_requirements(rules, {"limits": spec["overhead"]}, frozenset(), f"{path}.overhead")
    return errors + validate_system(rules, spec, path) + validate_files_of_variables(spec, path)


def _validate_readiness(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    return [
        error
        for place, gate in enumerate(spec.get("readinessGates") or ())
        for error in refused(
            gate.get("conditionType") or "",
            f"{path}[{place}].conditionType",
            is_qualified_name(gate.get("conditionType") or "", rules.release),
        )
    ]
