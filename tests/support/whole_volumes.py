"""The specs of pods that have volumes of every type, and what other whole pods have in common with them."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["IMAGE", "PLAIN", "SELECTOR", "VOLUMES", "VOLUMES_OF_DRIVERS"]

IMAGE: Final[Any] = "example.com/app:1"
PLAIN: Final[Any] = {"name": "main", "image": IMAGE}
SELECTOR: Final[Any] = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["x", "other"]},
        {"key": "zone", "operator": "Exists"},
    ],
}
_FIELD_FILES: Final[Any] = [
    {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 256, "user": 1},
    {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1"}},
]
_ITEMS: Final[Any] = [{"key": "k", "path": "a/b", "mode": 256, "user": 1}]
VOLUMES: Final[Any] = {
    "serviceAccountName": "default",
    "volumes": [
        {"name": "dir", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi", "mode": 448}},
        {"name": "host", "hostPath": {"path": "/dev", "type": "Directory"}},
        {"name": "secret", "secret": {"secretName": "x", "defaultMode": 256, "items": _ITEMS, "optional": True}},
        {"name": "config", "configMap": {"name": "x", "defaultMode": 256, "defaultUser": 1, "items": _ITEMS}},
        {"name": "downward", "downwardAPI": {"defaultMode": 256, "items": _FIELD_FILES}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "x", "readOnly": True}},
        {"name": "image", "image": {"reference": "example.com/model:1", "pullPolicy": "Always"}},
        {
            "name": "many",
            "projected": {
                "defaultMode": 256,
                "defaultUser": 1,
                "sources": [
                    {"secret": {"name": "x", "items": [{"key": "k", "path": "s", "user": 1}]}},
                    {"configMap": {"name": "x", "items": [{"key": "k", "path": "c"}]}},
                    {"downwardAPI": {"items": [{"path": "d", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    {"serviceAccountToken": {"audience": "x", "expirationSeconds": 3600, "path": "token", "user": 1}},
                    {"clusterTrustBundle": {"name": "x", "path": "t", "optional": True, "user": 1}},
                    {
                        "clusterTrustBundle": {
                            "signerName": "example.com/x",
                            "labelSelector": {"matchLabels": {"a": "b"}},
                            "path": "u",
                        }
                    },
                    {
                        "podCertificate": {
                            "signerName": "example.com/x",
                            "keyType": "ED25519",
                            "maxExpirationSeconds": 3600,
                            "credentialBundlePath": "p",
                            "keyPath": "q",
                            "certificateChainPath": "r",
                            "userAnnotations": {"example.com/x": "y"},
                            "user": 1,
                        }
                    },
                ],
            },
        },
    ],
    "containers": [
        {
            **PLAIN,
            "securityContext": {"privileged": True},
            "volumeMounts": [
                {"name": "dir", "mountPath": "/dir", "subPath": "a/b", "mountPropagation": "Bidirectional"},
                {"name": "host", "mountPath": "/host", "subPathExpr": "$(A)", "bindMountOptions": ["noexec"]},
                {"name": "secret", "mountPath": "/secret", "readOnly": True, "recursiveReadOnly": "IfPossible"},
                {"name": "image", "mountPath": "/image"},
            ],
            "volumeDevices": [{"name": "claim", "devicePath": "/dev/x"}],
        }
    ],
}
VOLUMES_OF_DRIVERS: Final[Any] = {
    "volumes": [
        {"name": "nfs", "nfs": {"server": "x", "path": "/x", "readOnly": True}},
        {
            "name": "csi",
            "csi": {
                "driver": "csi.example.com",
                "fsType": "ext4",
                "volumeAttributes": {"a": "b"},
                "nodePublishSecretRef": {"name": "x"},
            },
        },
        {
            "name": "own",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "selector": SELECTOR,
                        "resources": {"requests": {"storage": "1Gi"}},
                        "storageClassName": "fast",
                        "volumeMode": "Block",
                        "volumeAttributesClassName": "x",
                        "dataSource": {"apiGroup": "example.com", "kind": "X", "name": "x"},
                        "dataSourceRef": {"apiGroup": "example.com", "kind": "X", "name": "x"},
                    },
                }
            },
        },
        {"name": "git", "gitRepo": {"repository": "x", "directory": "a"}},
        {"name": "gce", "gcePersistentDisk": {"pdName": "x", "partition": 1}},
        {"name": "aws", "awsElasticBlockStore": {"volumeID": "x", "partition": 1}},
        {
            "name": "iscsi",
            "iscsi": {
                "targetPortal": "x",
                "iqn": "iqn.2001-04.com.example:storage",
                "lun": 1,
                "initiatorName": "iqn.2001-04.com.example:init",
                "chapAuthSession": True,
                "secretRef": {"name": "x"},
            },
        },
        {"name": "glusterfs", "glusterfs": {"endpoints": "x", "path": "x"}},
        {"name": "flocker", "flocker": {"datasetName": "x"}},
        {"name": "rbd", "rbd": {"monitors": ["x"], "image": "x", "pool": "x"}},
        {"name": "cinder", "cinder": {"volumeID": "x", "secretRef": {"name": "x"}}},
        {"name": "cephfs", "cephfs": {"monitors": ["x"]}},
        {"name": "quobyte", "quobyte": {"registry": "x:1", "volume": "x", "tenant": "x"}},
        {"name": "fc", "fc": {"targetWWNs": ["x"], "lun": 1}},
        {"name": "flex", "flexVolume": {"driver": "x/y", "options": {"a": "b"}}},
        {"name": "azure-file", "azureFile": {"secretName": "x", "shareName": "x"}},
        {"name": "azure-disk", "azureDisk": {"diskName": "x", "diskURI": "https://x", "kind": "Shared"}},
        {"name": "vsphere", "vsphereVolume": {"volumePath": "x"}},
        {"name": "photon", "photonPersistentDisk": {"pdID": "x"}},
        {"name": "portworx", "portworxVolume": {"volumeID": "x"}},
        {
            "name": "storageos",
            "storageos": {"volumeName": "x", "volumeNamespace": "x", "secretRef": {"name": "x"}},
        },
        {
            "name": "scaleio",
            "scaleIO": {"gateway": "x", "system": "x", "volumeName": "x", "secretRef": {"name": "x"}},
        },
    ],
    "containers": [{**PLAIN, "volumeDevices": [{"name": "own", "devicePath": "/dev/own"}]}],
}
