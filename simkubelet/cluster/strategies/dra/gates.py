"""Fields of resource.k8s.io that are dropped while their feature gate is off, unless the old object has them.

The fields of a gate are dropped without a word. Of the fields that are new in 1.36 and 1.37 all gates are off by
default.

Source: ``dropDisabledFields`` in pkg/registry/resource/{deviceclass,resourceclaim,resourceclaimtemplate,
resourceslice}/strategy.go (kubernetes v1.34.4, v1.35.4, v1.36.3, v1.37.2); pkg/api/resourceclaimspec/util.go (v1.37.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ....dra.pod_claims import allocation_results
from ....model.version import EXTENDED_CLAIMS, FEATURE_GATES, Difference, Version
from ...objects.objects import JSON
from ..rules import Places, Rules, drop, has_any

__all__ = [
    "DEVICE_STATUS",
    "drop_class_fields",
    "drop_slice_fields",
    "drop_spec_fields",
    "drop_status_fields",
    "gates_of",
    "is_in_use",
]

_SOURCE: Final = "pkg/features/kube_features.go (kubernetes v1.37.2)"

_ADMIN_ACCESS: Final = Difference(
    "the API server keeps `adminAccess` of claims", {"1.26": False, "1.34": True}, _SOURCE
)
_PRIORITIZED_LIST: Final = Difference(
    "the API server keeps `firstAvailable` of claims", {"1.26": False, "1.34": True}, _SOURCE
)
_DEVICE_STATUS: Final = Difference(
    "the API server keeps `status.devices` of claims", {"1.26": False, "1.33": True}, _SOURCE
)
_LATER: Final = Difference(
    "the API server keeps taints, shared counters, consumable capacity and binding conditions of devices and claims",
    {"1.26": False, "1.36": True},
    _SOURCE,
)
_PARTS_APART: Final = Difference(
    "a gate's fields stay in a claim's spec where the old spec has some, whatever the status has; `tolerations` and "
    "`distinctAttribute` have gates, and `allocationTimestamp` has none",
    {"1.26": False, "1.35": True},
    "pkg/api/resourceclaimspec/util.go, pkg/registry/resource/resourceclaim/strategy.go (kubernetes v1.34.4, v1.35.4)",
)

DEVICE_STATUS: Final = "DRAResourceClaimDeviceStatus"
_BINDING: Final = "DRADeviceBindingConditions"
_CAPACITY: Final = "DRAConsumableCapacity"
_TAINTS_GATE: Final = "DRADeviceTaints"
_DERIVED: Final = "DRADerivedAttributes"
_OPTIONAL: Final = "DRAOptionalNodeOperations"
_BY_GATE: Final = {
    "DRAAdminAccess": _ADMIN_ACCESS,
    "DRAPrioritizedList": _PRIORITIZED_LIST,
    DEVICE_STATUS: _DEVICE_STATUS,
    _TAINTS_GATE: _LATER,
    "DRAPartitionableDevices": _LATER,
    _CAPACITY: _LATER,
    _BINDING: _LATER,
}


def gates_of(release: Version, chosen: Mapping[str, bool]) -> frozenset[str]:
    """The gates that are on: those of devices as by default, and all of `FEATURE_GATES` as a user has set them."""
    of_devices = frozenset(name for name, difference in _BY_GATE.items() if difference.at(release))
    return of_devices.union(name for name, gate in FEATURE_GATES.items() if gate.is_on(release, chosen))


def drop_spec_fields(rules: Rules, new: JSON, old: JSON | None) -> None:
    """Drop the fields of a ResourceClaim's spec whose gates are off; a template's spec has the form of a claim."""
    if old is not None and rules.of(_PARTS_APART):
        old = {"spec": old.get("spec")}
    for gate, places in _IN_SPEC.items():
        if gate == _TAINTS_GATE and not rules.of(_PARTS_APART):
            continue
        if gate not in rules.gates and not (old is not None and is_in_use(rules, gate, old)):
            drop(places(new))
            if gate == _CAPACITY and rules.of(_PARTS_APART):
                drop(_distinct_attributes(new))


def drop_status_fields(rules: Rules, new: JSON, old: JSON) -> None:
    """Drop the fields of a ResourceClaim's status whose gates are off."""
    for gate, places in _IN_STATUS.items():
        if _is_on(rules, gate, needs_status=not rules.of(_PARTS_APART)) or is_in_use(rules, gate, old):
            continue
        drop(places(new))
        if gate == _BINDING and not rules.of(_PARTS_APART):
            drop(_allocation_time(new))


def drop_class_fields(rules: Rules, new: JSON, old: JSON | None) -> None:
    """Drop the fields of a DeviceClass whose gates are off."""
    is_used = old is not None and "extendedResourceName" in (old.get("spec") or {})
    if EXTENDED_CLAIMS not in rules.gates and not is_used:
        new["spec"].pop("extendedResourceName", None)


def drop_slice_fields(rules: Rules, new: JSON, old: JSON | None) -> None:
    """Drop the fields of a ResourceSlice whose gates are off."""
    for gate, places in (
        (_TAINTS_GATE, _taints),
        ("DRAPartitionableDevices", _partitions),
        (_BINDING, _device_conditions),
        (_CAPACITY, _device_capacity),
        ("DRADeviceCompatibilityGroups", _compatibility),
        ("DRANodeAllocatableResources", _node_resources),
        ("DRAListTypeAttributes", _lists_of_values),
        ("DRAPartitionableDevicesType", _partition_type),
        (_OPTIONAL, _operations_of_slice),
    ):
        if not _is_on(rules, gate, needs_status=True) and not (old is not None and has_any(places(old))):
            drop(places(new))


