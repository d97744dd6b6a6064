"""What an API server refuses in the variables of containers, and in references to fields and resources of a pod.

Source: pkg/apis/core/validation/validation.go, ``ValidateEnv``, ``validateEnvVarValueFrom``, ``ValidateEnvFrom``,
``validateObjectFieldSelector``, ``validateContainerResourceFieldSelector``, ``validateFileKeyRefVolumes``;
pkg/apis/core/pods/helpers.go, ``ConvertDownwardAPIFieldLabel``; pkg/fieldpath/fieldpath.go,
``SplitMaybeSubscriptedPath`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....model.resources import canonical_quantity, parse_quantity
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_dns_label, is_dns_subdomain, is_qualified_name
from .checks import (
    Fields,
    PodRules,
    check_path_steps,
    containers_of,
    is_config_key,
    is_variable_name,
    refused,
    required,
    variable_name_faults,
)

__all__ = [
    "ENV_FILES",
    "FIELDS_OF_FILES",
    "validate_env",
    "validate_env_from",
    "validate_field_reference",
    "validate_files_of_variables",
    "validate_resource_reference",
]

ENV_FILES: Final = "EnvFiles"
_METADATA: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
_MAPS: Final = ("metadata.annotations", "metadata.labels")
_HOST_IPS: Final = "status.hostIPs"
_KNOWS_HOST_IPS: Final = Difference(
    "variables may have `status.hostIPs`, where its gate is on",
    {"1.26": False, "1.28": True},
    "pkg/apis/core/validation/validation.go, ``validateDownwardAPIHostIPs``; pkg/apis/core/pods/helpers.go, "
    "``ConvertDownwardAPIFieldLabel`` (kubernetes v1.27.16, v1.28.15)",
)
_OF_STATUS: Final = ("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
_FIELDS_OF_VARIABLES: Final = (*_METADATA, "spec.nodeName", "spec.serviceAccountName", *_OF_STATUS)
FIELDS_OF_FILES: Final = tuple(sorted((*_METADATA, *_MAPS)))
_LABELS: Final = (
    *_METADATA,
    *_MAPS,
    *(f"spec.{name}" for name in ("nodeName", "restartPolicy", "serviceAccountName", "schedulerName")),
    "status.phase",
    *_OF_STATUS,
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_DIVISORS: Final = (
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
)  # fmt: skip
_DIVISOR_RULE: Final = f"only divisor's values {', '.join(_DIVISORS)} are supported with the {{}} resource"
_CPU_RULE: Final = "only divisor's values 1m and 1 are supported with the cpu resource"
_ONE_SOURCE: Final = "may not have more than one field specified at a time"
_NO_VALUE: Final = "may not be specified when `value` is not empty"


def validate_env(rules: PodRules, variables: Sequence[Fields], path: str) -> list[FieldError]:
    """What is wrong with ``env``."""
    errors: list[FieldError] = []
    for place, variable in enumerate(variables):
        where, name = f"{path}[{place}]", variable.get("name") or ""
        if name:
            errors += refused(name, f"{where}.name", variable_name_faults(rules, name))
        else:
            errors.append(FieldError.required(f"{where}.name"))
        if variable.get("valueFrom") is not None:
            errors += _validate_source(rules, variable, f"{where}.valueFrom")
    return errors


def _validate_source(rules: PodRules, variable: Fields, path: str) -> list[FieldError]:
    sources = variable["valueFrom"]
    given = [name for name in _SOURCES if sources.get(name) is not None]
    errors = [error for name in given for error in _SOURCES[name](rules, sources[name], f"{path}.{name}")]
    if not given:
        last = "`secretKeyRef` or `fileKeyRef`" if rules.allows(ENV_FILES) else ""
        known = f"`configMapKeyRef`, {last}" if last else "`configMapKeyRef` or `secretKeyRef`"
        text = f"must specify one of: `fieldRef`, `resourceFieldRef`, {known}"
    elif variable.get("value"):
        text = _NO_VALUE
    elif len(given) > 1:
        text = _ONE_SOURCE
    else:
        return errors
    return [*errors, FieldError.invalid(path, "", text)]


def validate_env_from(rules: PodRules, sources: Sequence[Fields], path: str) -> list[FieldError]:
    """What is wrong with ``envFrom``."""
    errors: list[FieldError] = []
    for place, source in enumerate(sources):
        where, prefix = f"{path}[{place}]", source.get("prefix") or ""
        if prefix:
            errors += refused(prefix, f"{where}.prefix", variable_name_faults(rules, prefix))
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for kind in given:
            name = source[kind].get("name") or ""
            # A name may end as that of many does.
            errors += required(source[kind], "name", f"{where}.{kind}")
            errors += refused(name, f"{where}.{kind}.name", _prefix_faults(name)) if name else []
        if len(given) != 1:
            text = _ONE_SOURCE if given else "must specify one of: `configMapRef` or `secretRef`"
            errors.append(FieldError.invalid(path, "", text))
    return errors


def _prefix_faults(name: str) -> list[str]:
    """What keeps a text from being the beginning of a name."""
    return is_dns_subdomain(f"{name[:-1]}a" if name.endswith("-") else name)


def validate_field_reference(rules: PodRules, reference: Fields, known: Sequence[str], path: str) -> list[FieldError]:
    """What is wrong with a reference to a field of the pod, of which `known` can be had without a subscript."""
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        return [FieldError.required(f"{path}.apiVersion")]
    if not field:
        return [FieldError.required(f"{path}.fieldPath")]
    name, key = _subscripted(field)
    fault = ""
    if version != "v1":
        fault = f"unsupported pod version: {version}"
    elif key is not None and name not in _MAPS:
        fault = f"field label does not support subscript: {field}"
    elif (
        key is None
        and name != "spec.host"
        and (name not in _LABELS or (name == _HOST_IPS and not rules.of(_KNOWS_HOST_IPS)))
    ):
        fault = f"field label not supported: {field}"
    if fault:
        return [FieldError.invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {fault}")]
    if key is not None:
        key = key.lower() if name == "metadata.annotations" else key
        return refused(key, path, is_qualified_name(key, rules.release))
    name = "spec.nodeName" if name == "spec.host" else name
    if not rules.of(_KNOWS_HOST_IPS):
        known = [each for each in known if each != _HOST_IPS]
    errors = [] if name in known else [FieldError.not_supported(f"{path}.fieldPath", name, known)]
    if name == _HOST_IPS and not rules.allows("PodHostIPs"):
        errors.append(FieldError.forbidden(path, "may not be set when feature gate 'PodHostIPs' is not enabled"))
    return errors


def _subscripted(field: str) -> tuple[str, str | None]:
    name, bracket, key = field.removesuffix("']").partition("['")
    return (name, key) if field.endswith("']") and bracket and name else (field, None)


def _validate_variable_field(rules: PodRules, reference: Fields, path: str) -> list[FieldError]:
    return validate_field_reference(rules, reference, _FIELDS_OF_VARIABLES, path)


def validate_resource_reference(reference: Fields, path: str, *, is_file: bool = False) -> list[FieldError]:
    """What is wrong with a reference to a resource of a container."""
    name, errors = reference.get("resource") or "", []
    if is_file and not reference.get("containerName"):
        errors.append(FieldError.required(f"{path}.containerName"))
    elif not name:
        errors.append(FieldError.required(f"{path}.resource"))
    elif name not in _RESOURCES and not name.startswith(_PAGES):
        errors.append(FieldError.not_supported(f"{path}.resource", name, _RESOURCES))
    divisor = reference.get("divisor") or "0"
    if not parse_quantity(divisor):
        return errors
    short, rule = name.partition(".")[2], ""
    if name in _RESOURCES:
        short = "local ephemeral storage" if short == "ephemeral-storage" else short
        rule = _CPU_RULE if short == "cpu" else _DIVISOR_RULE.format(short)
    elif name.startswith(_PAGES):
        rule = _DIVISOR_RULE.format("hugepages")
    if rule and canonical_quantity(divisor) not in (("1m", "1") if rule == _CPU_RULE else _DIVISORS):
        errors.append(FieldError.invalid(f"{path}.divisor", name, rule))
    return errors


def _validate_key_reference(_: PodRules, reference: Fields, path: str) -> list[FieldError]:
    name, key = reference.get("name") or "", reference.get("key") or ""
    errors = refused(name, f"{path}.name", is_dns_subdomain(name))
    return errors + (refused(key, f"{path}.key", is_config_key(key)) if key else [FieldError.required(f"{path}.key")])


def _validate_file_reference(_: PodRules, reference: Fields, path: str) -> list[FieldError]:
    checks: dict[str, Callable[[str, str], list[FieldError]]] = {
        "key": lambda text, at: refused(text, at, is_variable_name(text)),
        "volumeName": lambda text, at: refused(text, at, is_dns_label(text)),
        "path": check_path_steps,
    }
    errors: list[FieldError] = []
    for name, check in checks.items():
        text = reference.get(name) or ""
        errors += check(text, f"{path}.{name}") if text else [FieldError.required(f"{path}.{name}")]
    return errors


_SOURCES: Final[dict[str, Callable[[PodRules, Fields, str], list[FieldError]]]] = {
    "fieldRef": _validate_variable_field,
    "resourceFieldRef": lambda _, reference, path: validate_resource_reference(reference, path),
    "configMapKeyRef": _validate_key_reference,
    "secretKeyRef": _validate_key_reference,
    "fileKeyRef": _validate_file_reference,
}
"""Where a variable's value may come from -> what is wrong with that."""


def validate_files_of_variables(spec: Fields, path: str) -> list[FieldError]:
    """Refuse files with variables that are in no ``emptyDir`` of the pod."""
    volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
    errors: list[FieldError] = []
    for container, where in containers_of(spec, path):
        for place, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            name, at = reference.get("volumeName") or "", f"{where}.env[{place}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(FieldError.not_found(at, name))
            elif volumes[name].get("emptyDir") is None:
                errors.append(FieldError.invalid(at, name, "referenced volume must be of type emptyDir"))
    return errors
