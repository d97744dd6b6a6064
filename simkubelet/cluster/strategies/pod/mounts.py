"""What an API server refuses in the volumes and devices that containers mount.

Paths are the real ones: those of some fields leave out which mount it is.

Source: pkg/apis/core/validation/validation.go, ``ValidateVolumeMounts``, ``ValidateVolumeDevices``,
``validateMountPropagation``, ``validateMountRecursiveReadOnly`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...api.errors import FieldError
from .checks import Fields, among, check_path_steps, check_relative_path, required

__all__ = ["validate_devices", "validate_mounts"]

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_NO_CLAIM: Final = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"


def validate_mounts(container: Fields, volumes: Mapping[str, Fields], path: str) -> list[FieldError]:
    """What is wrong with a container's ``volumeMounts``; `volumes` are the pod's by name."""
    devices = {device.get("name") or "": device.get("devicePath") or "" for device in _devices(container)}
    errors: list[FieldError] = []
    places: set[str] = set()
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        where, name, place = f"{path}[{number}]", mount.get("name") or "", mount.get("mountPath") or ""
        errors += required(mount, "name", where)
        if name not in volumes:
            errors.append(FieldError.not_found(f"{where}.name", name))
        errors += required(mount, "mountPath", where)
        if place in places:
            errors.append(FieldError.invalid(f"{where}.mountPath", place, "must be unique"))
        places.add(place)
        if name in devices:
            errors.append(FieldError.invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if place in devices.values():
            text = "must not already exist as a path in volumeDevices"
            errors.append(FieldError.invalid(f"{where}.mountPath", place, text))
        errors += _validate_sub_paths(mount, path, where)
        errors += _validate_propagation(mount.get("mountPropagation"), container, f"{path}.mountPropagation")
        errors += _validate_recursion(mount, f"{path}.recursiveReadOnly")
    return errors


def _validate_sub_paths(mount: Fields, path: str, where: str) -> list[FieldError]:
    sub_path, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    errors = check_relative_path(sub_path, f"{path}.subPath") if sub_path else []
    if expression and sub_path:
        text = "subPathExpr and subPath are mutually exclusive"
        errors.append(FieldError.invalid(f"{where}.subPathExpr", expression, text))
    return errors + (check_relative_path(expression, f"{path}.subPathExpr") if expression else [])


def _validate_propagation(propagation: str | None, container: Fields, path: str) -> list[FieldError]:
    errors = among(propagation, _PROPAGATIONS, path)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(FieldError.forbidden(path, text))
    return errors


def _validate_recursion(mount: Fields, path: str) -> list[FieldError]:
    mode = mount.get("recursiveReadOnly")
    errors = among(mode, _RECURSIVE, path)
    if mode in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(FieldError.forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation") not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            errors.append(FieldError.forbidden(path, text))
    return errors


def validate_devices(container: Fields, volumes: Mapping[str, Fields], path: str) -> list[FieldError]:
    """What is wrong with a container's ``volumeDevices``; `volumes` are the pod's by name."""
    mounts = {each.get("name") or "": each.get("mountPath") or "" for each in container.get("volumeMounts") or ()}
    errors: list[FieldError] = []
    names: set[str] = set()
    places: set[str] = set()
    for number, device in enumerate(_devices(container)):
        where, name, place = f"{path}[{number}]", device.get("name") or "", device.get("devicePath") or ""
        errors += required(device, "name", where)
        if name in names:
            errors.append(FieldError.invalid(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(FieldError.not_found(f"{where}.name", name))
        elif not {"persistentVolumeClaim", "ephemeral"} & volumes[name].keys():
            errors.append(FieldError.invalid(f"{where}.name", name, _NO_CLAIM))
        errors += required(device, "devicePath", where)
        if place in places:
            errors.append(FieldError.invalid(f"{where}.devicePath", place, "must be unique"))
        if check_path_steps(place, ""):
            errors.append(FieldError.invalid(f"{where}.devicePath", place, "can not contain backsteps ('..')"))
        else:
            places.add(place)
        if name in mounts:
            errors.append(FieldError.invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        if place in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            errors.append(FieldError.invalid(f"{where}.devicePath", place, text))
        names.update((name,) if name else ())
    return errors


def _devices(container: Fields) -> list[Fields]:
    return list(container.get("volumeDevices") or ())
