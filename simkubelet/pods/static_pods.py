"""Static pods: manifests in a folder of the node, which its kubelet runs without a cluster, and their mirror pods.

The uid of a static pod is a hash of its manifest, its node and its file, so a changed manifest is another pod; a real
kubelet hashes Go structures, so the values differ. A mirror pod is the object in the cluster that shows the status of
a static pod; deleting it changes nothing on the node, and it is created again.

Source: kubelet/config/file.go and common.go; kubelet/pod/mirror_client.go; kubelet/kubelet.go,
``tryReconcileMirrorPods``; kubelet/status/status_manager.go, ``syncBatch`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import logging
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from .._internal.doors import Door
from ..apis.documents import MOST_VALUES, load_yaml, read_file
from ..apis.inotify import Inotify, Mask
from ..cluster_api import ClusterApi
from ..model.errors import InputError
from ..model.pod import CONFIG_HASH_ANNOTATION, MIRROR_ANNOTATION, Pod, PodUID, pod_from_manifest
from ..model.pod_status import PodStatus
from ..node_tree import FileTree, tree_with

__all__ = ["MirrorPods", "make_static_pod_folder", "read_static_pods", "watch_static_pods"]

T = TypeVar("T", dict[str, Any], list[Any])

_log = logging.getLogger(__name__)
_FILE: Final = Door("manifest of a static pod")
_SOURCE_ANNOTATION: Final = "kubernetes.io/config.source"
_CHANGES: Final = Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.DELETE | Mask.ONLYDIR
"""Not that a file is created: it is about to be written."""
_READ_AT_ONCE_BYTES: Final = 32 << 10
_OPENED_AS_FAST_BYTES: Final = 256
"""So much of a manifest is read while a file is looked at."""
_LIMIT_REACHED: Final = "the read limit is reached"
_NO_POD: Final = "couldn't parse as pod, please check config file"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_FILE_NAME: Final = re.compile(r"(?!\.{1,2}$)[^/\0]+")
_LONGEST_NAME: Final = 253
_TOLERATION: Final = {"operator": "Exists", "effect": "NoExecute"}


async def read_static_pods(folder: Path, node: str, directory: Path) -> dict[PodUID, Pod]:
    """The pods of all manifests in a folder, by the names of the files; of two with one name, that of the last file.

    What is not a manifest is logged and left out, as are folders and names with a leading dot; a missing folder has no
    pods. Long files are read beside the event loop, which has a turn after some short ones.

    Args:
        folder: absolute; where it is not in the node's folder, no link in it leads out of it.
        node: the kubelet's name.
        directory: the node's folder.
    """
    tree, path = tree_with(folder, directory)
    pods: dict[str, Pod] = {}
    at_once = 0
    for name in _names(tree, path):
        at_once += _OPENED_AS_FAST_BYTES
        if at_once > _READ_AT_ONCE_BYTES:
            await asyncio.sleep(0)
            at_once = 0
        try:
            mode = tree.stat(f"{path}/{name}").st_mode
        except OSError as error:
            _log.error("Could not get metadata: %s: %s", folder / name, error.strerror)
            continue
        if stat.S_ISDIR(mode):
            continue
        with _FILE(folder / name):
            try:
                with tree.open(f"{path}/{name}", "rb") as file:
                    content = read_file(file.fileno())
                at_once += len(content)
                work = partial(_read, content, folder / name, node)
                pod = work() if len(content) <= _READ_AT_ONCE_BYTES else await asyncio.to_thread(work)
            except (OSError, ValueError, yaml.YAMLError, InputError) as error:
                is_too_large = isinstance(error, OSError) and error.errno == errno.EFBIG
                reason = _LIMIT_REACHED if is_too_large else error
                _log.error("Could not process manifest file: %s: %s", folder / name, reason)
            else:
                pods[pod.key] = pod
    return {pod.uid: pod for pod in pods.values()}


def _read(content: bytes, file: Path, node: str) -> Pod:
    return _static_pod(load_yaml(content, most=MOST_VALUES), file, node)


def _names(tree: FileTree, folder: str) -> list[str]:
    try:
        return [name for name in tree.names(folder) if not name.startswith(".")]
    except FileNotFoundError:
        return []
    except OSError as error:
        _log.error("Unable to read config path %s: %s", folder, error.strerror)
        return []


def make_static_pod_folder(folder: Path, directory: Path) -> None:
    """Make a folder of manifests where it is missing; for the arguments see `read_static_pods`.

    Raises:
        InputError: it cannot be made.
    """
    try:
        tree, path = tree_with(folder, directory)
        if path == "/":
            folder.mkdir(parents=True, exist_ok=True)
        else:
            tree.make_folder(path, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}; choose another folder") from None


def _static_pod(document: object, file: Path, node: str) -> Pod:
    manifest = _part({"file": document}, "file", dict)
    if manifest.get("kind") != "Pod":
        raise InputError(_NO_POD)
    metadata, spec = _part(manifest, "metadata", dict), _part(manifest, "spec", dict)
    if not metadata.get("name"):
        raise InputError("invalid pod: name is needed for the pod")
    _check_name("metadata.name", metadata["name"], _SUBDOMAIN)
    _check_name("metadata.namespace", metadata.get("namespace") or "default", _LABEL)
    for container in (*_part(spec, "initContainers", list), *_part(spec, "containers", list)):
        _check_name("container name", _part({"of": container}, "of", dict).get("name"), _LABEL)
    uid = str(metadata.get("uid") or _hash(manifest, node, file))
    _check_name("metadata.uid", uid, _FILE_NAME)
    annotations = _part(metadata, "annotations", dict) | {CONFIG_HASH_ANNOTATION: uid, _SOURCE_ANNOTATION: "file"}
    named = {**metadata, "name": f"{metadata['name']}-{node.lower()}", "annotations": annotations}
    others = [toleration for toleration in _part(spec, "tolerations", list) if toleration != _TOLERATION]
    placed = {**spec, "nodeName": node, "tolerations": [*others, _TOLERATION]}
    pod = pod_from_manifest({**manifest, "metadata": named, "spec": placed})
    return replace(pod, uid=PodUID(uid), is_static=True)


def _part(of: Mapping[str, Any], name: str, type_: type[T]) -> T:
    """A part of a manifest, empty where it is missing.

    Raises:
        InputError: it is of another type, or has keys that are no texts.
    """
    part = of.get(name)
    if part is None:
        return type_()
    if not isinstance(part, type_) or {type(key) for key in part if isinstance(part, dict)} - {str}:
        raise InputError(_NO_POD)
    return part


def _check_name(field: str, name: object, allowed: re.Pattern[str]) -> None:
    """Check a name that becomes the name of a folder with the container's output.

    A real kubelet takes any uid, also one that leads out of its folder.

    Source: pkg/apis/core/validation/validation.go, ``ValidatePodCreate``, as kubelet/config/common.go,
    ``tryDecodeSinglePod`` calls it (kubernetes v1.34.4).
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not allowed.fullmatch(name):
        raise InputError(f"invalid pod: {field}: Invalid value: {json.dumps(name, default=str)}")


