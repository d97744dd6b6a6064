"""A pod's volumes, as far as they can keep its containers from starting: no content is mounted anywhere.

What needs a driver or a claim is taken for set up; see `cluster.strategies.pod.not_simulated.NOT_SIMULATED`.
A path of the node is looked for in the node's folder first and on this host next; what is made is made in the folder.

Source: pkg/volume/hostpath/host_path.go, ``checkTypeInternal``; pkg/volume/configmap, secret, projected; pkg/kubelet/
volumemanager/volume_manager.go, ``WaitForAttachAndMount``; util/goroutinemap/exponentialbackoff (kubernetes v1.34.4).
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from .._internal.file_tree import check_path
from ..cluster_api import ClusterApi
from ..model.clock import Clock
from ..model.pod import Pod
from ..node_tree import KUBELET_FOLDERS, node_tree

__all__ = ["VolumeRetry", "Volumes"]

_FIRST_RETRY_S: Final = 0.5
_LAST_RETRY_S: Final = 122.0
_KINDS: Final = {"configMap": ("configmaps", "configmap"), "secret": ("secrets", "secret")}
_NO_KEY: Final = {
    "configMap": "configmap references non-existent config key: {}",
    "secret": "references non-existent secret key: {}",
}
_TYPES: Final = {
    "Directory": (stat.S_IFDIR, "a directory"),
    "File": (stat.S_IFREG, "a file"),
    "Socket": (stat.S_IFSOCK, "a socket file"),
    "CharDevice": (stat.S_IFCHR, "a character device"),
    "BlockDevice": (stat.S_IFBLK, "a block device"),
}


class VolumeError(Exception):
    """A volume cannot be set up; the message is the kubelet's."""


@dataclass(slots=True)
class VolumeRetry:
    """When the volumes of a pod are tried next."""

    due: float = 0.0
    pause_s: float = 0.0

    def failed(self, clock: Clock) -> None:
        self.pause_s = min(self.pause_s * 2 or _FIRST_RETRY_S, _LAST_RETRY_S)
        self.due = clock.now() + self.pause_s


class Volumes:
    """Sets the volumes of a node's pods up.

    Args:
        directory: the node's folder, see `node_tree`.
        cluster: has the config maps and secrets.
    """

    def __init__(self, directory: Path, cluster: ClusterApi) -> None:
        self._tree = node_tree(directory)
        self._cluster = cluster

    def set_up(self, pod: Pod) -> list[str]:
        """Make what volumes of a pod ask for; the messages of those that cannot be set up."""
        return [message for volume in _mounted(pod) for message in self._fault(pod, volume)]

    def _fault(self, pod: Pod, volume: Mapping[str, Any]) -> Iterator[str]:
        try:
            if host_path := volume.get("hostPath"):
                self._host_path(str(host_path.get("path")), host_path.get("type") or "")
            else:
                self._content(pod.namespace, volume)
        except VolumeError as error:
            yield f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}'

    def _content(self, namespace: str, volume: Mapping[str, Any]) -> None:
        sources = (volume.get("projected") or {}).get("sources") or [volume]
        faults = [fault for source in sources for fault in self._missing(namespace, source)]
        if faults:
            raise VolumeError(faults[0] if len(faults) == 1 else f"[{', '.join(dict.fromkeys(faults))}]")

    def _missing(self, namespace: str, source: Mapping[str, Any]) -> Iterator[str]:
        for field, (kind, word) in _KINDS.items():
            wanted = source.get(field)
            if wanted is None or wanted.get("optional"):
                continue
            name = wanted.get("secretName") or wanted.get("name") or ""
            found = self._cluster.read_object(kind, namespace, name)
            if found is None:
                yield f'{word} "{name}" not found'
                continue
            known = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
            missing = [item["key"] for item in wanted.get("items") or () if item.get("key") not in known]
            yield from (_NO_KEY[field].format(key) for key in missing[:1])

    def _host_path(self, path: str, type_: str) -> None:
        if ".." in path.split("/"):
            raise VolumeError(f"invalid HostPath `{path}`: must not contain '..'")
        plain = type_.removesuffix("OrCreate")
        if not type_:
            return
        if plain not in _TYPES:
            raise VolumeError(f"{type_} is an invalid volume type")
        mode = self._mode(path)
        if mode is None and type_ != plain:
            self._make(path, is_folder=plain == "Directory")
            return
        wanted, words = _TYPES[plain]
        if mode != wanted:
            raise VolumeError(f"hostPath type check failed: {path} is not {words}")

    def _mode(self, path: str) -> int | None:
        """The type of a file of the node; None where there is none."""
        try:
            check_path(path)
        except OSError:
            return None
        if path.rstrip("/") in KUBELET_FOLDERS:
            return stat.S_IFDIR
        looks: list[Callable[[], os.stat_result]] = [partial(self._tree.stat, path), Path("/", path).stat]
        for look in looks:
            try:
                mode = stat.S_IFMT(look().st_mode)
            except OSError:
                continue
            # A file of the node stands for a device, which needs no privileges to create.
            is_device = mode == stat.S_IFREG and look is looks[0] and path.startswith("/dev/")
            return stat.S_IFCHR if is_device else mode
        return None

    def _make(self, path: str, *, is_folder: bool) -> None:
        call = "mkdir" if is_folder else "open"
        try:
            check_path(path)
        except OSError as error:
            raise VolumeError(f"{call} {path}: {_words(error)}") from None
        above = [str(parent) for parent in Path("/", path).parents][::-1]
        # What is below something that is missing is missing, too, and there may be two thousand of them.
        missing = above[bisect_left(above, True, key=lambda parent: self._mode(parent) is None) :]
        last = above[len(above) - len(missing) - 1]
        if self._mode(last) != stat.S_IFDIR:
            raise VolumeError(f"mkdir {last}: not a directory" if is_folder else f"open {path}: not a directory")
        if missing and not is_folder:
            raise VolumeError(f"open {path}: no such file or directory")
        if missing and self._tree.has(missing[0], follow=False):
            # A link that leads nowhere.
            raise VolumeError(f"mkdir {missing[0]}: file exists")
        try:
            if is_folder:
                self._tree.make_folder(path, 0o755, exist_ok=True)
            else:
                self._tree.open(path, "ab", make=True).close()
        except OSError as error:
            raise VolumeError(f"{call} {path}: {_words(error)}") from None


def _words(error: OSError) -> str:
    return (error.strerror or "").lower()


def _mounted(pod: Pod) -> list[Mapping[str, Any]]:
    """The volumes of a pod that a container of it uses; the others are not set up."""
    containers = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    fields = ("volumeMounts", "volumeDevices")
    used = {mount.get("name") for container in containers for field in fields for mount in container.get(field) or ()}
    return [volume for volume in pod.spec.get("volumes") or () if volume.get("name") in used]
