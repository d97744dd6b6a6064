"""What an API server refuses in what devices take of a node's own resources.

Source: pkg/apis/resource/validation/validation.go, ``validateNodeAllocatableResourceMappings`` (kubernetes v1.36.3),
``validateNodeAllocatableResources`` (v1.37.2); pkg/apis/core/v1/helper/helpers.go, ``IsNativeResource``;
pkg/apis/core/helper/helpers.go, ``IsNodeAllocatableResourceName``.
"""

from __future__ import annotations

from typing import Final

from ....model.resources import parse_quantity
from ...api.errors import FieldError
from .fields import Fields

_NAME: Final = "must be a node allocatable resource name"
_POSITIVE: Final = "must be positive"

__all__ = ["validate_node_resources"]


def validate_node_resources(device: Fields, capacity: Fields, path: str) -> list[FieldError]:
    """What is wrong with the resources that a device takes of its node; the capacity is the device's.

    1.36 and 1.37 have them in fields of different names.
    """
    errors = []
    for name, resource in sorted((device.get("nodeAllocatableResources") or {}).items()):
        errors += _validate_resource(name, resource, capacity, f"{path}.nodeAllocatableResources[{name}]")
    for name, mapping in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        where = f"{path}.nodeAllocatableResourceMappings[{name}]"
        if "/" in name and "kubernetes.io/" not in name:
            errors.append(FieldError.invalid(where, name, _NAME))
        multiplier, key = mapping["allocationMultiplier"], mapping.get("capacityKey")
        if parse_quantity(multiplier) <= 0:
            errors.append(FieldError.invalid(f"{where}.allocationMultiplier", multiplier, _POSITIVE))
        errors += _validate_key(key, capacity, f"{where}.capacityKey")
    return errors


def _validate_key(key: str | None, capacity: Fields, path: str) -> list[FieldError]:
    if key == "":
        return [FieldError.invalid(path, "", "capacityKey must not be an empty string")]
    return [] if key is None or key in capacity else [FieldError.not_found(path, key)]


def _validate_resource(name: str, resource: Fields, capacity: Fields, path: str) -> list[FieldError]:
    mapping, overhead = resource.get("mapping"), resource.get("overhead")
    errors = []
    if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
        errors.append(FieldError.invalid(path, name, _NAME))
    if mapping is None and overhead is None:
        errors.append(FieldError.required(path, "at least one of mapping or overhead must be set"))
    if mapping is not None:
        errors += _validate_mapping(mapping, capacity, f"{path}.mapping")
    if overhead is not None:
        errors += _validate_overhead(overhead, f"{path}.overhead")
    return errors


def _validate_mapping(mapping: Fields, capacity: Fields, path: str) -> list[FieldError]:
    key, of_capacity = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    errors = _validate_key(key, capacity, f"{path}.capacityKey")
    if key is not None and of_capacity is None:
        why = "capacityMultiplier is required when capacityKey is set"
        errors.append(FieldError.required(f"{path}.capacityMultiplier", why))
    if key is None and of_capacity is not None:
        why = "capacityKey is required when capacityMultiplier is set"
        errors.append(FieldError.required(f"{path}.capacityKey", why))
    for field, amount in (("capacityMultiplier", of_capacity), ("deviceMultiplier", mapping.get("deviceMultiplier"))):
        is_seen = field == "deviceMultiplier" or key is not None
        if is_seen and amount is not None and parse_quantity(amount) <= 0:
            errors.append(FieldError.invalid(f"{path}.{field}", amount, _POSITIVE))
    return errors


def _validate_overhead(overhead: Fields, path: str) -> list[FieldError]:
    given = {field: overhead[field] for field in ("perPod", "perContainer") if overhead.get(field) is not None}
    if not given:
        return [FieldError.invalid(path, "", "at least one of perPod or perContainer must be set")]
    return [
        FieldError.invalid(f"{path}.{field}", amount, "must be non-negative")
        for field, amount in given.items()
        if parse_quantity(amount) < 0
    ]
