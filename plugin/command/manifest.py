"""The DaemonSet of a plugin, and what is deployed with it: a ConfigMap for its file, its rights in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from simkubelet.apis.documents import read_file
from simkubelet.apis.yaml_text import yaml_text

from ..errors import UsageError
from .pod_needs import PodNeeds

__all__ = ["manifest"]

_NAMESPACE: Final = "kube-system"
_LARGEST_MAP: Final = 1 << 20
"""Bytes of a ConfigMap. Source: pkg/apis/core/types.go, ``MaxSecretSize`` (kubernetes v1.34.4)."""
_CONFIG_FOLDER: Final = "/etc/simkubelet"


def manifest(plugin: str, arguments: Sequence[str], kubelet_dir: Path, needs: PodNeeds) -> str:
    """YAML documents for ``kubectl apply -f -``.

    Args:
        plugin: The plugin's name.
        arguments: What it is started with, as it was given here.
        kubelet_dir: The kubelet's folder of sockets on the node.
        needs: What it needs of node and cluster.

    Raises:
        UsageError: the file that it is configured with cannot be read, or a pod cannot have a folder of the node.
    """
    name = f"{plugin}-device-plugin"
    objects = [
        *_access(name, needs),
        *_config_map(name, needs),
        _daemon_set(name, plugin, arguments, kubelet_dir, needs),
    ]
    return yaml_text(*objects)


def _metadata(name: str, *, is_namespaced: bool = True) -> dict[str, Any]:
    place = {"namespace": _NAMESPACE} if is_namespaced else {}
    return {"name": name, **place, "labels": {"app.kubernetes.io/name": name}}


def _access(name: str, needs: PodNeeds) -> Iterator[dict[str, Any]]:
    """The service account of a plugin that talks to the API server, and what that may do."""
    if not needs.rules:
        return
    group = "rbac.authorization.k8s.io"
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(name)}
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name, is_namespaced=False),
        "rules": [dict(rule) for rule in needs.rules],
    }
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name, is_namespaced=False),
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": _NAMESPACE}],
    }


def _config_map(name: str, needs: PodNeeds) -> Iterator[dict[str, Any]]:
    if needs.config is None:
        return
    option, file = needs.config
    try:
        content = read_file(file, _LARGEST_MAP).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise UsageError(f"{option} {file}: {reason}; name a file that the ConfigMap can carry") from error
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(name), "data": {file.name: content}}


def _daemon_set(name: str, plugin: str, arguments: Sequence[str], kubelet_dir: Path, needs: PodNeeds) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name}
    folders = {folder: folder for folder in needs.folders} | dict(needs.mounts)
    volumes = [
        _host_volume("device-plugins", str(kubelet_dir)),
        *(_host_volume(f"node-{index}", path) for index, path in enumerate(folders.values())),
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "device-plugins", "mountPath": str(kubelet_dir)},
        *({"name": f"node-{index}", "mountPath": path} for index, path in enumerate(folders)),
    ]
    if needs.config is not None:
        volumes.append({"name": "config", "configMap": {"name": name}})
        mounts.append({"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True})
    container = {
        "name": "plugin",
        "image": f"simkubelet/{plugin}:{metadata.version('simkubelet')}",
        "command": ["simkubelet", "plugin", plugin],
        **({"args": args} if (args := _arguments(arguments, needs)) else {}),
        **({"env": env} if (env := _env(needs)) else {}),
        "securityContext": _security_context(needs),
        "volumeMounts": mounts,
    }
    pod = {
        "priorityClassName": "system-node-critical",
        **({"serviceAccountName": name} if needs.rules else {"automountServiceAccountToken": False}),
        **({"tolerations": [_tolerated(needs.taint)]} if needs.taint else {}),
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(name),
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": dict(labels)}, "spec": pod}},
    }


def _host_volume(name: str, path: str) -> dict[str, Any]:
    """A folder of the node.

    Source: pkg/apis/core/validation/validation.go, ``validateHostPathVolumeSource`` (kubernetes v1.34.4); what is
    relative it lets pass, for a container runtime to fail on.
    """
    if not path.startswith("/") or ".." in path.split("/"):
        raise UsageError(
            f"'{path}' cannot be mounted into a pod; give the folder's whole path on the node, without '..'"
        )
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _tolerated(taint: str) -> dict[str, str]:
    return {"key": taint, "operator": "Exists", "effect": "NoSchedule"}


def _arguments(arguments: Sequence[str], needs: PodNeeds) -> list[str]:
    """The arguments, with the file where the ConfigMap is mounted."""
    if needs.config is None:
        return list(arguments)
    option, file = needs.config
    kept = iter(arguments)
    others = []
    for argument in kept:
        if argument == option:
            next(kept, None)
        elif not argument.startswith(f"{option}="):
            others.append(argument)
    return [option, f"{_CONFIG_FOLDER}/{file.name}", *others]


def _env(needs: PodNeeds) -> list[dict[str, Any]]:
    named = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    given = [{"name": name, "value": value} for name, value in needs.env.items()]
    return [named, *given] if needs.has_node_name else given


def _security_context(needs: PodNeeds) -> Mapping[str, Any]:
    """Root, as in every original, since the kubelet's folder is root's; but with no right that root need not have."""
    if needs.is_privileged:
        return {"privileged": True}
    if needs.capabilities:
        return {"capabilities": {"drop": ["ALL"], "add": list(needs.capabilities)}}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
