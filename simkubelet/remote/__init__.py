"""The cluster of kubelets whose API server is another process: any Kubernetes API server, over HTTP."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .client import JSON, ApiClient, ApiError, is_older, items_of
    from .cluster import RemoteCluster
    from .kubeconfig import ServerAccess, read_kubeconfig
    from .kubelet_server import kubelet_ports, serving_kubelets
    from .leaving import drain, remove
    from .pods import delete_pod, pod_path
    from .reflector import Follower, Reflector
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".client": ("JSON", "ApiClient", "ApiError", "is_older", "items_of"),
            ".cluster": ("RemoteCluster",),
            ".kubeconfig": ("ServerAccess", "read_kubeconfig"),
            ".kubelet_server": ("kubelet_ports", "serving_kubelets"),
            ".leaving": ("drain", "remove"),
            ".pods": ("delete_pod", "pod_path"),
            ".reflector": ("Follower", "Reflector"),
        },
    )

__all__ = [
    "JSON",
    "ApiClient",
    "ApiError",
    "Follower",
    "Reflector",
    "RemoteCluster",
    "ServerAccess",
    "delete_pod",
    "drain",
    "is_older",
    "items_of",
    "kubelet_ports",
    "pod_path",
    "read_kubeconfig",
    "remove",
    "serving_kubelets",
]
