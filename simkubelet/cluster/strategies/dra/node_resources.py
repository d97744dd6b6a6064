"""What an API server refuses in what devices take of a node's own resources.

Source: pkg/apis/resource/validation/validation.go, ``validateNodeAllocatableResourceMappings`` (kubernetes v1.36.3);
pkg/apis/core/v1/helper/helpers.go, ``IsNativeResource``.
"""

from __future__ import annotations

from ....model.resources import parse_quantity
from ...api.errors import FieldError
from .fields import Fields

__all__ = ["validate_node_resources"]


def validate_node_resources(device: Fields, capacity: Fields, path: str) -> list[FieldError]:
    """What is wrong with the resources that a device takes of its node; the capacity is the device's."""
    errors = []
    for name, mapping in sorted((device.get("nodeAllocatableResourceMappings") or {}).items()):
        where = f"{path}.nodeAllocatableResourceMappings[{name}]"
        if "/" in name and "kubernetes.io/" not in name:
            errors.append(FieldError.invalid(where, name, "must be a node allocatable resource name"))
        multiplier, key = mapping["allocationMultiplier"], mapping.get("capacityKey")
        if parse_quantity(multiplier) <= 0:
            errors.append(FieldError.invalid(f"{where}.allocationMultiplier", multiplier, "must be positive"))
        if key == "":
            errors.append(FieldError.invalid(f"{where}.capacityKey", "", "capacityKey must not be an empty string"))
        elif key is not None and key not in capacity:
            errors.append(FieldError.not_found(f"{where}.capacityKey", key))
    return errors
