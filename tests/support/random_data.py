"""Random objects of the kinds without a status: data, leases, revisions, roles and priorities; see `random_objects`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.support.random_objects import Pool

__all__ = ["OF_DATA", "WHOLE_DATA"]

_METADATA: Final[Any] = {"name": "one", "labels": {"app": "x"}, "annotations": {"example.com/note": "x"}}
_NAMED: Final[Any] = {**_METADATA, "namespace": "default"}
_RBAC: Final = "rbac.authorization.k8s.io"

WHOLE_DATA: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "ConfigMap": [
        {
            "metadata": _NAMED,
            "data": {"key": "value", "a.b": "x"},
            "binaryData": {"bytes": "AAEC"},
            "immutable": True,
        },
        {"metadata": _NAMED, "data": {"key": "value"}},
    ],
    "Secret": [
        {"metadata": _NAMED, "type": "Opaque", "data": {"key": "AAEC"}, "stringData": {"key": "x", "other": "y"}},
        {"metadata": _NAMED, "type": "kubernetes.io/basic-auth", "data": {"username": "AAEC"}, "immutable": True},
        {"metadata": _NAMED, "type": "kubernetes.io/tls", "data": {"tls.crt": "AAEC", "tls.key": "AAEC"}},
        {"metadata": _NAMED, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        {"metadata": _NAMED, "type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{}"}},
        {"metadata": _NAMED, "type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": "AAEC"}},
    ],
    "Lease": [
        {
            "metadata": _NAMED,
            "spec": {
                "holderIdentity": "x",
                "leaseDurationSeconds": 40,
                "leaseTransitions": 1,
                "renewTime": "2026-01-01T00:00:00.000000Z",
            },
        }
    ],
    "ControllerRevision": [{"metadata": _NAMED, "revision": 1, "data": {"spec": {"x": "y"}}}],
    "ClusterRole": [
        {
            "metadata": _METADATA,
            "rules": [
                {"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["x"]},
                {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            ],
        },
        {"metadata": _METADATA, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"app": "x"}}]}},
    ],
    "ClusterRoleBinding": [
        {
            "metadata": _METADATA,
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "x"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "default", "namespace": "default"},
                {"kind": "User", "name": "x", "apiGroup": _RBAC},
                {"kind": "Group", "name": "x"},
            ],
        }
    ],
    "PriorityClass": [
        {
            "metadata": _METADATA,
            "value": 33,
            "globalDefault": True,
            "preemptionPolicy": "Never",
            "description": "x",
        },
        {"metadata": {**_METADATA, "name": "system-node-critical"}, "value": 2_000_001_000},
        {"metadata": {**_METADATA, "name": "system-x"}, "value": 1},
    ],
}
"""Kind -> objects; most are taken as they are."""

OF_DATA: Final = Pool(
    texts=(
        *("", "x", "other", "Upper", "-bad", "a/b", "a b", "..", ".", "..a", "x" * 64, "x" * 254, "é", "AAEC", "{}"),
        *("get", "*", "apps", "pods", "/healthz", "ClusterRole", "Role", "User", "Group", "ServiceAccount", _RBAC),
        *("Opaque", "kubernetes.io/tls", "kubernetes.io/ssh-auth", "kubernetes.io/basic-auth", "example.com/x"),
        *("Never", "PreemptLowerPriority", "default", "example.com/a", "kubernetes.io/a", "system:x", "a%b"),
    ),
    numbers=(0, -1, 1, 33, 40, 1_000_000_000, 1_000_000_001, 2_000_001_000, 2**31 - 1),
    quantities=("0", "1"),
    times_more=(1, 1, 2),
    maps=("labels", "annotations", "data", "stringData", "matchLabels"),
    untouched=("metadata", "renewTime"),
    parts=(),
)
"""What their values may become."""
