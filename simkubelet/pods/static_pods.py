"""Static pods: manifests in a folder of the node, which its kubelet runs without a cluster, and their mirror pods.

The uid of a static pod is a hash of its manifest, its node and its file, so a changed manifest is another pod; a real
kubelet hashes Go structures, so the values differ. A mirror pod is the object in the cluster that shows the status of
a static pod; deleting it changes nothing on the node, and it is created again.

Source: kubelet/config/file.go and common.go; kubelet/pod/mirror_client.go; kubelet/kubelet.go,
``tryReconcileMirrorPods`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from .._internal.folder_events import FolderEvents
from ..apis.inotify import Mask
from ..cluster_api import ClusterApi
from ..model.errors import InputError
from ..model.pod import CONFIG_HASH_ANNOTATION, MIRROR_ANNOTATION, Pod, PodUID, pod_from_manifest

__all__ = ["MirrorPods", "read_static_pods", "watch_static_pods"]

_log = logging.getLogger(__name__)
_SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
_TOLERATION: Final = {"operator": "Exists", "effect": "NoExecute"}


def read_static_pods(folder: Path, node: str) -> dict[PodUID, Pod]:
    """The pods of all manifests in a folder, by the names of the files; of two with one name, that of the last file.

    A file that is not a manifest is logged and left out, as are folders and names with a leading dot; a missing folder
    has no pods.
    """
    pods: dict[str, Pod] = {}
    for file in sorted(folder.glob("[!.]*")) if folder.is_dir() else ():
        if not file.is_file():
            continue
        try:
            pod = _static_pod(file, node)
        except (OSError, yaml.YAMLError, InputError) as error:
            _log.error("Could not process manifest file: %s: %s", file, error)
        else:
            pods[pod.key] = pod
    return {pod.uid: pod for pod in pods.values()}


def _static_pod(file: Path, node: str) -> Pod:
    manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(manifest, dict) or manifest.get("kind") != "Pod":
        raise InputError("couldn't parse as pod, please check config file")
    metadata = manifest.get("metadata") or {}
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise InputError("invalid pod: name is needed for the pod")
    uid = str(metadata.get("uid") or _hash(manifest, node, file))
    annotations = {**(metadata.get("annotations") or {}), CONFIG_HASH_ANNOTATION: uid, _SOURCE_ANNOTATION: "file"}
    named = {**metadata, "name": f"{metadata['name']}-{node.lower()}", "annotations": annotations}
    spec = manifest.get("spec") or {}
    others = [toleration for toleration in spec.get("tolerations") or () if toleration != _TOLERATION]
    placed = {**spec, "nodeName": node, "tolerations": [*others, _TOLERATION]}
    pod = pod_from_manifest({**manifest, "metadata": named, "spec": placed})
    return replace(pod, uid=PodUID(uid), is_static=True)


def _hash(manifest: Mapping[str, Any], node: str, file: Path) -> str:
    text = json.dumps(manifest, sort_keys=True, default=str)
    return hashlib.md5(f"{text}host:{node}file:{file}".encode(), usedforsecurity=False).hexdigest()


async def watch_static_pods(folder: Path, on_change: Callable[[], None]) -> None:
    """Call `on_change` at each change in a folder of manifests, until cancelled.

    Raises:
        InputError: there is no such folder.
    """

    def report(path: Path, mask: int) -> None:
        # A file that has just been created is about to be written.
        if not mask & Mask.CREATE:
            on_change()

    events = FolderEvents(report)
    try:
        events.add(folder)
        # What changed before the watch was there.
        on_change()
        await asyncio.get_running_loop().create_future()
    except OSError as error:
        raise InputError(f"static pods: {folder}: cannot be watched: {error.strerror}; make the folder") from None
    finally:
        events.close()


class MirrorPods:
    """The mirrors of one node's static pods."""

    def __init__(self, cluster: ClusterApi) -> None:
        self._cluster = cluster
        self._static: dict[PodUID, Pod] = {}

    def add(self, pod: Pod) -> None:
        """Make the mirror of a static pod, in the place of one of another pod of its name."""
        self._static[pod.uid] = pod
        known = self._cluster.pod_named(pod.key)
        if known is not None and known.mirror_of is not None and known.mirror_of != pod.uid:
            self._cluster.remove_pod(known.uid)
        if known is None or known.mirror_of != pod.uid:
            self._make(pod)

    def remove(self, pod: Pod) -> None:
        """A static pod is gone, and its mirror with it."""
        self._static.pop(pod.uid, None)
        mirror = self.of(pod)
        if mirror is not None:
            self._cluster.remove_pod(mirror.uid)

    def of(self, pod: Pod) -> Pod | None:
        """The mirror of a static pod; None while there is none."""
        named = self._cluster.pod_named(pod.key)
        return named if named is not None and named.mirror_of == pod.uid else None

    def check(self, mirror: Pod) -> None:
        """Look at a mirror that has changed: one that is to go, or whose pod is gone, is removed."""
        if mirror.is_deleting or mirror.mirror_of not in self._static:
            self._cluster.remove_pod(mirror.uid)

    def restore(self) -> tuple[PodUID, ...]:
        """Create removed mirrors again; return the pods that they stand for."""
        missing = [pod for pod in self._static.values() if self.of(pod) is None]
        for pod in missing:
            self._make(pod)
        return tuple(pod.uid for pod in missing)

    def _make(self, pod: Pod) -> None:
        try:
            self._cluster.create_pod(_manifest(pod, self._node_uid(pod)))
        except InputError as error:
            _log.error("Failed creating a mirror pod for %s: %s", pod.key, error)

    def _node_uid(self, pod: Pod) -> str:
        node = self._cluster.node(pod.node_name or "")
        return "" if node is None else str(node.manifest["metadata"]["uid"])


def _manifest(pod: Pod, node_uid: str) -> dict[str, Any]:
    """Source: kubelet/pod/mirror_client.go, ``CreateMirrorPod`` (kubernetes v1.34.4)."""
    metadata = pod.manifest["metadata"]
    annotations = {**metadata["annotations"], MIRROR_ANNOTATION: str(pod.uid)}
    owner = {"apiVersion": "v1", "kind": "Node", "name": pod.node_name, "uid": node_uid, "controller": True}
    return {**pod.manifest, "metadata": {**metadata, "annotations": annotations, "ownerReferences": [owner]}}
