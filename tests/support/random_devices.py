"""Random objects of resource.k8s.io: whole ones, changed in a few places.

They have the fields of all minors; a server leaves out those that its minor does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.support.random_objects import Pool

__all__ = ["OF_DEVICES", "WHOLE", "WHOLE_V1BETA1"]

_SELECTORS: Final = [{"cel": {"expression": "device.driver == 'x'"}}]
_NODES: Final = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}
_TOLERATIONS: Final = [
    {"key": "example.com/x", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    {"value": "x"},
]
_CONFIG: Final = {"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "x", "n": [1, None]}}}
_EXACTLY: Final = {
    "deviceClassName": "gpu.example.com",
    "selectors": _SELECTORS,
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": False,
    "tolerations": _TOLERATIONS,
    "capacity": {"requests": {"memory": "1Gi", "example.com/slots": "2"}},
    "derivedAttributes": [
        {"name": "example.com/numa", "expression": "device.driver"},
        {"name": "example.com/index", "expression": "device.driver == 'x'"},
    ],
}
_ALTERNATIVE: Final = {name: value for name, value in _EXACTLY.items() if name != "adminAccess"}
_CLAIM: Final = {
    "devices": {
        "requests": [
            {"name": "gpu", "exactly": _EXACTLY},
            {
                "name": "any",
                "firstAvailable": [
                    {"name": "first", **_ALTERNATIVE},
                    {"name": "second", "deviceClassName": "other", "allocationMode": "All"},
                ],
            },
        ],
        "constraints": [
            {"requests": ["gpu", "any/first"], "matchAttribute": "example.com/numa"},
            {"distinctAttribute": "example.com/index"},
        ],
        "config": [{"requests": ["gpu"], **_CONFIG}, _CONFIG],
    }
}
_SHARE: Final = "12345678-1234-1234-1234-123456789abc"
_RESULT: Final = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
_STATUS: Final = {
    "allocation": {
        "devices": {
            "results": [
                {
                    **_RESULT,
                    "adminAccess": False,
                    "tolerations": _TOLERATIONS,
                    "bindingConditions": ["example.com/ready"],
                    "bindingFailureConditions": ["example.com/failed"],
                    "shareID": _SHARE,
                    "consumedCapacity": {"memory": "1Gi"},
                    "skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"],
                },
                {**_RESULT, "request": "any/first", "device": "gpu-1"},
            ],
            "config": [{"source": "FromClass", "requests": ["gpu"], **_CONFIG}, {"source": "FromClaim", **_CONFIG}],
        },
        "nodeSelector": _NODES,
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    },
    "reservedFor": [
        {"resource": "pods", "name": "p", "uid": "u"},
        {"apiGroup": "example.com", "resource": "things", "name": "t", "uid": "w"},
    ],
    "devices": [
        {
            "driver": "gpu.example.com",
            "pool": "node-1",
            "device": "gpu-0",
            "shareID": _SHARE,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Up",
                    "message": "x",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "observedGeneration": 1,
                }
            ],
            "data": {"a": {"b": 1}},
            "networkData": {"interfaceName": "eth0", "hardwareAddress": "00:00", "ips": ["10.0.0.1/24", "fd00::1/64"]},
        },
        {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-1"},
    ],
}
_DEVICE: Final = {
    "name": "gpu-0",
    "attributes": {
        "model": {"string": "T4"},
        "example.com/index": {"int": 0},
        "driverVersion": {"version": "1.0.0-a.1+b"},
        "healthy": {"bool": True},
    },
    "capacity": {
        "memory": {"value": "80Gi"},
        "slots": {"value": "10", "requestPolicy": {"default": "2", "validValues": ["1", "2", "4"]}},
        "other": {
            "value": "10",
            "requestPolicy": {"default": "2", "validRange": {"min": "0", "max": "10", "step": "2"}},
        },
    },
    "taints": [{"key": "example.com/x", "value": "x", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    "consumesCounters": [
        {"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}}, "compatibilityGroups": ["a", "b"]}
    ],
    "nodeAllocatableResourceMappings": {
        "cpu": {"capacityKey": "slots", "allocationMultiplier": "2"},
        "memory": {"capacityKey": "memory"},
        "kubernetes.io/x": {"allocationMultiplier": "1"},
    },
    "nodeAllocatableResources": {
        "cpu": {"mapping": {"capacityKey": "slots", "capacityMultiplier": "2"}},
        "memory": {"mapping": {"deviceMultiplier": "1Gi"}, "overhead": {"perPod": "1Mi", "perContainer": "2Mi"}},
    },
    "allowMultipleAllocations": True,
    "bindsToNode": True,
    "bindingConditions": ["example.com/ready"],
    "bindingFailureConditions": ["example.com/failed"],
}
_LISTS: Final = {
    "flags": {"bools": [True, False]},
    "numbers": {"ints": [1, 2]},
    "names": {"strings": ["a", "b"]},
    "example.com/versions": {"versions": ["1.0.0", "2.0.0-a"]},
}
_POOL: Final = {
    "driver": "gpu.example.com",
    "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
    "partitionTypeAttribute": "gpu.example.com/model",
    "skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"],
}
_COUNTERS: Final = {
    "sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}}]
}
_SLICE: Final = {**_POOL, **_COUNTERS}
_NAME: Final = {"name": "one", "namespace": "default"}

WHOLE: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "DeviceClass": [
        {
            "metadata": {"name": "one"},
            "spec": {"selectors": _SELECTORS, "config": [_CONFIG], "extendedResourceName": "example.com/gpu"},
        }
    ],
    "ResourceClaim": [
        {"metadata": _NAME, "spec": _CLAIM, "status": _STATUS},
        {"metadata": {**_NAME, "namespace": "admin"}, "spec": _CLAIM, "status": {}},
    ],
    "ResourceClaimTemplate": [
        {
            "metadata": _NAME,
            "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": _CLAIM},
        }
    ],
    "ResourceSlice": [
        {"metadata": {"name": "one"}, "spec": {**_SLICE, "nodeName": "node-1", "devices": [_DEVICE]}},
        {
            "metadata": {"name": "one"},
            "spec": {**_POOL, "nodeName": "node-1", "devices": [_DEVICE, {"name": "b", "attributes": _LISTS}]},
        },
        {"metadata": {"name": "one"}, "spec": {**_POOL, "nodeName": "node-1", "devices": [_DEVICE]}},
        {
            "metadata": {"name": "one"},
            "spec": {
                **_POOL,
                "perDeviceNodeSelection": True,
                "devices": [
                    {**_DEVICE, "nodeSelector": _NODES},
                    {"name": "b", "allNodes": True},
                    {"name": "c", "nodeName": "node-1"},
                ],
            },
        },
        {"metadata": {"name": "one"}, "spec": {**_SLICE, "nodeSelector": _NODES}},
        {"metadata": {"name": "one"}, "spec": {**_COUNTERS, **_POOL, "partitionTypeAttribute": None, "allNodes": True}},
    ],
}
"""Kind -> objects that have all fields between them."""

_FLAT: Final = {
    "devices": {
        "constraints": _CLAIM["devices"]["constraints"],
        "config": _CLAIM["devices"]["config"],
        "requests": [
            {"name": "gpu", **_EXACTLY},
            {"name": "any", "firstAvailable": [{"name": "first", **_ALTERNATIVE}]},
            {"name": "more", "deviceClassName": "other"},
        ],
    }
}
_FEATURES: Final = {name: value for name, value in _DEVICE.items() if name != "name"}
_BASIC: Final = {"name": "gpu-0", "basic": _FEATURES}

WHOLE_V1BETA1: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "DeviceClass": WHOLE["DeviceClass"],
    "ResourceClaim": [
        {"metadata": _NAME, "spec": _FLAT, "status": _STATUS},
        {"metadata": {**_NAME, "namespace": "admin"}, "spec": _FLAT, "status": {}},
    ],
    "ResourceClaimTemplate": [{"metadata": _NAME, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": _FLAT}}],
    "ResourceSlice": [
        {"metadata": {"name": "one"}, "spec": {**_SLICE, "nodeName": "node-1", "devices": [_BASIC]}},
        {
            "metadata": {"name": "one"},
            "spec": {
                **_POOL,
                "nodeName": "node-1",
                "devices": [_BASIC, {"name": "b", "basic": {"attributes": _LISTS}}],
            },
        },
        {"metadata": {"name": "one"}, "spec": {**_POOL, "nodeName": "node-1", "devices": [_BASIC]}},
        {
            "metadata": {"name": "one"},
            "spec": {
                **_POOL,
                "perDeviceNodeSelection": True,
                "devices": [
                    {"name": "gpu-0", "basic": {**_FEATURES, "nodeSelector": _NODES}},
                    {"name": "b", "basic": {"allNodes": True}},
                    {"name": "c", "basic": {"nodeName": "node-1"}},
                    {"name": "d"},
                ],
            },
        },
        {"metadata": {"name": "one"}, "spec": {**_SLICE, "nodeSelector": _NODES}},
        {"metadata": {"name": "one"}, "spec": {**_COUNTERS, **_POOL, "partitionTypeAttribute": None, "allNodes": True}},
    ],
}
"""The same in v1beta1."""

_TEXTS: Final = (
    *("", "x", "other", "Upper", "with.dots", "-bad", "a/b", "a/b/c", "x" * 33, "x" * 64, "x" * 254, "é", "01.2.3"),
    *("example.com/x", "/x", "example.com/", "gpu", "gpu/first", "any/first", "any/none", "All", "ExactCount", "Equal"),
    *("NoSchedule", "FromClass", "True", "10.0.0.1/24", "10.0.00.1/24", "::ffff:10.0.0.1/120", "FD00::1/64", "1.1.1.1"),
    *(_SHARE, _SHARE.upper(), f"urn:uuid:{_SHARE}", "requests.example.com/x", "gpu-1", "node-1/a", "None", "memory"),
    *(
        "example.com/numa",
        "gpu.example.com/index",
        "*",
        "NodePrepareResources",
        "NodeUnprepareResources",
        "hugepages-x",
    ),
)
_NUMBERS: Final = (0, -1, 1, 2, 33)
_QUANTITIES: Final = ("0", "1", "2", "3", "5", "80Gi", "1500m", "100", "1e3", "-1", "500m", "100u")
_TIMES_MORE: Final = (1, 4, 16, 40)
_UNTOUCHED: Final = ("cel", "expression", "timeAdded", "lastTransitionTime", "allocationTimestamp")
_NEVER_EMPTY: Final = ("devices", "sharedCounters", "bools", "ints", "strings", "versions")
"""Lists that a real server refuses where they are empty, not where they are left out; ours tells these not apart."""
_MAPS: Final = (
    *("attributes", "capacity", "counters", "labels", "annotations", "consumedCapacity"),
    *("nodeAllocatableResourceMappings", "nodeAllocatableResources"),
)

OF_DEVICES: Final = Pool(_TEXTS, _NUMBERS, _QUANTITIES, _TIMES_MORE, _MAPS, _UNTOUCHED, _NEVER_EMPTY)
"""What their values may become."""