def _hash(manifest: Mapping[str, Any], node: str, file: Path) -> str:
    text = json.dumps(manifest, sort_keys=True, default=str)
    whole = f"{text}host:{node}file:{file}".encode(errors="surrogateescape")
    return hashlib.md5(whole, usedforsecurity=False).hexdigest()


async def watch_static_pods(folder: Path, directory: Path, on_change: Callable[[], None]) -> None:
    """Call `on_change` at each change in a folder of manifests, until cancelled; see `read_static_pods`.

    Raises:
        InputError: there is no such folder.
    """
    events = Inotify(lambda event: on_change())
    try:
        tree, path = tree_with(folder, directory)
        events.add(tree.real_path(path), _CHANGES)
        # What changed before the watch was there.
        on_change()
        await asyncio.get_running_loop().create_future()
    except OSError as error:
        raise InputError(f"static pods: {folder}: cannot be watched: {error.strerror}; make the folder") from None
    finally:
        events.close()


class MirrorPods:
    """The mirrors of one node's static pods.

    A status is kept until the mirror is there: a static pod does not wait for the API server, and its mirror may come
    when all of its containers run.
    """

    def __init__(self, cluster: ClusterApi) -> None:
        self._cluster = cluster
        self._static: dict[PodUID, Pod] = {}
        self._statuses: dict[PodUID, PodStatus] = {}
        """Of static pods in `_static`: what each has published last."""

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
        self._statuses.pop(pod.uid, None)
        mirror = self.of(pod)
        if mirror is not None:
            self._cluster.remove_pod(mirror.uid)

    def publish(self, pod: Pod, status: PodStatus) -> None:
        """Publish the status of a static pod, now or when its mirror is there."""
        if pod.uid in self._static:
            self._statuses[pod.uid] = status
        mirror = self.of(pod)
        if mirror is not None:
            self._cluster.set_pod_status(mirror.uid, status)

    def of(self, pod: Pod) -> Pod | None:
        """The mirror of a static pod; None while there is none."""
        named = self._cluster.pod_named(pod.key)
        return named if named is not None and named.mirror_of == pod.uid else None

    def check(self, mirror: Pod) -> None:
        """Look at a mirror that is new or has changed: it shows what its pod has published last.

        One that is to go, or whose pod is gone, is removed.
        """
        if mirror.is_deleting or mirror.mirror_of not in self._static:
            self._cluster.remove_pod(mirror.uid)
        elif mirror.mirror_of in self._statuses:
            self._cluster.set_pod_status(mirror.uid, self._statuses[mirror.mirror_of])

    def restore(self) -> None:
        """Create removed mirrors again."""
        for pod in self._static.values():
            if self.of(pod) is None:
                self._make(pod)

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
