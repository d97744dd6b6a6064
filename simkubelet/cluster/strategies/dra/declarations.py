"""What the types of resource.k8s.io declare of their fields: which must be set, how many items, what these look like.

Source: api/resource/v1/types.go, api/resource/v1beta1/types.go (v0.37.2), the tags ``+k8s:…``; those that are only
tried out (``+k8s:alpha``) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from ...api.errors import FieldError
from ..rules import Rules
from .declared_formats import (
    check_driver,
    check_extended_resource,
    check_full_name,
    check_label_key,
    check_long_name,
    check_pool,
    check_share,
    check_short_name,
)

__all__ = ["DECLARED", "DECLARED_V1BETA1", "ONE_OF", "Declared"]

_Check: TypeAlias = Callable[[Rules, Any, str], list[FieldError]]


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a field.

    Attributes:
        required: It must be set.
        may_be_empty: An empty text is a text, not none.
        at_most: The number of items; negative for any.
        key: What no two items have in common.
        is_by_key: An item is compared with the old one of its key, and not looked at where that is the same.
        check: Of a text; of each item of a list; of each key of a map.
        type: Of a struct, of each item or of each value of a map, among the types with declarations.
        is_map: Whether it is such a map.
        shown: The type of an item in a message, among those of `in_order`, where `type` does not say it.
        settled: What an update may not do, in the words of the refusal.
        is_alone: No older rule says the same.
        gate: Without it the field may not be set.
    """

    required: bool = False
    may_be_empty: bool = False
    at_most: int = -1
    key: Callable[[Any], Hashable] | None = None
    is_by_key: bool = False
    check: _Check | None = None
    type: str = ""
    is_map: bool = False
    shown: str = ""
    settled: str = ""
    is_alone: bool = False
    gate: str = ""


def _one_of(*values: str) -> _Check:
    def check(_: Rules, value: str, path: str) -> list[FieldError]:
        return [] if value in values else [FieldError.not_supported(path, value, values)]

    return check


def _bytes_at_most(limit: int) -> _Check:
    def check(_: Rules, value: str, path: str) -> list[FieldError]:
        return [FieldError.too_long(path, limit)] if len(value.encode()) > limit else []

    return check


def _itself(item: Any) -> Hashable:
    return str(item)


def _named(type_: str, at_most: int, field: str = "name") -> Declared:
    """A list of structs that have a name each."""
    return Declared(at_most=at_most, key=lambda item: item.get(field) or "", is_by_key=True, type=type_)


