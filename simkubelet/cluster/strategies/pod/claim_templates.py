"""What an API server refuses in the template of a PersistentVolumeClaim of a pod's volume.

Source: pkg/apis/core/validation/validation.go, ``ValidatePersistentVolumeClaimTemplate``,
``ValidatePersistentVolumeClaimSpec`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....model.resources import parse_quantity
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.metadata import validate_annotations
from ...api.registry.names import is_dns_label, is_dns_subdomain
from .checks import Fields, PodRules, among, refused, required
from .scheduling import validate_label_selector, validate_labels

__all__ = ["validate_claim_template"]

_SHARED_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
_ONE_POD: Final = "ReadWriteOncePod"
_CLAIM: Final = "PersistentVolumeClaim"
_CHECKS_GROUPS: Final = Difference(
    "the group of the source of a volume has to be a name of DNS",
    {"1.26": False, "1.29": True},
    "pkg/apis/core/validation/validation.go, ``validateDataSource``, ``validateDataSourceRef`` "
    "(kubernetes v1.28.15, v1.29.6)",
)
_FIELDS: Final = ("labels", "annotations")


def validate_claim_template(rules: PodRules, template: Fields, path: str) -> list[FieldError]:
    """What is wrong with a ``volumeClaimTemplate``."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    where, at = f"{path}.metadata", f"{path}.spec"
    return [
        *validate_annotations(metadata.get("annotations") or {}, f"{where}.annotations", rules.release),
        *validate_labels(metadata.get("labels") or {}, f"{where}.labels", rules.release),
        *(FieldError.forbidden(f"{where}.{name}", "cannot be set") for name in metadata if name not in _FIELDS),
        *_validate_modes(rules, spec.get("accessModes") or (), f"{at}.accessModes"),
        *validate_label_selector(spec.get("selector"), f"{at}.selector", rules.release),
        *_validate_size((spec.get("resources") or {}).get("requests") or {}, f"{at}.resources[storage]"),
        *_validate_class(spec, "storageClassName", at),
        *among(spec.get("volumeMode"), ("Block", "Filesystem"), f"{at}.volumeMode"),
        *_validate_sources(rules, spec, at),
        *(_validate_class(spec, "volumeAttributesClassName", at) if rules.allows("VolumeAttributesClass") else ()),
    ]


def _validate_modes(rules: PodRules, modes: Sequence[str], path: str) -> list[FieldError]:
    if not modes:
        return [FieldError.required(path, "at least 1 access mode is required")]
    allowed = (*_SHARED_MODES, *([_ONE_POD] if rules.allows(_ONE_POD) else []))
    errors = [error for mode in modes for error in among(mode, allowed, path)]
    if _ONE_POD in modes and set(modes) & set(_SHARED_MODES):
        errors.append(FieldError.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def _validate_size(requests: Fields, path: str) -> list[FieldError]:
    if "storage" not in requests:
        return [FieldError.required(path)]
    size = requests["storage"]
    return [] if parse_quantity(size) > 0 else [FieldError.invalid(path, str(size), "must be greater than zero")]


def _validate_class(spec: Fields, name: str, path: str) -> list[FieldError]:
    found = spec.get(name)
    return refused(found, f"{path}.{name}", is_dns_subdomain(found)) if found else []


def _validate_sources(rules: PodRules, spec: Fields, path: str) -> list[FieldError]:
    source, other = spec.get("dataSource"), spec.get("dataSourceRef")
    errors = [] if source is None else _validate_source(rules, source, f"{path}.dataSource")
    if other is not None:
        errors += _validate_source(rules, other, f"{path}.dataSourceRef")
        if namespace := other.get("namespace"):
            errors += refused(namespace, f"{path}.dataSourceRef.namespace", is_dns_label(namespace))
    if source is None or other is None:
        return errors
    fields = ("apiGroup", "kind", "name")
    text = ""
    if other.get("namespace"):
        text = "may not be specified when dataSourceRef.namespace is specified"
    elif any(source.get(name) != other.get(name) for name in fields):
        text = "must match dataSourceRef"
    # The value is the real one: a path, of which nothing can be written.
    return [*errors, FieldError.invalid(path, {}, text)] if text else errors


def _validate_source(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    errors = required(source, "name", path) + required(source, "kind", path)
    if not group and kind != _CLAIM:
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(FieldError.invalid(path, kind, text))
    is_checked = group and rules.of(_CHECKS_GROUPS)
    return errors + (refused(group, f"{path}.apiGroup", is_dns_subdomain(group)) if is_checked else [])
