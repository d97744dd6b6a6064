"""A cluster as ``simkubelet up`` runs it, for a test that is a coroutine: in real time, with an API server."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from simkubelet.host import raise_limit
from simkubelet.model.errors import InputError

from ..backends.world.folders import own_folder
from ..story.specs import PluginSpec
from ..up.cluster import ClusterSpec, LiveCluster
from ..up.options import MOST_NODES
from ..up.plugin_images import BUNDLED_IMAGES
from .checked import checked, checked_node
from .failure import happened_text
from .node import left

if TYPE_CHECKING:
    from fakegpu import Machine


class AsyncCluster:
    """A cluster from `__aenter__` to `__aexit__`: nodes, their plugins, scheduler, controllers, API server.

    Args:
        nodes: How many; they are called ``node-1``, ``node-2`` and so on.
        plugins: The plugins that run on every node, each with the keys of a plugin in a story; by default NVIDIA's
            where the nodes have ``gpus``.
        images: Image -> the argv of the plugin that its containers run, for DaemonSets. Images ``simkubelet/NAME``
            exist for the bundled plugins.
        spec: The keys of a node in a story, for every node.

    Raises:
        InputError: There is no such key, version, GPU profile or program.
    """

    def __init__(
        self,
        nodes: int = 1,
        plugins: Sequence[Mapping[str, Any]] | None = None,
        images: Mapping[str, Sequence[str]] | None = None,
        **spec: Any,
    ) -> None:
        if not isinstance(nodes, int) or not 1 <= nodes <= MOST_NODES:
            raise InputError(f"cluster: nodes: expected a number from 1 to {MOST_NODES}; found {nodes!r}")
        if not isinstance(images or {}, Mapping):
            raise InputError(f"cluster: images: expected the argv of each; found {images!r}")
        if isinstance(plugins, str) or not isinstance(plugins or (), Sequence):
            raise InputError(f"cluster: plugins: expected a list; found {plugins!r}")
        described = tuple(checked_node({**spec, "name": f"node-{number + 1}"}) for number in range(nodes))
        if plugins is None:
            plugins = [{"name": "nvidia", "builtin": "nvidia"}] if described[0].gpus else []
        ours = {image: _plugin({"name": "image", "command": argv}) for image, argv in (images or {}).items()}
        self._spec = ClusterSpec("test", described, tuple(map(_plugin, plugins)), {**BUNDLED_IMAGES, **ours})
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        raise_limit()
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(own_folder(None))
            self._live = await stack.enter_async_context(LiveCluster(self._spec, folder))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        await left(self._stack, error)

    @property
    def kubeconfig(self) -> Path:
        """The file for kubectl and client libraries."""
        return self._live.kubeconfig

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(self._live.nodes)

    @property
    def logs(self) -> Sequence[Path]:
        """The logs of the plugins, kubelets and containers that are not empty."""
        return [log for node in self._live.nodes.values() for log in node.logs]

    @property
    def happened(self) -> str:
        """The ends of the plugins' logs, for the report of a failure."""
        return happened_text((), self.logs)

    def machine(self, node: str) -> Machine | None:
        """Return the fake NVIDIA GPUs of a node; None where it has none.

        Raises:
            InputError: There is no such node.
        """
        if node not in self._live.nodes:
            raise InputError(f"no node '{node}'; the nodes are {', '.join(self.nodes)}")
        return self._live.nodes[node].machine

    async def restart_kubelet(self, node: str) -> None:
        """Restart the kubelet of a node; containers and plugins continue."""
        await self._live.controls.perform({"restartKubelet": {"node": node}})

    async def stop_kubelet(self, node: str) -> None:
        """Stop the kubelet of a node; containers and plugins continue."""
        await self._live.controls.perform({"stopKubelet": {"node": node}})

    async def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node after it was stopped."""
        await self._live.controls.perform({"startKubelet": {"node": node}})

    async def reboot(self, node: str) -> None:
        """Power-cycle a node: containers and plugins end and start again."""
        await self._live.controls.perform({"rebootNode": {"node": node}})


def _plugin(values: Mapping[str, Any]) -> PluginSpec:
    plugin = checked(PluginSpec, "plugin", values)
    if plugin.command and shutil.which(plugin.command[0]) is None:
        program = plugin.command[0]
        raise InputError(f"plugin '{plugin.name}': no program '{program}'; give its path or put its folder on PATH")
    return plugin
