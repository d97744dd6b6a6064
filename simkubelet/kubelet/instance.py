"""One process of a kubelet, from its start to its stop, with all that it serves.

It serves plugins before it publishes its node and takes pods. Then two loops run side by side: pods of this node are
admitted, started and ended one after the other as their sources report them (`Pods`), and the node's status is
published every ten seconds.

The device manager also starts if the runtime does not list its containers: then no container counts as running.

Source: kubelet/kubelet.go, ``Run``, ``syncLoop``, ``initializeRuntimeDependentModules``,
``ListenAndServePodResources``; kubelet_node_status.go; cm/helpers.go, ``buildContainerMapAndRunningSetFromRuntime``
(kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..apis.dra import DRA_PLUGIN_TYPE
from ..apis.pluginregistration import DEVICE_PLUGIN_TYPE
from ..container_manager import ContainerManager
from ..devices.checkpoint import Checkpoint
from ..devices.plugin_folder import PluginFolder
from ..devices.pod_devices import DeviceID
from ..dra.claim_info import ClaimInfo
from ..dra.container_claims import DynamicDevice
from ..dra.manager import DraManager
from ..dra.plugins import Connection
from ..dra.slice_wipes import SliceWipes
from ..model.config import KubeletConfig
from ..model.errors import HostError, KubeletPanicError
from ..model.events import DriverConnected, DriverDisconnected, DriverReconnected, PluginSocketFound, driver_endpoint
from ..model.pod import Pod, PodUID
from ..model.resources import ResourceName
from ..model.version import DYNAMIC_RESOURCES, EXTENDED_CLAIMS
from ..monitoring.exposition import PluginSockets, content_type, exposition
from ..monitoring.kubelet_http import KubeletHttp, checks_of
from ..monitoring.pod_resources import PodResourcesServer
from ..node import NodeContext, NodeLease, NodePublisher
from ..node_tree import PLUGINS, PLUGINS_REGISTRY, POD_RESOURCES, name_on_node, socket_path
from ..pods.pod_admission import ActivePods
from ..pods.pod_manager import Pods
from ..pods.volumes import Volumes
from ..registration.plugin_manager import PluginManager
from ..registration.plugin_registration import DevicePluginHandler, PluginTypeHandler
from ..runtime.container_records import ContainerRecords
from ..runtime.cri import RuntimeState

__all__ = ["CONTAINER_LOGS", "KubeletInstance"]

CONTAINER_LOGS: Final = "logs/pods"
"""Below the node's folder, where runtimes that run processes write what these say; see `ContainerFiles`."""
_COLLECTION_S: Final = 60.0
_DRIVER_EVENTS: Final[Mapping[Connection, type[DriverConnected | DriverReconnected | DriverDisconnected]]] = {
    Connection.MADE: DriverConnected,
    Connection.MADE_AGAIN: DriverReconnected,
    Connection.ENDED: DriverDisconnected,
}


