"""What an API server refuses in annotations of pods that have a meaning: mirrors, seccomp, AppArmor, costs.

Source: pkg/apis/core/validation/validation.go, ``ValidatePodSpecificAnnotations``,
``ValidatePodSpecificAnnotationUpdates``, ``validateSeccompAnnotationsAndFields``,
``validateAppArmorAnnotationsAndFieldsMatchOnCreate`` (kubernetes v1.34.4); pkg/registry/core/pod/strategy.go,
``applyAppArmorVersionSkew``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from ....golang.text import quoted
from ....model.pod import MIRROR_ANNOTATION
from ....model.version import Difference
from ...api.errors import FieldError
from ...objects.objects import JSON
from ..rules import Rules
from .checks import Fields, check_relative_path, containers_of
from .gates import HAS_APP_ARMOR
from .security import app_armor_errors

__all__ = [
    "apply_app_armor",
    "validate_annotation_updates",
    "validate_pod_annotations",
    "validate_profiles",
]

_Annotations: TypeAlias = Mapping[str, str]

_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_LOCAL: Final = "localhost/"
_WRITES_ANNOTATIONS: Final = Difference(
    "the API server writes an `appArmorProfile` into an annotation for older kubelets, too",
    {"1.26": False, "1.30": True, "1.34": False},
    "pkg/registry/core/pod/strategy.go, ``applyAppArmorVersionSkew`` (kubernetes v1.29.6, v1.30.14, v1.33.13, v1.34.4)",
)
_MAX_INT32: Final = 2**31 - 1


def _has_bad_cost(annotations: _Annotations) -> bool:
    """Whether the annotation with a pod's cost of deletion has no such number."""
    cost = annotations.get(_COST)
    if cost is None:
        return False
    is_number = re.fullmatch("0|-[0-9]+|[1-9][0-9]*", cost, re.ASCII) is not None
    return not is_number or not -_MAX_INT32 - 1 <= int(cost) <= _MAX_INT32


def validate_pod_annotations(annotations: _Annotations, spec: Fields, path: str) -> list[FieldError]:
    """What is wrong with the annotations of a pod or a template."""
    errors: list[FieldError] = []
    if MIRROR_ANNOTATION in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(FieldError.invalid(f"{path}[{MIRROR_ANNOTATION}]", annotations[MIRROR_ANNOTATION], text))
    if _has_bad_cost(annotations):
        errors.append(FieldError.invalid(f"{path}[{_COST}]", annotations[_COST], "must be a 32bit integer"))
    names = {container.get("name") or "" for container, _ in containers_of(spec, "")}
    for key, profile in sorted(annotations.items()):
        if key == _SECCOMP or key.startswith(_SECCOMP_OF):
            errors += _seccomp_errors(profile, f"{path}.{key}")
        elif key.startswith(_APP_ARMOR):
            name, where = key.removeprefix(_APP_ARMOR), f"{path}[{key}]"
            if name not in names:
                errors.append(FieldError.invalid(where, name, "container not found"))
            if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCAL):
                text = f"invalid AppArmor profile name: {quoted(profile)}"
                errors.append(FieldError.invalid(where, profile, text))
    return errors


def _seccomp_errors(profile: str, path: str) -> list[FieldError]:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return []
    if profile.startswith(_LOCAL):
        return check_relative_path(profile.removeprefix(_LOCAL), path)
    return [FieldError.invalid(path, profile, "must be a valid seccomp profile")]


def validate_annotation_updates(new: _Annotations, old: _Annotations, path: str) -> list[FieldError]:
    """What an update may not change."""
    errors = []
    for key in sorted({*new, *old}):
        if new.get(key) == old.get(key) or not (key == MIRROR_ANNOTATION or key.startswith(_APP_ARMOR)):
            continue
        verb = "remove or update" if key in old else "add"
        what = "mirror pod annotation" if key == MIRROR_ANNOTATION else "AppArmor annotations"
        errors.append(FieldError.forbidden(f"{path}[{key}]", f"may not {verb} {what}"))
    return errors


def validate_profiles(annotations: _Annotations, spec: Fields, path: str) -> list[FieldError]:
    """Refuse annotations of a new pod or a template that name other profiles than its fields; `path` is the spec's."""
    errors = _validate_seccomp(annotations, spec, path)
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, where in containers_of(spec, path):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        profile = of_pod if own is None else own
        annotation = annotations.get(f"{_APP_ARMOR}{container.get('name') or ''}")
        if profile is not None and annotation is not None:
            errors += _differing(annotation, profile, "apparmor", f"{where}.securityContext.appArmorProfile")
    return errors


def _validate_seccomp(annotations: _Annotations, spec: Fields, path: str) -> list[FieldError]:
    places = [(spec, path, _SECCOMP)]
    places += [
        (container, where, f"{_SECCOMP_OF}{container.get('name') or ''}")
        for container, where in containers_of(spec, path)
    ]
    errors: list[FieldError] = []
    for part, where, key in places:
        profile = (part.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            errors += _differing(annotations[key], profile, "seccomp", f"{where}.securityContext.seccompProfile")
    return errors


def _differing(annotation: str, profile: Fields, what: str, path: str) -> list[FieldError]:
    kind = profile.get("type") or ""
    defaults = ("runtime/default", "docker/default") if what == "seccomp" else ("runtime/default",)
    known = {"Unconfined": ("unconfined",), "RuntimeDefault": defaults}
    if kind in known:
        is_same = annotation in known[kind]
    elif kind == "Localhost":
        is_same = annotation.startswith(_LOCAL)
        if is_same and annotation.removeprefix(_LOCAL) != profile.get("localhostProfile"):
            text = f"{what} profile in annotation and field must match"
            return [FieldError.forbidden(f"{path}.localhostProfile", text)]
    else:
        return []
    text = f"{what} type in annotation and field must match"
    return [] if is_same else [FieldError.forbidden(f"{path}.type", text)]


def apply_app_armor(pod: JSON, rules: Rules) -> None:
    """Write the profiles of a new pod's annotations into its containers, and the reverse where kubelets need it.

    The containers are the caller's own.
    """
    spec, annotations = pod["spec"], pod["metadata"].get("annotations") or {}
    if HAS_APP_ARMOR not in rules.gates or (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            key = f"{_APP_ARMOR}{container.get('name') or ''}"
            security = container.get("securityContext") or {}
            own, annotation = security.get("appArmorProfile"), annotations.get(key)
            if annotation is None and rules.of(_WRITES_ANNOTATIONS):
                annotations = _with_profile(pod, key, of_pod if own is None else own)
            if annotation is None or own is not None:
                continue
            profile = _profile_of(annotation)
            if profile is not None and profile != of_pod and not app_armor_errors(profile, ""):
                container["securityContext"] = {**security, "appArmorProfile": profile}


def _with_profile(pod: JSON, key: str, profile: JSON | None) -> _Annotations:
    """Write a profile into an annotation, where there is one for it, and return all annotations."""
    kind, local = (profile or {}).get("type"), (profile or {}).get("localhostProfile")
    written = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}.get(kind or "")
    if kind == "Localhost" and local is not None:
        written = f"{_LOCAL}{local}"
    annotations: JSON = pod["metadata"].get("annotations") or {}
    if written:
        annotations = pod["metadata"]["annotations"] = {**annotations, key: written}
    return annotations


def _profile_of(annotation: str) -> JSON | None:
    known = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
    if annotation in known:
        return {"type": known[annotation]}
    local = annotation.removeprefix(_LOCAL)
    return {"type": "Localhost", "localhostProfile": local} if annotation.startswith(_LOCAL) and local else None