_NAMES: Final = Declared(at_most=32, key=_itself)
_DRIVER: Final = Declared(required=True, check=check_driver)
_CONDITIONS: Final = Declared(at_most=4)
_EFFECT: Final = Declared(check=_one_of("NoExecute", "NoSchedule", "None"))
_COUNTERS: Final = Declared(required=True, check=check_short_name)
_OPERATIONS: Final = Declared(
    key=_itself, check=_one_of("*", "NodePrepareResources", "NodeUnprepareResources"), is_alone=True
)
_OPAQUE: Final = Declared(type="OpaqueDeviceConfiguration")
_PARTITION_TYPE: Final = Declared(
    may_be_empty=True, check=check_full_name, is_alone=True, gate="DRAPartitionableDevicesType"
)
_SHARE: Final = Declared(may_be_empty=True, check=check_share)
_CHOICE: Final = {
    "selectors": Declared(at_most=32),
    "allocationMode": Declared(check=_one_of("All", "ExactCount")),
    "tolerations": Declared(type="DeviceToleration"),
    "derivedAttributes": Declared(at_most=32, type="DeviceDerivedAttribute", is_alone=True),
}
_ALTERNATIVES: Final = {"firstAvailable": _named("DeviceSubRequest", 8)}
_DEVICE: Final = {
    "attributes": Declared(type="DeviceAttribute", is_map=True),
    "consumesCounters": _named("DeviceCounterConsumption", 2, "counterSet"),
    "taints": Declared(type="DeviceTaint"),
    "bindingConditions": _CONDITIONS,
    "bindingFailureConditions": _CONDITIONS,
    "nodeAllocatableResources": Declared(type="NodeAllocatableResource", is_map=True),
}
DECLARED: Final[Mapping[str, Mapping[str, Declared]]] = {
    "DeviceClass": {"spec": Declared(type="DeviceClassSpec")},
    "DeviceClassSpec": {
        "selectors": Declared(at_most=32),
        "config": Declared(at_most=32, type="DeviceClassConfiguration"),
        "extendedResourceName": Declared(may_be_empty=True, check=check_extended_resource),
    },
    "DeviceClassConfiguration": {"opaque": _OPAQUE},
    "OpaqueDeviceConfiguration": {"driver": _DRIVER},
    "ResourceClaim": {
        "spec": Declared(settled="field is immutable", type="ResourceClaimSpec"),
        "status": Declared(type="ResourceClaimStatus"),
    },
    "ResourceClaimTemplate": {"spec": Declared(type="ResourceClaimTemplateSpec")},
    "ResourceClaimTemplateSpec": {"spec": Declared(type="ResourceClaimSpec")},
    "ResourceClaimSpec": {"devices": Declared(type="DeviceClaim")},
    "DeviceClaim": {
        "requests": _named("DeviceRequest", 32),
        "constraints": Declared(at_most=32, type="DeviceConstraint"),
        "config": Declared(at_most=32, type="DeviceClaimConfiguration"),
    },
    "DeviceRequest": {"exactly": Declared(type="ExactDeviceRequest"), **_ALTERNATIVES},
    "ExactDeviceRequest": _CHOICE,
    "DeviceSubRequest": {"deviceClassName": Declared(required=True, check=check_long_name), **_CHOICE},
    "DeviceDerivedAttribute": {
        "name": Declared(required=True, check=check_full_name, is_alone=True),
        "expression": Declared(required=True, is_alone=True),
    },
    "DeviceToleration": {
        "key": Declared(check=check_label_key),
        "operator": Declared(required=True, check=_one_of("Equal", "Exists")),
        "effect": _EFFECT,
    },
    "DeviceConstraint": {
        "requests": _NAMES,
        "matchAttribute": Declared(may_be_empty=True, check=check_full_name),
        "distinctAttribute": Declared(may_be_empty=True, check=check_full_name),
    },
    "DeviceClaimConfiguration": {"requests": _NAMES, "opaque": _OPAQUE},
    "ResourceClaimStatus": {
        "allocation": Declared(settled="field cannot be modified once set", type="AllocationResult"),
        "reservedFor": Declared(
            at_most=256, key=lambda user: user.get("uid") or "", shown="ResourceClaimConsumerReference"
        ),
        "devices": Declared(
            key=lambda device: tuple(device.get(name) or "" for name in ("driver", "device", "pool", "shareID")),
            is_by_key=True,
            type="AllocatedDeviceStatus",
        ),
    },
    "AllocationResult": {"devices": Declared(type="DeviceAllocationResult")},
    "DeviceAllocationResult": {
        "results": Declared(at_most=32, type="DeviceRequestAllocationResult"),
        "config": Declared(at_most=64, type="DeviceAllocationConfiguration"),
    },
    "DeviceRequestAllocationResult": {
        "driver": _DRIVER,
        "pool": Declared(required=True, check=check_pool),
        "tolerations": Declared(type="DeviceToleration"),
        "bindingConditions": _CONDITIONS,
        "bindingFailureConditions": _CONDITIONS,
        "shareID": _SHARE,
        "skipNodeOperations": _OPERATIONS,
    },
    "DeviceAllocationConfiguration": {
        "source": Declared(required=True, check=_one_of("FromClaim", "FromClass")),
        "requests": _NAMES,
        "opaque": _OPAQUE,
    },
    "AllocatedDeviceStatus": {"shareID": _SHARE, "networkData": Declared(type="NetworkDeviceData")},
    "NetworkDeviceData": {
        "interfaceName": Declared(check=_bytes_at_most(256)),
        "ips": Declared(at_most=16, key=_itself),
        "hardwareAddress": Declared(check=_bytes_at_most(128)),
    },
    "ResourceSlice": {"spec": Declared(type="ResourceSliceSpec")},
    "ResourceSliceSpec": {
        "devices": Declared(type="Device"),
        "sharedCounters": _named("CounterSet", 8),
        "partitionTypeAttribute": _PARTITION_TYPE,
        "skipNodeOperations": _OPERATIONS,
    },
    "CounterSet": {"name": Declared(required=True, check=check_short_name), "counters": _COUNTERS},
    "Device": _DEVICE,
    "DeviceAttribute": {},
    "DeviceCounterConsumption": {
        "counterSet": Declared(required=True, check=check_short_name),
        "counters": _COUNTERS,
        "compatibilityGroups": Declared(at_most=2, key=_itself, check=check_short_name, is_alone=True),
    },
    "DeviceTaint": {"effect": replace(_EFFECT, required=True)},
    "NodeAllocatableResource": {"mapping": Declared(type="NodeAllocatableMapping")},
    "NodeAllocatableMapping": {},
}
"""Type -> field -> what is declared of it, beginning with the kinds."""

DECLARED_V1BETA1: Final[Mapping[str, Mapping[str, Declared]]] = {
    **DECLARED,
    "DeviceClaim": {
        **DECLARED["DeviceClaim"],
        "requests": replace(_named("DeviceRequest", 32), shown="FlatDeviceRequest"),
    },
    "DeviceRequest": {**_CHOICE, **_ALTERNATIVES},
    "Device": {"basic": Declared(type="BasicDevice")},
    "BasicDevice": _DEVICE,
}
"""The same of ``v1beta1``."""

ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "DeviceAttribute": ("int", "bool", "string", "version", "ints", "bools", "strings", "versions"),
    "NodeAllocatableMapping": ("capacityKey", "deviceMultiplier"),
}
"""Type -> the fields of which exactly one is set."""
