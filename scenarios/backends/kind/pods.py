"""The pods of a story on a cluster: their manifests, and the programs that run in them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from ...story.node_spec import NodeSpec, Runtime
from .daemon_set import LABELS
from .image import PluginImage
from .node import KindNode
from .placement import placed
from .program import archive_of
from .stand_in import manifest_for_cluster, own_programs


class KindPods:
    """Makes a story's manifests into the cluster's.

    Args:
        specs: The story's nodes. Where they run the processes of containers, a container runs its own program.
        nodes: The cluster's, to which programs are brought, as any of them may get a pod.
        image: What containers run in.

    Attributes:
        runs_programs: Whether containers are processes of the story's own.
    """

    def __init__(self, specs: Collection[NodeSpec], nodes: Collection[KindNode], image: PluginImage) -> None:
        self.runs_programs = any(spec.runtime is Runtime.PROCESS for spec in specs)
        self._nodes = nodes
        self._image = image
        self._story = uuid.uuid4()

    async def manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """What to give to the cluster for a manifest of the story.

        Raises:
            InputError: A program of it cannot run on a node.
            HostError: A program cannot be brought there.
        """
        programs = own_programs(manifest) if self.runs_programs else {}
        if programs:
            archive = archive_of(programs.values())
            for node in self._nodes:
                await node.put(archive)
        names = {node.name: node.container for node in self._nodes}
        return placed(manifest_for_cluster(manifest, self._image, LABELS, programs), names)

    async def static_manifest(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The content of a static pod's file on a node.

        A kubelet makes the pod's id from this content and the file's name, and for a known id it goes on with what the
        runtime still has of an ended pod. So that no story goes on with another's pod, the id is given: the same for
        the same manifest, as a kubelet's would be, and of this story alone.

        Raises:
            InputError: A program of it cannot run on a node.
            HostError: A program cannot be brought there.
        """
        made = await self.manifest(manifest)
        uid = uuid.uuid5(self._story, json.dumps(made, sort_keys=True)).hex
        return made | {"metadata": {"uid": uid} | made["metadata"]}
