"""Parts of objects as messages of the API server show them: by the names of its own types, with all that is not set.

Source: pkg/apis/resource/types.go, pkg/apis/core/types.go (kubernetes v1.34.4, v1.36.3, v1.37.2); the types have no
JSON names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...model.version import Difference, Version
from ..objects.objects import JSON

__all__ = ["METADATA_FIELDS", "in_order", "internal"]

METADATA_FIELDS: Final = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""The fields of ``metadata`` in the order of their type."""

_REQUEST: Final = (
    "DeviceClassName Selectors:[]DeviceSelector AllocationMode Count:int AdminAccess:* Tolerations:[]DeviceToleration "
    "Capacity:*CapacityRequirements DerivedAttributes:[]DeviceDerivedAttribute"
)
_TYPES: Final[Mapping[str, str]] = {
    "AllocatedDeviceStatus": (
        "Driver Pool Device ShareID:* Conditions:[]Condition Data:* NetworkData:*NetworkDeviceData"
    ),
    "AppArmorProfile": "Type LocalhostProfile:*",
    "AllocationResult": "Devices:DeviceAllocationResult NodeSelector:*NodeSelector AllocationTimestamp:*",
    "CELDeviceSelector": "Expression",
    "Capabilities": "Add:[] Drop:[]",
    "CapacityRequirements": "Requests:[]",
    "Condition": "Type Status ObservedGeneration:int LastTransitionTime Reason Message",
    "CounterSet": "Name Counters:[]",
    "DeviceAllocationConfiguration": "Source Requests:[] Opaque:*OpaqueDeviceConfiguration",
    "DeviceAllocationResult": "Results:[]DeviceRequestAllocationResult Config:[]DeviceAllocationConfiguration",
    "DeviceAttribute": (
        "IntValue:* BoolValue:* StringValue:* VersionValue:* "
        "IntValues:[] BoolValues:[] StringValues:[] VersionValues:[]"
    ),
    "DeviceClaim": "Requests:[]DeviceRequest Constraints:[]DeviceConstraint Config:[]DeviceClaimConfiguration",
    "DeviceClaimConfiguration": "Requests:[] Opaque:*OpaqueDeviceConfiguration",
    "DeviceConstraint": "Requests:[] MatchAttribute:* DistinctAttribute:*",
    "DeviceCounterConsumption": "CounterSet Counters:[] CompatibilityGroups:[]",
    "DeviceDerivedAttribute": "Name Expression",
    "DeviceRequest": "Name Exactly:*ExactDeviceRequest FirstAvailable:[]DeviceSubRequest",
    "DeviceRequestAllocationResult": (
        "Request Driver Pool Device AdminAccess:* Tolerations:[]DeviceToleration BindingConditions:[] "
        "BindingFailureConditions:[] ShareID:* ConsumedCapacity:[] SkipNodeOperations:[]"
    ),
    "DeviceSelector": "CEL:*CELDeviceSelector",
    "DeviceSubRequest": f"Name {_REQUEST.replace('AdminAccess:* ', '')}",
    "DeviceToleration": "Key Operator Value Effect TolerationSeconds:*",
    "ExactDeviceRequest": _REQUEST,
    "FlatDeviceRequest": f"Name {_REQUEST.replace(' Tolerations', ' FirstAvailable:[]DeviceSubRequest Tolerations')}",
    "NetworkDeviceData": "InterfaceName IPs:[] HardwareAddress",
    "NodeSelector": "NodeSelectorTerms:[]NodeSelectorTerm",
    "NodeSelectorRequirement": "Key Operator Values:[]",
    "NodeSelectorTerm": "MatchExpressions:[]NodeSelectorRequirement MatchFields:[]NodeSelectorRequirement",
    "OpaqueDeviceConfiguration": "Driver Parameters:*",
    "PodResourceClaim": "Name ResourceClaimName:* ResourceClaimTemplateName:*",
    "ResourceClaimConsumerReference": "APIGroup Resource Name UID",
    "ResourceClaimSpec": "Devices:DeviceClaim",
    "SELinuxOptions": "User Role Type Level",
    "SeccompProfile": "Type LocalhostProfile:*",
    "SecurityContext": (
        "Capabilities:*Capabilities Privileged:* SELinuxOptions:*SELinuxOptions "
        "WindowsOptions:*WindowsSecurityContextOptions RunAsUser:* RunAsGroup:* RunAsNonRoot:* "
        "ReadOnlyRootFilesystem:* AllowPrivilegeEscalation:* ProcMount:* SeccompProfile:*SeccompProfile "
        "AppArmorProfile:*AppArmorProfile"
    ),
    "WindowsSecurityContextOptions": "GMSACredentialSpecName:* GMSACredentialSpec:* RunAsUserName:* HostProcess:*",
}
"""Type -> its fields in order: texts, or after a colon numbers, pointers, lists or maps, or what has fields itself."""
_LISTS: Final = ("IntValues", "BoolValues", "StringValues", "VersionValues")
_NEW_FIELDS: Final = Difference(
    "further fields of objects of `resource.k8s.io` that messages show by the names of Go's types",
    {"1.26": (), "1.36": _LISTS, "1.37": (*_LISTS, "DerivedAttributes", "SkipNodeOperations")},
    "pkg/apis/resource/types.go (kubernetes v1.34.4, v1.36.3, v1.37.2)",
)
_NEWEST: Final = tuple(_NEW_FIELDS.values.values())[-1]
_JSON_NAMES: Final = {
    "GMSACredentialSpec": "gmsaCredentialSpec",
    "GMSACredentialSpecName": "gmsaCredentialSpecName",
    "SELinuxOptions": "seLinuxOptions",
    "APIGroup": "apiGroup",
    "CEL": "cel",
    "IPs": "ips",
    "UID": "uid",
    "IntValue": "int",
    "BoolValue": "bool",
    "StringValue": "string",
    "VersionValue": "version",
    "IntValues": "ints",
    "BoolValues": "bools",
    "StringValues": "strings",
    "VersionValues": "versions",
}


