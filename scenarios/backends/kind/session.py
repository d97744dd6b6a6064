"""The cluster of a run: made or found once, with the plugin image in it, for one story after the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from simkubelet.errors import HostError

from ...model import Scenario
from .backend import KindBackend
from .cluster import KindCluster
from .image import PluginImage, built_image
from .node import KindNode


@dataclass(frozen=True, slots=True)
class KindSession:
    """A cluster that is there.

    Attributes:
        kubernetes: The version of its kubelets, such as ``1.34.4``.
    """

    cluster: KindCluster
    containers: tuple[str, ...]
    kubernetes: str
    image: PluginImage

    def world(self, scenario: Scenario) -> KindBackend:
        """The world of one story, not yet entered."""
        return KindBackend(scenario, self.containers, self.cluster.kubeconfig, self.image)


@contextlib.asynccontextmanager
async def kind_session(name: str, node_image: str | None, keep: bool) -> AsyncIterator[KindSession]:
    """Make or find a cluster; leaving deletes it where it was made here and is not kept.

    Args:
        name: Its name for kind.
        node_image: Of its nodes where it has to be made; kind's default where it is None.
        keep: Leave it there.

    Raises:
        InputError: Another run uses it.
        HostError: docker or kind fails; nothing is left.
    """
    cluster = KindCluster(name, node_image, keep)
    try:
        containers = await cluster.enter()
        image = await built_image()
        nodes = [KindNode(container, container, image, lambda told: None) for container in containers]
        if not all([await node.has_image(image.reference) for node in nodes]):
            await cluster.load(image)
        try:
            kubernetes = (await nodes[0].run("cat", "/kind/version")).strip().removeprefix("v")
        except HostError:
            raise HostError(f"cluster '{name}': its nodes are not kind's; name another with --cluster") from None
        yield KindSession(cluster, containers, kubernetes, image)
    finally:
        await asyncio.shield(cluster.leave())
