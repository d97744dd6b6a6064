"""The cluster of a run: made or found once, with the plugin image in it, for one story after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from simkubelet.model.errors import HostError

from ...story.model import Scenario
from .backend import KindBackend
from .cluster import KindCluster
from .image import ImageSource, PluginImage, image_source
from .members import KindMembers
from .node import KindNode


@dataclass(frozen=True, slots=True)
class KindSession:
    """A cluster that is there.

    Attributes:
        kubernetes: The version of its kubelets, such as ``1.34.4``.
    """

    cluster: KindCluster
    members: KindMembers
    kubernetes: str
    image: PluginImage

    def world(self, scenario: Scenario, replacements: Mapping[str, Sequence[str]]) -> KindBackend:
        """The world of one story, not yet entered; see `KindBackend`."""
        return KindBackend(scenario, self.members, self.cluster.kubeconfig, self.image, replacements)


@contextlib.asynccontextmanager
async def kind_session(name: str, node_image: str | None, keep: bool, count: int = 1) -> AsyncIterator[KindSession]:
    """Make or find a cluster; leaving deletes it where it was made here and is not kept.

    Args:
        name: Its name for kind.
        node_image: Of its nodes where it has to be made; kind's default where it is None.
        keep: Leave it there.
        count: How many nodes it has where it has to be made.

    Raises:
        InputError: Another run uses it.
        HostError: docker or kind fails; nothing is left.
    """
    cluster = KindCluster(name, node_image, keep, count)
    try:
        containers = await cluster.enter()
        source = await asyncio.to_thread(image_source)
        image = source.image
        nodes = [KindNode(container, container, image, lambda told: None) for container in containers]
        await _bring(source, nodes)
        try:
            kubernetes = (await nodes[0].run("cat", "/kind/version")).strip().removeprefix("v")
        except HostError:
            raise HostError(f"cluster '{name}': its nodes are not kind's; name another with --cluster") from None
        members = KindMembers(nodes)
        try:
            yield KindSession(cluster, members, kubernetes, image)
        finally:
            if cluster.stays:
                await asyncio.shield(members.restore())
    finally:
        await asyncio.shield(cluster.leave())


async def _bring(source: ImageSource, nodes: Sequence[KindNode]) -> None:
    """See that all nodes have an image."""
    # A run that was killed may have left a runtime paused, and a paused one would keep this one waiting.
    await asyncio.gather(*(node.resume_runtime() for node in nodes))
    there = await asyncio.gather(*(node.images() for node in nodes))
    lacking = [node for node, names in zip(nodes, there, strict=True) if source.image.reference not in names]
    if lacking:
        with_base = any(source.base not in names for names in there)
        archive = await asyncio.to_thread(source.archive, with_base=with_base)
        await asyncio.gather(*(node.load(archive) for node in lacking))
