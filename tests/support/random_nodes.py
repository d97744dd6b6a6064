"""Random nodes and namespaces: whole ones, changed in a few places; see `random_objects`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.support.random_objects import Pool

__all__ = ["OF_NODES", "WHOLE_NAMESPACES", "WHOLE_NODES"]

_METADATA: Final[Any] = {
    "name": "one",
    "labels": {"zone": "a"},
    "annotations": {"example.com/note": "x"},
}
_CONDITION: Final[Any] = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "x",
}
WHOLE_NODES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "metadata": _METADATA,
        "spec": {
            "podCIDR": "10.1.0.0/24",
            "podCIDRs": ["10.1.0.0/24", "2001:db8::/64"],
            "providerID": "x://one",
            "unschedulable": True,
            "taints": [
                {"key": "example.com/gpu", "value": "x", "effect": "NoSchedule"},
                {"key": "gpu", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
            ],
            "externalID": "y",
            "podPreemptionPolicy": {"disableResizePreemption": ["x"]},
        },
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            "allocatable": {"cpu": "7500m", "memory": "31Gi", "pods": "110", "nvidia.com/gpu": "2"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "one"}],
            "conditions": [_CONDITION],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "b",
                "containerRuntimeVersion": "containerd://2",
                "kernelVersion": "6",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1",
                "machineID": "m",
                "operatingSystem": "linux",
                "osImage": "x",
                "systemUUID": "s",
                "swap": {"capacity": 1024},
            },
            "images": [{"names": ["busybox:1"], "sizeBytes": 12}],
            "volumesInUse": ["v"],
            "volumesAttached": [{"name": "v", "devicePath": "/dev/x"}],
            "runtimeHandlers": [
                {"name": "runc", "features": {"recursiveReadOnlyMounts": True, "userNamespaces": True}}
            ],
            "features": {"supplementalGroupsPolicy": True},
            "declaredFeatures": ["ExtendWebSocketsToKubelet", "RestartAllContainers/x"],
        },
    },
    {
        "metadata": _METADATA,
        "spec": {
            "podCIDR": "10.1.0.0/24",
            "configSource": {"configMap": {"name": "c", "namespace": "n", "kubeletConfigKey": "k"}},
        },
        "status": {
            "phase": "Running",
            "capacity": {"cpu": "1500m", "ephemeral-storage": "1Gi", "example.com/dongle": "4"},
            "config": {
                "assigned": {
                    "configMap": {
                        "name": "c",
                        "namespace": "n",
                        "uid": "u",
                        "resourceVersion": "1",
                        "kubeletConfigKey": "k",
                    }
                },
                "error": "x",
            },
        },
    },
)
WHOLE_NAMESPACES: Final[tuple[Mapping[str, Any], ...]] = (
    {
        "metadata": _METADATA,
        "spec": {"finalizers": ["kubernetes", "example.com/mine"]},
        "status": {
            "phase": "Active",
            "conditions": [
                {"type": "NamespaceContentRemaining", "status": "False", "reason": "ContentRemoved", "message": "x"}
            ],
        },
    },
    {"metadata": {**_METADATA, "labels": {"kubernetes.io/metadata.name": "another"}}, "spec": {}},
)
OF_NODES: Final = Pool(
    texts=(
        *(
            "",
            "x",
            "example.com/gpu",
            "gpu",
            "a b",
            "-x",
            "x" * 64,
            "x" * 254,
            "é",
            "kubernetes",
            "orphan",
            "Terminating",
        ),
        *("10.1.0.0/24", "10.1.0.1/24", "010.1.0.0/24", "10.1.0.0/024", "10.1.0.0", "10.1.0.0/33", "2001:db8::/64"),
        *("::ffff:10.1.0.0/120", "2001:db8::1/64", "10.1.0.0/255.255.255.0", "fe80::1%eth0/64", "/24", "a/b/c"),
        *("NoSchedule", "PreferNoSchedule", "NoExecute", "Active", "10.0.0.1", "Hostname", "True"),
    ),
    numbers=(0, 1, -1, 1024, 10250, 2**31),
    quantities=("0", "-1", "1500m", "4", "1Gi", "0.5", "1.5", "100u"),
    times_more=(1, 1, 2),
    # A real server answers with an empty `allocatable` where one is written, and has the capacity when it is read.
    maps=("labels", "annotations", "capacity"),
    untouched=("timeAdded",),
)
