"""The cluster of kubelets whose API server is another process: any Kubernetes API server, over HTTP."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .client import ApiClient, ApiError
    from .cluster import RemoteCluster
    from .kubeconfig import ServerAccess, read_kubeconfig
    from .kubelet_server import kubelet_ports, serving_kubelets
    from .leaving import drain, remove
else:
    from .._internal import lazy

    __getattr__, __dir__ = lazy.exports(
        __name__,
        {
            ".client": ("ApiClient", "ApiError"),
            ".cluster": ("RemoteCluster",),
            ".kubeconfig": ("ServerAccess", "read_kubeconfig"),
            ".kubelet_server": ("kubelet_ports", "serving_kubelets"),
            ".leaving": ("drain", "remove"),
        },
    )

__all__ = [
    "ApiClient",
    "ApiError",
    "RemoteCluster",
    "ServerAccess",
    "drain",
    "kubelet_ports",
    "read_kubeconfig",
    "remove",
    "serving_kubelets",
]
