"""One process of a kubelet, from its start to its stop.

It serves plugins before it publishes its node and takes pods. Then two loops run side by side: pods of this node are
admitted, started and ended one after the other as their sources report them (`Pods`), and the node's status is
published every ten seconds.

The device manager also starts if the runtime does not list its containers: then no container counts as running.

Source: kubelet/kubelet.go, ``Run``, ``syncLoop``; kubelet_node_status.go; cm/helpers.go,
``buildContainerMapAndRunningSetFromRuntime`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..container_manager.container_manager import ContainerManager
from ..devices.plugin_folder import PluginFolder
from ..model.config import KubeletConfig
from ..model.errors import KubeletPanicError
from ..model.resources import ResourceName
from ..node import NodeContext, NodeLease, NodePublisher
from ..pods.pod_admission import ActivePods
from ..pods.pod_manager import Pods
from ..pods.volumes import Volumes
from ..registration.plugin_registration import DevicePluginHandler
from ..runtime.container_records import ContainerRecords
from ..runtime.cri import RuntimeState
from .services import NodeServices

__all__ = ["KubeletInstance"]


class KubeletInstance:
    """What a kubelet process holds in memory, and its loops; see `Kubelet` for the arguments."""

    def __init__(
        self,
        directory: Path,
        folder: PluginFolder,
        records: ContainerRecords,
        config: KubeletConfig,
        context: NodeContext,
        publisher: NodePublisher,
        state: RuntimeState,
        on_panic: Callable[[KubeletPanicError], None],
    ) -> None:
        self._on_panic = on_panic
        self._folder = folder
        self._node = config.node
        self._context = context
        active = ActivePods()
        self.containers = ContainerManager(
            folder,
            config,
            clock=context.clock,
            tasks=context.tasks,
            active_pods=lambda: active,
            # Without an answer of the runtime a kubelet continues as if nothing ran.
            running_at_start=frozenset() if records.cri.of_lists else records.running(),
            exited_at_start=frozenset() if records.cri.of_lists else records.exited(),
            observe=context.observe,
        )
        volumes = Volumes(directory, context.cluster)
        self.pods = Pods(config, self.containers, records, context, active, volumes, self._allocatable, state, on_panic)
        self._publisher = publisher
        publisher.capacity = self.containers.capacity
        self._services = NodeServices(directory, config, context, self.containers, self.pods, records)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: list[asyncio.Task[None]] = []

    async def serve(self) -> None:
        """Serve plugins and monitoring agents.

        Raises:
            HostError: a socket cannot be made.
        """
        self.containers.start()
        DevicePluginHandler.mark(self._folder.directory)
        await self._services.start()

    def begin(self, pods: Sequence[str] = ()) -> None:
        """Publish the node, then take pods: those named here first, see `Pods.run`."""
        self._publisher.register()
        group = self._context.tasks
        self._tasks = [
            group.create_task(self._until_panic(partial(self.pods.run, pods)), name=f"pods of {self._node}"),
            group.create_task(self._publisher.run(), name=f"status of {self._node}"),
        ]
        if self._context.renews_leases:
            lease = NodeLease(self._node, self._context)
            self._tasks.append(group.create_task(lease.run(), name=f"lease of {self._node}"))

    def cut(self) -> None:
        """End as a process does: nothing is done or published from here on."""
        self._ending += [*self._tasks, *self.pods.cut()]
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    async def stop(self) -> None:
        """End the loops and disconnect the plugins, as a process that ends; may be called twice and from any state.

        A kubelet ends as it is when it gets SIGTERM: its sockets' files stay.
        """
        self.cut()
        await asyncio.gather(*self._ending, return_exceptions=True)
        try:
            await self._services.stop()
        finally:
            await self.containers.abandon()

    async def _until_panic(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await loop()
        except KubeletPanicError as panic:
            self._on_panic(panic)

    def _allocatable(self) -> Mapping[ResourceName, int]:
        return self._publisher.status.allocatable
