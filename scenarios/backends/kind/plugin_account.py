"""The service account of a story's plugins that talk to a cluster's API server."""

from __future__ import annotations

from typing import Any, Final

from .api import ClusterApi
from .daemon_set import ACCOUNT, LABELS, SELECTED

_RBAC: Final = "rbac.authorization.k8s.io/v1"
_RULES: Final = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch", "update", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["get", "update", "patch"]},
]


async def add_account(api: ClusterApi, namespace: str) -> None:
    """Make the account, and let it read and change nodes and pods.

    Raises:
        HostError: The cluster does not do it.
    """
    metadata = {"name": ACCOUNT, "labels": LABELS}
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    objects: tuple[tuple[str, str, dict[str, Any]], ...] = (
        (f"namespaces/{namespace}/serviceaccounts", "v1", {"kind": "ServiceAccount"}),
        ("clusterroles", _RBAC, {"kind": "ClusterRole", "rules": _RULES}),
        ("clusterrolebindings", _RBAC, {"kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": role}),
    )
    for url, group, body in objects:
        await api.call("POST", url, {"apiVersion": group, "metadata": metadata, **body}, group=group)


async def remove_account(api: ClusterApi, namespace: str) -> None:
    """Take away what `add_account` made, where it is there."""
    await api.call("DELETE", f"clusterrolebindings?{SELECTED}", group=_RBAC)
    await api.call("DELETE", f"clusterroles?{SELECTED}", group=_RBAC)
    await api.call("DELETE", f"namespaces/{namespace}/serviceaccounts?{SELECTED}")
