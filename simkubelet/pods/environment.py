"""The variables of a container that come from elsewhere: config maps, secrets, and fields of its pod.

Source: pkg/kubelet/kubelet_pods.go, ``makeEnvironmentVariables``, ``podFieldSelectorRuntimeValue``;
pkg/fieldpath/fieldpath.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..cluster_api import ClusterApi
from ..model.pod import Container, Pod
from ..runtime.program import container_manifest

__all__ = ["MissingVariableError", "environment"]

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_KINDS: Final = {"configMap": ("configmaps", "configmap", "ConfigMap"), "secret": ("secrets", "secret", "Secret")}


class MissingVariableError(Exception):
    """The source of a variable does not exist; the message is the kubelet's."""


def environment(pod: Pod, container: Container, cluster: ClusterApi) -> Mapping[str, str]:
    """The container's own variables in order; references in them are not yet replaced.

    Raises:
        MissingVariableError: a config map, a secret or a key of one is not there.
    """
    manifest = container_manifest(pod, container)
    found: dict[str, str] = {}
    for source in manifest.get("envFrom") or ():
        for field in _KINDS:
            values = _values(pod, field, source.get(f"{field}Ref"), cluster) or {}
            found |= {f"{source.get('prefix') or ''}{name}": _plain(value) for name, value in values.items()}
    for entry in manifest.get("env") or ():
        value = container.env[entry["name"]] or _from_elsewhere(pod, entry.get("valueFrom") or {}, cluster)
        if value is not None:
            found[entry["name"]] = value
    return found


def _from_elsewhere(pod: Pod, source: Mapping[str, Any], cluster: ClusterApi) -> str | None:
    """The value of a variable; None where it is optional and not there."""
    if reference := source.get("fieldRef"):
        return _plain(_field(pod, str(reference.get("fieldPath"))))
    for field, (_, _, kind) in _KINDS.items():
        reference = source.get(f"{field}KeyRef")
        if reference is None:
            continue
        values, key = _values(pod, field, reference, cluster), reference.get("key")
        if values is not None and key in values:
            return _plain(values[key])
        if reference.get("optional"):
            return None
        raise MissingVariableError(f"couldn't find key {key} in {kind} {pod.namespace}/{reference.get('name')}")
    return ""


def _values(pod: Pod, field: str, reference: Mapping[str, Any] | None, cluster: ClusterApi) -> dict[str, str] | None:
    """The texts of a config map or secret; None where it is optional and not there."""
    if reference is None:
        return None
    plural, singular, _ = _KINDS[field]
    name = str(reference.get("name") or "")
    found = cluster.read_object(plural, pod.namespace, name)
    if found is None:
        if reference.get("optional"):
            return None
        raise MissingVariableError(f'{singular} "{name}" not found')
    return dict(found.get("data") or {}) if field == "configMap" else dict(_decoded(found.get("data") or {}))


def _decoded(data: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in data.items():
        yield name, base64.b64decode(text).decode(errors="surrogateescape")


def _field(pod: Pod, path: str) -> str:
    metadata: Mapping[str, Any] = pod.manifest.get("metadata") or {}
    if found := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    own = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.node_name or "",
        "spec.serviceAccountName": str(pod.spec.get("serviceAccountName") or "default"),
    }
    status: Mapping[str, Any] = pod.manifest.get("status") or {}
    return own.get(path, str(status.get(path.removeprefix("status.")) or ""))


def _plain(value: str) -> str:
    """A value in which nothing is a reference."""
    return value.replace("$", "$$")