def is_in_use(rules: Rules, gate: str, claim: JSON) -> bool:
    """Whether a ResourceClaim has fields of a gate."""
    if gate == _CAPACITY and has_any(_distinct_attributes(claim)):
        return True
    if gate == _BINDING and not rules.of(_PARTS_APART) and has_any(_allocation_time(claim)):
        return True
    return any(has_any(fields[gate](claim)) for fields in (_IN_SPEC, _IN_STATUS) if gate in fields)


def _is_on(rules: Rules, gate: str, *, needs_status: bool) -> bool:
    """Whether a gate is on; that of binding conditions, in some places, with that of the status of devices."""
    return gate in rules.gates and not (needs_status and gate == _BINDING and DEVICE_STATUS not in rules.gates)


def _claim_devices(claim: JSON) -> JSON:
    found: JSON = (claim.get("spec") or {}).get("devices") or {}
    return found


def _requests(claim: JSON) -> Sequence[JSON]:
    return _claim_devices(claim).get("requests") or ()


def _alternatives(claim: JSON) -> Places:
    return [(request, ("firstAvailable",)) for request in _requests(claim)]


def _admin_access(claim: JSON) -> Places:
    return [(request["exactly"], ("adminAccess",)) for request in _requests(claim) if request.get("exactly")]


def _granted_access(claim: JSON) -> Places:
    return [(result, ("adminAccess",)) for result in allocation_results(claim)]


def _device_status(claim: JSON) -> Places:
    return [(claim.get("status") or {}, ("devices",))]


def _allocation_time(claim: JSON) -> Places:
    return [((claim.get("status") or {}).get("allocation") or {}, ("allocationTimestamp",))]


def _claim_conditions(claim: JSON) -> Places:
    names = ("bindingConditions", "bindingFailureConditions")
    return [(result, names) for result in allocation_results(claim)]


def _choices(claim: JSON) -> Iterator[JSON]:
    """What requests and their alternatives ask for."""
    for request in _requests(claim):
        yield request.get("exactly") or {}
        yield from request.get("firstAvailable") or ()


def _tolerations(claim: JSON) -> Places:
    return [(choice, ("tolerations",)) for choice in _choices(claim)]


def _derived_attributes(claim: JSON) -> Places:
    return [(choice, ("derivedAttributes",)) for choice in _choices(claim)]


def _operations_of_results(claim: JSON) -> Places:
    return [(result, ("skipNodeOperations",)) for result in allocation_results(claim)]


def _asked_capacity(claim: JSON) -> Places:
    return [(choice, ("capacity",)) for choice in _choices(claim)]


def _distinct_attributes(claim: JSON) -> Places:
    return [(constraint, ("distinctAttribute",)) for constraint in _claim_devices(claim).get("constraints") or ()]


def _consumed_capacity(claim: JSON) -> Iterator[tuple[JSON, Sequence[str]]]:
    for result in allocation_results(claim):
        yield result, ("shareID", "consumedCapacity")
    for device in (claim.get("status") or {}).get("devices") or ():
        yield device, ("shareID",)


def _slice_devices(slice_: JSON) -> Sequence[JSON]:
    return (slice_.get("spec") or {}).get("devices") or ()


def _taints(slice_: JSON) -> Places:
    return [(device, ("taints",)) for device in _slice_devices(slice_)]


def _partitions(slice_: JSON) -> Places:
    of_device = ("consumesCounters", "nodeName", "nodeSelector", "allNodes")
    return [
        (slice_["spec"], ("sharedCounters", "perDeviceNodeSelection")),
        *((device, of_device) for device in _slice_devices(slice_)),
    ]


def _device_conditions(slice_: JSON) -> Places:
    names = ("bindingConditions", "bindingFailureConditions", "bindsToNode")
    return [(device, names) for device in _slice_devices(slice_)]


def _device_capacity(slice_: JSON) -> Iterator[tuple[JSON, Sequence[str]]]:
    for device in _slice_devices(slice_):
        yield device, ("allowMultipleAllocations",)
        for capacity in (device.get("capacity") or {}).values():
            yield capacity, ("requestPolicy",)


def _compatibility(slice_: JSON) -> Iterator[tuple[JSON, Sequence[str]]]:
    for device in _slice_devices(slice_):
        for consumed in device.get("consumesCounters") or ():
            yield consumed, ("compatibilityGroups",)


def _node_resources(slice_: JSON) -> Places:
    names = ("nodeAllocatableResourceMappings", "nodeAllocatableResources")
    return [(device, names) for device in _slice_devices(slice_)]


def _lists_of_values(slice_: JSON) -> Iterator[tuple[JSON, Sequence[str]]]:
    for device in _slice_devices(slice_):
        for attribute in (device.get("attributes") or {}).values():
            yield attribute, ("bools", "ints", "strings", "versions")


def _partition_type(slice_: JSON) -> Places:
    return [(slice_["spec"], ("partitionTypeAttribute",))]


def _operations_of_slice(slice_: JSON) -> Places:
    return [(slice_["spec"], ("skipNodeOperations",))]


_IN_SPEC: Final[Mapping[str, Callable[[JSON], Places]]] = {
    "DRAPrioritizedList": _alternatives,
    _TAINTS_GATE: _tolerations,
    "DRAAdminAccess": _admin_access,
    _CAPACITY: _asked_capacity,
    _DERIVED: _derived_attributes,
}
"""Gate -> its fields in the spec of a claim, in the order in which they are dropped."""
_IN_STATUS: Final[Mapping[str, Callable[[JSON], Places]]] = {
    DEVICE_STATUS: _device_status,
    "DRAAdminAccess": _granted_access,
    _CAPACITY: _consumed_capacity,
    _BINDING: _claim_conditions,
    _OPTIONAL: _operations_of_results,
}
"""Gate -> its fields in the status."""
