"""Whether two parts of pods are the same to the API server, which does not tell an empty field from none.

Fields of Go's types that are pointers are told: they are not set, or have a value that may be zero or without a field.

Source: apimachinery/pkg/api/equality/semantic.go (v0.34.4); api/core/v1/types.go.
"""

from __future__ import annotations

from typing import Any, Final

from ....model.errors import InputError
from ....model.resources import parse_quantity

__all__ = ["plain", "same"]

_POINTERS: Final = frozenset((
    "activeDeadlineSeconds", "allowPrivilegeEscalation", "apiGroup", "automountServiceAccountToken", "cachingMode",
    "defaultMode", "enableServiceLinks", "expirationSeconds", "fsGroup", "fsGroupChangePolicy", "gmsaCredentialSpec",
    "gmsaCredentialSpecName", "hostProcess", "hostUsers", "hostnameOverride", "initiatorName", "localhostProfile",
    "lun", "maxExpirationSeconds", "minDomains", "mode", "mountPropagation", "nodeAffinityPolicy", "nodeTaintsPolicy",
    "optional", "preemptionPolicy", "priority", "privileged", "procMount", "readOnlyRootFilesystem",
    "recursiveReadOnly", "resourceClaimName", "resourceClaimTemplateName", "runAsGroup", "runAsNonRoot", "runAsUser",
    "runAsUserName", "runtimeClassName", "seLinuxChangePolicy", "service", "setHostnameAsFQDN",
    "shareProcessNamespace", "signerName", "started", "stopSignal", "storageClassName", "supplementalGroupsPolicy",
    "terminationGracePeriodSeconds", "tolerationSeconds", "volumeMode",
))  # fmt: skip
_MAPS: Final = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "options", "volumeAttributes"})
_QUANTITIES: Final = frozenset({"limits", "requests", "overhead"})
_OBJECTS: Final = frozenset((
    "affinity", "appArmorProfile", "awsElasticBlockStore", "azureDisk", "azureFile", "capabilities", "cephfs",
    "cinder", "clusterTrustBundle", "configMap", "configMapKeyRef", "configMapRef", "csi", "dataSource",
    "dataSourceRef", "dnsConfig", "downwardAPI", "emptyDir", "ephemeral", "exec", "exitCodes", "fc", "fieldRef",
    "fileKeyRef", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "httpGet",
    "image", "iscsi", "labelSelector", "lifecycle", "livenessProbe", "namespaceSelector", "nfs", "nodeAffinity",
    "nodePublishSecretRef", "os", "persistentVolumeClaim", "photonPersistentDisk", "podAffinity", "podAntiAffinity",
    "podCertificate", "portworxVolume", "postStart", "preStop", "projected", "quobyte", "rbd", "readinessProbe",
    "requiredDuringSchedulingIgnoredDuringExecution", "resourceFieldRef", "scaleIO", "schedulingGroup",
    "seLinuxOptions", "seccompProfile", "secret", "secretKeyRef", "secretRef", "securityContext", "selector",
    "serviceAccountToken", "sleep", "startupProbe", "storageos", "tcpSocket", "valueFrom", "volumeClaimTemplate",
    "vsphereVolume", "windowsOptions",
))  # fmt: skip
"""Objects that are pointers in Go's types: one without a field is another value than none."""


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same."""
    return bool(plain(one) == plain(other))


def plain(value: Any, name: str = "") -> Any:
    """A value without what is empty; None for nothing."""
    if isinstance(value, dict):
        if name in _QUANTITIES:
            return {key: _amount(text) for key, text in value.items()} or None
        if name in _MAPS:
            return value or None
        found = {key: plain(inner, key) for key, inner in value.items()}
        if "containers" in value and value.get("resources") is not None:
            # A pointer of a whole pod, and none of a container.
            found["resources"] = found["resources"] or {}
        kept = {key: inner for key, inner in found.items() if inner is not None}
        return kept if kept or name in _OBJECTS else None
    if isinstance(value, list):
        return [plain(inner) or {} if isinstance(inner, dict) else inner for inner in value] or None
    return value if value or name in _POINTERS else None


def _amount(text: Any) -> Any:
    try:
        return parse_quantity(text)
    except InputError:
        return text
