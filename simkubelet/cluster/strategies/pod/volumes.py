"""What an API server refuses in the volumes of a pod: their names, and what each type needs.

The paths are the real ones, a few of which are not those of the fields.

Source: pkg/apis/core/validation/validation.go, ``ValidateVolumes``, ``validateVolumeSource`` and what it calls
(kubernetes v1.34.4, v1.35.4, v1.37.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from ....model.resources import parse_quantity
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_dns_label, is_dns_subdomain
from .checks import (
    Fields,
    PodRules,
    among,
    check_file_mode,
    check_path_steps,
    check_relative_path,
    choose,
    in_range,
    refused,
    required,
)
from .claim_templates import validate_claim_template
from .projections import validate_downward_files, validate_items, validate_projected

__all__ = ["validate_volumes"]

_Check: TypeAlias = Callable[[PodRules, Fields, str], list[FieldError]]

_ONE_ONLY: Final = "may not specify more than 1 volume type"
_HOST_PATHS: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_IQN: Final = re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII)
_EUI: Final = re.compile(r"^eui.[A-Za-z0-9]{16}$")
_NAA: Final = re.compile(r"^naa.[A-Za-z0-9]{32}$")
_NAMES_OF_DISKS: Final = {"iqn": _IQN, "eui": _EUI, "naa": _NAA}
_NO_DISK_NAME: Final = "must be valid format starting with iqn, eui, or naa"
_LONG_ISCSI: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName "
    "is specified."
)
_REGISTRY: Final = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_CREATED: Final = "must not reference a PVC that gets created for an ephemeral volume"
_NAMELESS_DRIVER: Final = Difference(
    "of a CSI driver without a name only that is said",
    {"1.26": False, "1.35": True},
    "pkg/apis/core/validation/validation.go, ``ValidateCSIDriverName`` (kubernetes v1.34.4, v1.35.4)",
)
_IN_TEMPLATES: Final = Difference(
    "an image volume of a template needs a reference, too",
    {"1.26": False, "1.37": True},
    "pkg/apis/core/validation/validation.go, ``validateImageVolumeSource`` (kubernetes v1.36.3, v1.37.0)",
)


def validate_volumes(
    rules: PodRules, volumes: Sequence[Fields], pod_name: str, path: str
) -> tuple[dict[str, Fields], list[FieldError]]:
    """The volumes without fault by their names, and what is wrong with the others.

    Args:
        rules: of the pod.
        volumes: of its spec.
        pod_name: empty where it is not known, as in a template.
        path: of the volumes.
    """
    created = {
        f"{pod_name}-{volume.get('name') or ''}"
        for volume in volumes
        if pod_name and volume.get("ephemeral") is not None
    }
    found: dict[str, Fields] = {}
    errors: list[FieldError] = []
    for place, volume in enumerate(volumes):
        where, name = f"{path}[{place}]", volume.get("name") or ""
        faults = _validate_source(rules, volume, pod_name, where)
        faults += refused(name, f"{where}.name", is_dns_label(name)) if name else [FieldError.required(f"{where}.name")]
        if name in found:
            faults.append(FieldError.duplicate(f"{where}.name", name))
        if not faults:
            found[name] = volume
        errors += faults
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim in created:
            errors.append(FieldError.invalid(f"{where}.persistentVolumeClaim.claimName", claim, _CREATED))
    return found, errors


def _validate_source(rules: PodRules, volume: Fields, pod_name: str, path: str) -> list[FieldError]:
    given = [kind for kind in _SOURCES if volume.get(kind) is not None]
    if not given:
        return [FieldError.required(path, "must specify a volume type")]
    first, *others = given
    errors = _SOURCES[first](rules, volume[first], f"{path}.{_PATHS.get(first, first)}")
    errors += [FieldError.forbidden(f"{path}.{_SHOWN.get(kind, kind)}", _ONE_ONLY) for kind in others]
    name, disk = volume.get("name") or "", volume.get("iscsi") or {}
    if "initiatorName" in disk and len(f"{name}:{disk.get('targetPortal') or ''}".encode()) > 64:
        errors.append(FieldError.invalid(f"{path}.name", name, _LONG_ISCSI))
    if first == "ephemeral" and pod_name and name:
        claim = f"{pod_name}-{name}"
        faults = [f'PVC name "{claim}": {fault}' for fault in is_dns_subdomain(claim)]
        errors += refused(name, f"{path}.name", faults)
    return errors


def _needs(*names: str) -> _Check:
    """What fields must be set."""

    def check(_: PodRules, source: Fields, path: str) -> list[FieldError]:
        return [error for name in names for error in required(source, name, path)]

    return check


def _all(*checks: _Check) -> _Check:
    def check(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
        return [error for one in checks for error in one(rules, source, path)]

    return check


def _empty_dir(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    size = source.get("sizeLimit")
    if size is None or parse_quantity(size) >= 0:
        return []
    return [FieldError.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def _host_path(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    if not source.get("path"):
        return [FieldError.required(f"{path}.path")]
    return check_path_steps(source["path"], f"{path}.path") + among(source.get("type"), _HOST_PATHS, f"{path}.type")


def _folder_of_git(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    return check_relative_path(source.get("directory") or "", f"{path}.directory")


def _partition(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    partition = source.get("partition") or 0
    # The text is that of another range.
    text = "must be between 1 and 255, inclusive"
    return [] if 0 <= partition <= 255 else [FieldError.invalid(f"{path}.partition", partition, text)]


def _keys(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
    errors = check_file_mode(source, "defaultMode", path)
    return errors + validate_items(source.get("items") or (), f"{path}.items")


def _network_path(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    place = source.get("path") or ""
    return [] if place.startswith("/") else [FieldError.invalid(f"{path}.path", place, "must be an absolute path")]


def _iscsi(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    errors = []
    if source.get("iqn"):
        errors += _disk_name(source["iqn"], f"{path}.iqn")
    errors += in_range(source.get("lun") or 0, 0, 255, f"{path}.lun")
    uses_secret = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if uses_secret and source.get("secretRef") is None:
        errors.append(FieldError.required(f"{path}.secretRef"))
    if "initiatorName" in source:
        errors += _disk_name(source["initiatorName"], f"{path}.initiatorname")
    return errors


def _disk_name(name: str, path: str) -> list[FieldError]:
    pattern = _NAMES_OF_DISKS.get(name[:3])
    if pattern is None:
        return [FieldError.invalid(path, name, _NO_DISK_NAME)]
    return [] if pattern.search(name) else [FieldError.invalid(path, name, "must be valid format")]


def _fibre_channel(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    names, ids, lun = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    where, errors = f"{path}.targetWWNs", []
    if not names and not ids:
        errors.append(FieldError.required(where, "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(FieldError.invalid(where, list(names), text))
    if names and lun is None:
        errors.append(FieldError.required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    return errors + (in_range(lun, 0, 255, f"{path}.lun") if names else [])


def _flocker(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    name, uid = source.get("datasetName") or "", source.get("datasetUUID") or ""
    errors = []
    if not name and not uid:
        errors.append(FieldError.required(path, "one of datasetName and datasetUUID is required"))
    if name and uid:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(FieldError.invalid(path, "resource", text))
    if "/" in name:
        errors.append(FieldError.invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _quobyte(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    registry, errors = source.get("registry") or "", required(source, "volume", path)
    if not registry:
        errors.append(FieldError.required(f"{path}.registry", _REGISTRY))
    elif len((source.get("tenant") or "").encode()) >= 65:
        text = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(FieldError.required(f"{path}.tenant", text))
    else:
        errors += [
            FieldError.invalid(f"{path}.registry", registry, _REGISTRY)
            for pair in registry.split(",")
            if not re.fullmatch(r"([^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*", pair)
        ]
    return errors


def _secret_name(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    secret = source.get("secretRef")
    return [] if secret is None else required(secret, "name", f"{path}.secretRef")


def _flex_options(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    text = "kubernetes.io and k8s.io namespaces are reserved"
    return [
        FieldError.invalid(f"{path}.options[{key}]", key, text)
        for key in source.get("options") or {}
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io"))
    ]


def _azure_disk(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    uri, kind = source.get("diskURI") or "", source.get("kind")
    errors = among(source.get("cachingMode"), ("None", "ReadOnly", "ReadWrite"), f"{path}.cachingMode")
    errors += among(kind, ("Dedicated", "Managed", "Shared"), f"{path}.kind")
    if kind is not None:
        begin, shown = ("/subscriptions/", _MANAGED) if kind == "Managed" else ("https://", _BLOB)
        errors += [] if uri.startswith(begin) else [FieldError.not_supported(f"{path}.diskURI", uri, [shown])]
    return errors


def _storage_os(_: PodRules, source: Fields, path: str) -> list[FieldError]:
    names = ((name, source.get(name)) for name in ("volumeName", "volumeNamespace"))
    return [error for name, text in names if text for error in refused(text, f"{path}.{name}", is_dns_label(text))]


def _csi(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
    driver, secret, errors = (
        source.get("driver") or "",
        source.get("nodePublishSecretRef"),
        required(source, "driver", path),
    )
    if driver or not rules.of(_NAMELESS_DRIVER):
        errors += [FieldError.too_long(f"{path}.driver", 63)] if len(driver.encode()) > 63 else []
        errors += refused(driver, f"{path}.driver", is_dns_subdomain(driver.lower()))
    if secret is not None:
        name = secret.get("name") or ""
        errors += required(secret, "name", f"{path}.nodePublishSecretRef")
        errors += refused(name, f"{path}.name", is_dns_subdomain(name)) if name else []
    return errors


def _ephemeral(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
    template, where = source.get("volumeClaimTemplate"), f"{path}.volumeClaimTemplate"
    return [FieldError.required(where)] if template is None else validate_claim_template(rules, template, where)


def _image(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
    needs_reference = not rules.is_template or rules.of(_IN_TEMPLATES)
    errors = required(source, "reference", path) if needs_reference else []
    return errors + choose(source.get("pullPolicy"), _PULL_POLICIES, f"{path}.pullPolicy")


def _downward(rules: PodRules, source: Fields, path: str) -> list[FieldError]:
    errors = check_file_mode(source, "defaultMode", path)
    return errors + validate_downward_files(rules, source.get("items") or (), path)


_SOURCES: Final[Mapping[str, _Check]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _all(_needs("repository"), _folder_of_git),
    "gcePersistentDisk": _all(_needs("pdName"), _partition),
    "awsElasticBlockStore": _all(_needs("volumeID"), _partition),
    "secret": _all(_needs("secretName"), _keys),
    "nfs": _all(_needs("server", "path"), _network_path),
    "iscsi": _all(_needs("targetPortal", "iqn"), _iscsi),
    "glusterfs": _needs("endpoints", "path"),
    "flocker": _flocker,
    "persistentVolumeClaim": _needs("claimName"),
    "rbd": _needs("monitors", "image"),
    "cinder": _all(_needs("volumeID"), _secret_name),
    "cephfs": _needs("monitors"),
    "quobyte": _quobyte,
    "downwardAPI": _downward,
    "fc": _fibre_channel,
    "flexVolume": _all(_needs("driver"), _flex_options),
    "configMap": _all(_needs("name"), _keys),
    "azureFile": _needs("secretName", "shareName"),
    "vsphereVolume": _needs("volumePath"),
    "photonPersistentDisk": _needs("pdID"),
    "portworxVolume": _needs("volumeID"),
    "azureDisk": _all(_needs("diskName", "diskURI"), _azure_disk),
    "storageos": _all(_needs("volumeName"), _storage_os, _secret_name),
    "projected": validate_projected,
    "scaleIO": _needs("gateway", "system", "volumeName"),
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
"""Type of a volume -> what is wrong with it, in the order in which a server looks for types."""
_PATHS: Final = {"gcePersistentDisk": "persistentDisk"}
"""Type -> its name in the paths of what is wrong with it, where that is another one."""
_SHOWN: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""The same where there is another type before it."""