class KubeletInstance:
    """What a kubelet process holds in memory, and its loops; see `Kubelet` for the arguments.

    Raises:
        BadCheckpointError: the kubelet does not start on the DRA manager's checkpoint.
    """

    def __init__(
        self,
        directory: Path,
        folder: PluginFolder,
        checkpoint: Checkpoint | None,
        records: ContainerRecords,
        config: KubeletConfig,
        context: NodeContext,
        publisher: NodePublisher,
        state: RuntimeState,
        on_panic: Callable[[KubeletPanicError], None],
        unix_time: Callable[[], float],
    ) -> None:
        self._logs = directory.resolve() / CONTAINER_LOGS
        self._records = records
        self._on_panic = on_panic
        self._folder = folder
        self._node = config.node
        self._context = context
        active = ActivePods()
        self.containers = ContainerManager(
            folder,
            checkpoint,
            config,
            clock=context.clock,
            tasks=context.tasks,
            active_pods=lambda: active,
            # Without an answer of the runtime a kubelet continues as if nothing ran.
            running_at_start=frozenset() if records.cri.of_lists else records.running(),
            exited_at_start=frozenset() if records.cri.of_lists else records.exited(),
            observe=context.observe,
            dra=self._dra_manager(directory, config, active, unix_time) if config.is_on(DYNAMIC_RESOURCES) else None,
        )
        volumes = Volumes(directory, context.cluster)
        parts = directory, config, self.containers, records, context
        self.pods = Pods(*parts, active, volumes, self._allocatable, state, on_panic)
        self._publisher = publisher
        publisher.capacity = self.containers.capacity
        self._services = _NodeServices(directory, config, context, self.containers, self.pods, records, on_panic)
        self._tasks: list[asyncio.Task[None]] = []
        self._ending: list[asyncio.Task[None]] = []

    def _dra_manager(
        self, directory: Path, config: KubeletConfig, active: ActivePods, unix_time: Callable[[], float]
    ) -> DraManager:
        context = self._context
        return DraManager(
            directory,
            context.cluster,
            config.version,
            clock=context.clock,
            tasks=context.tasks,
            active_pods=lambda: active if self.containers.allocator.are_sources_ready else None,
            unix_time=unix_time,
            follows_health=config.is_on("ResourceHealthStatus"),
            serves_extended=config.is_on(EXTENDED_CLAIMS),
            wipes=SliceWipes(config.node, context.cluster, config.version, clock=context.clock, tasks=context.tasks),
            within=directory.resolve(),
            locate=partial(socket_path, directory),
            on_connection=self._note_driver,
        )

    def _note_driver(self, driver: str, endpoint: str, connection: Connection) -> None:
        self._context.observe(_DRIVER_EVENTS[connection](self._node, driver, driver_endpoint(endpoint)))

    async def serve(self) -> None:
        """Serve plugins and monitoring agents.

        Raises:
            HostError: a socket cannot be made.
        """
        self.containers.start()
        await self._services.start()

    def begin(self, pods: Sequence[str] = ()) -> None:
        """Publish the node, then take pods: those named here first, see `Pods.run`."""
        self._publisher.register()
        group = self._context.tasks
        self._tasks = [
            group.create_task(self._until_panic(partial(self.pods.run, pods)), name=f"pods of {self._node}"),
            group.create_task(self._publisher.run(), name=f"status of {self._node}"),
            group.create_task(self._collect_logs(), name=f"logs of {self._node}"),
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
        self.containers.cut()

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

    async def _collect_logs(self) -> None:
        """Remove the logs of pods that are gone, in real time: those of a story stay, where the node's time leaps.

        Source: kubelet/kubelet.go, ``StartGarbageCollection``, ``ContainerGCPeriod``; pod_workers.go,
        ``ShouldPodContentBeRemoved`` (kubernetes v1.34.4).
        """
        while True:
            await asyncio.sleep(_COLLECTION_S)
            if self.containers.allocator.are_sources_ready and self._logs.is_dir():
                from ..runtime.process_container import remove_logs

                kept = {pod.uid for pod in (*self.pods.known(), *self._records.pods())}
                await asyncio.to_thread(remove_logs, self._logs, kept)

    async def _until_panic(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await loop()
        except KubeletPanicError as panic:
            self._on_panic(panic)

    def _allocatable(self) -> Mapping[ResourceName, int]:
        return self._publisher.status.allocatable


class _NodeServices:
    """The servers of an instance beside Registration; started after the device manager, stopped before it.

    Attributes:
        plugin_manager: registers plugins whose sockets appear below ``plugins_registry``.
        pod_resources: serves ``pod-resources/kubelet.sock``.
        http: serves /healthz and /metrics where the settings ask for it, otherwise None.

    Args:
        directory: the kubelet's root directory.
    """

    def __init__(
        self,
        directory: Path,
        config: KubeletConfig,
        context: NodeContext,
        containers: ContainerManager,
        pods: Pods,
        records: ContainerRecords,
        on_panic: Callable[[KubeletPanicError], None],
    ) -> None:
        self._version = config.version
        self._metrics = containers.metrics
        self._records = records
        self._plugins_folder = directory / PLUGINS
        device_plugins = DevicePluginHandler(containers.registration, partial(socket_path, directory))
        handlers: dict[str, PluginTypeHandler] = {DEVICE_PLUGIN_TYPE: device_plugins}
        if containers.dra is not None:
            handlers[DRA_PLUGIN_TYPE] = containers.dra.plugins
        self.plugin_manager = PluginManager(
            directory / PLUGINS_REGISTRY,
            handlers,
            version=config.version,
            clock=context.clock,
            tasks=context.tasks,
            on_found=lambda socket: context.observe(PluginSocketFound(config.node, str(socket))),
            name_on_node=partial(name_on_node, directory),
        )
        provider = _PodResourcesSource(pods, containers, on_panic)
        self.pod_resources = PodResourcesServer(directory / POD_RESOURCES, provider, config, containers.metrics)
        checks = checks_of(
            config.version, sync_loop=lambda: None, device_plugin=lambda: containers.registration.failure
        )
        metrics_type = content_type(config.version)
        self.http = KubeletHttp(checks, self._exposition, metrics_type) if config.serves_http else None

    async def start(self) -> None:
        """Serve.

        Raises:
            HostError: a socket cannot be made.
        """
        try:
            # Drivers have their sockets there.
            self._plugins_folder.mkdir(mode=0o750, exist_ok=True)
        except OSError as error:
            raise HostError(f"{self._plugins_folder}: cannot be made: {error.strerror}") from None
        self.plugin_manager.start()
        self.pod_resources.start()
        if self.http is not None:
            await self.http.start()

    async def stop(self) -> None:
        """Serve no more; may be called twice and from any state."""
        if self.http is not None:
            await self.http.stop()
        await self.pod_resources.stop()
        await self.plugin_manager.stop()

    def _exposition(self) -> str:
        self._metrics.set_running(*self._records.count())
        sockets = PluginSockets(self.plugin_manager.desired_sockets, self.plugin_manager.registered_sockets)
        return exposition(self._metrics, sockets, self._version, is_get_on=self.pod_resources.is_get_on)


class _PodResourcesSource:
    """The pods and devices of one kubelet instance, as PodResources asks for them."""

    def __init__(self, pods: Pods, containers: ContainerManager, on_panic: Callable[[KubeletPanicError], None]) -> None:
        self._pods = pods
        self._containers = containers
        self._on_panic = on_panic

    def pods(self) -> Iterable[Pod]:
        return self._pods.known()

    def active_pods(self) -> Iterable[Pod]:
        return self._pods.active()

    def update_allocated_devices(self) -> None:
        self._containers.allocator.release_inactive()

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        return self._containers.devices_of(pod, container)

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        return self._containers.allocatable_devices()

    def dynamic_resources(self, pod: Pod, container: str) -> Iterable[tuple[ClaimInfo, Sequence[DynamicDevice]]]:
        try:
            return self._containers.dynamic_resources(pod, container)
        except KubeletPanicError as panic:
            self._on_panic(panic)
            # The caller gets no answer: its connection ends.
            raise asyncio.CancelledError from panic
