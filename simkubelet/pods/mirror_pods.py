"""Mirror pods: the objects that stand for a node's static pods in the cluster.

A mirror is told what its pod is told; deleting it changes nothing on the node, and it comes back.

Source: kubelet/pod/mirror_client.go; kubelet/kubelet.go, ``tryReconcileMirrorPods`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import logging
from typing import Any

from ..cluster_api import ClusterApi
from ..model.errors import InputError
from ..model.pod import MIRROR_ANNOTATION, Pod, PodUID

__all__ = ["MirrorPods"]

_log = logging.getLogger(__name__)


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
        """Make the mirrors that somebody has removed; the pods that they stand for."""
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
