"""What an API server refuses in the attribute by which a slice says of which type its partitions are.

Source: pkg/apis/resource/validation/validation.go, ``validatePartitionTypeAttribute`` (kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...api.errors import FieldError
from ..internal_form import internal
from ..rules import Rules
from .device_names import validate_full_name
from .fields import Fields

__all__ = ["validate_partition_type"]


def validate_partition_type(rules: Rules, spec: Fields, path: str) -> list[FieldError]:
    """Devices that consume counters have the attribute, and it is a text."""
    name, devices = spec.get("partitionTypeAttribute"), spec.get("devices") or ()
    if name is None:
        return []
    if not any(device.get("consumesCounters") for device in devices):
        why = "may only be set on a slice which declares devices that consume counters"
        return [FieldError.invalid(f"{path}.partitionTypeAttribute", name, why)]
    if validate_full_name(rules, name, path):
        # What is wrong with it is declared of its field.
        return []
    keys = (name, name.removeprefix(f"{spec.get('driver') or ''}/"))
    return [
        error
        for place, device in enumerate(devices)
        if device.get("consumesCounters")
        for error in _validate_type(rules, device.get("attributes") or {}, keys, f"{path}.devices[{place}].attributes")
    ]


def _validate_type(rules: Rules, attributes: Mapping[str, Fields], keys: Sequence[str], path: str) -> list[FieldError]:
    where = f"{path}[{keys[0]}]"
    found = next((attributes[key] for key in keys if key in attributes), None)
    if found is None:
        why = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
        return [FieldError.required(where, why)]
    if found.get("string") is None:
        shown = internal("DeviceAttribute", dict(found), rules.release)
        why = "must be a string value because `partitionTypeAttribute` names this attribute"
        return [FieldError.invalid(where, shown, why)]
    return []