def internal(type_: str, value: JSON | None, release: Version) -> JSON:
    """A part of an object in the form of this internal type of a release."""
    found: JSON = {}
    for field in _TYPES[type_].split():
        name, _, of = field.partition(":")
        if name in _NEWEST and name not in _NEW_FIELDS.at(release):
            continue
        inner = (value or {}).get(_JSON_NAMES.get(name, name[0].lower() + name[1:]))
        found[name] = _shown(inner, of, release)
    return found


def in_order(type_: str, value: JSON) -> JSON:
    """A part of an object with the fields that it has, in the order of its type, without empty maps."""
    found: JSON = {}
    for field in _TYPES[type_].split():
        name, _, of = field.partition(":")
        name = _JSON_NAMES.get(name, name[0].lower() + name[1:])
        is_map = of == "[]"
        if name in value and not (is_map and not value[name]):
            found[name] = _in_order(of.lstrip("*[]"), value[name], is_map=is_map)
    return found


def _in_order(type_: str, value: Any, *, is_map: bool) -> Any:
    if value is None:
        return None
    if type_ in _TYPES and isinstance(value, list):
        return [in_order(type_, item) for item in value]
    if type_ in _TYPES:
        return in_order(type_, value)
    return dict(sorted(value.items())) if is_map and isinstance(value, dict) else value


def _shown(value: Any, of: str, release: Version) -> Any:
    inner = of.lstrip("*[]")
    if of.startswith("[]"):
        if isinstance(value, dict):
            return dict(sorted(value.items())) or None
        return [internal(inner, one, release) for one in value] if value and inner else value or None
    if of.startswith("*"):
        return internal(inner, value, release) if value is not None and inner else value
    if of == "int":
        return value or 0
    return internal(of, value, release) if of else value or ""
