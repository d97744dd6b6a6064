"""The sections ``sharing.timeSlicing`` and ``sharing.mps``.

Names and single devices may be given but are not yet supported by the original: what it makes of them is made here.

Source: api/config/v1/replicas.go (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Any, Final

from ...framework import ResourceName
from .decoding import ConfigError, Place, boolean, go_json, integer, items, raw_object, string
from .settings import ReplicatedResource, ReplicatedResources

__all__ = ["SharingSection", "decode_section", "resource_name"]

_SHARED_SUFFIX: Final = ".shared"
_FEWEST_REPLICAS: Final = 2
_LARGEST_INDEX: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SharingSection:
    """A section as it counts, and what of it does not."""

    resources: ReplicatedResources
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Resource:
    name: ResourceName
    replicas: int
    rename: ResourceName | None
    has_all_devices: bool


def decode_section(value: Any, key: str) -> SharingSection:
    """Read the section under this key.

    Raises:
        ConfigError: it is incomplete or has a wrong value.
    """
    place = Place("Sharing", f"sharing.{key}")
    fields = raw_object(value, place)
    is_renamed = bool(boolean(fields.get("renameByDefault"), place))
    fails = bool(boolean(fields.get("failRequestsGreaterThanOne"), place))
    found = [_resource(item, place) for item in items(fields.get("resources"), place, "[]v1.ReplicatedResource")]
    if not found:
        raise ConfigError("no resources specified")
    resources = tuple(ReplicatedResource(each.name, each.replicas, _rename(each, is_renamed)) for each in found)
    return SharingSection(ReplicatedResources(resources, is_renamed, fails), _warnings(key, found, resources))


def _rename(resource: _Resource, is_renamed: bool) -> ResourceName | None:
    return ResourceName(resource.name + _SHARED_SUFFIX) if is_renamed else None


def _warnings(key: str, found: list[_Resource], resources: tuple[ReplicatedResource, ...]) -> tuple[str, ...]:
    warnings = []
    if any(each.rename not in (None, counts.rename) for each, counts in zip(found, resources, strict=True)):
        warnings.append(
            f"Setting the 'rename' field in sharing.{key}.resources is not yet supported in the config. Ignoring..."
        )
    if not all(each.has_all_devices for each in found):
        warnings.append(
            f"Customizing the 'devices' field in sharing.{key}.resources is not yet supported in the config. "
            "Ignoring..."
        )
    return tuple(warnings)


def _resource(value: Any, place: Place) -> _Resource:
    fields = raw_object(value, place)
    if "name" not in fields:
        raise ConfigError("no resource name specified")
    name = resource_name(string(fields["name"], place) or "")
    has_all_devices = _is_all_devices(fields["devices"]) if "devices" in fields else True
    if "replicas" not in fields:
        raise ConfigError("no replicas specified")
    replicas = integer(fields["replicas"], place) or 0
    if replicas < _FEWEST_REPLICAS:
        raise ConfigError(f"number of replicas must be >= {_FEWEST_REPLICAS}")
    rename = resource_name(string(fields["rename"], place) or "") if "rename" in fields else None
    return _Resource(name, replicas, rename, has_all_devices)


def _is_all_devices(value: Any) -> bool:
    match value:
        case "all":
            return True
        case str() | None:
            raise ConfigError(f"devices set as '{value or ''}' but the only valid string input is 'all'")
        case bool():
            pass
        case int():
            if value <= 0:
                raise ConfigError(f"devices set as '{value}' but a count of devices must be > 0")
            return False
        case list():
            for item in value:
                _check_device(item)
            return False
    raise ConfigError(f"unrecognized type for devices spec: {go_json(value)}")


def _check_device(item: Any) -> None:
    is_index = isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _LARGEST_INDEX
    if item is None or is_index or (isinstance(item, str) and (_is_index(item) or _is_uuid(item))):
        return
    text = item if isinstance(item, str) else ""
    raise ConfigError(f"unsupported type for device in devices list: {text}, string")


def _is_index(text: str) -> bool:
    return re.fullmatch("[0-9]+(:[0-9]+)?", text) is not None


def _is_uuid(text: str) -> bool:
    old = re.fullmatch("MIG-(GPU-.*)/[0-9]+/[0-9]+", text)
    part = old.group(1) if old else text
    try:
        uuid.UUID(re.sub("^(GPU|MIG)-", "", part))
    except ValueError:
        return False
    return part.startswith(("GPU-", "MIG-"))


_PREFIX: Final = "nvidia.com/"
_MAX_LENGTH: Final = 63
_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def resource_name(text: str) -> ResourceName:
    """A full name from one with or without NVIDIA's domain.

    Raises:
        ConfigError: it is too long, or no name that Kubernetes takes.
    """
    name = text if text.startswith(_PREFIX) else _PREFIX + text
    if len(name.encode()) > _MAX_LENGTH:
        raise ConfigError(f"fully-qualified resource name must be {_MAX_LENGTH} characters or less: {name}")
    if not re.fullmatch(_SUBDOMAIN, name.removeprefix(_PREFIX)):
        raise ConfigError(
            f"incorrect format for resource name '{name}': [a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
            f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')]"
        )
    return ResourceName(name)
