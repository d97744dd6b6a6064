"""The servers of one kubelet instance beside Registration: plugin watcher, PodResources, /healthz and /metrics.

Source: kubelet/kubelet.go, ``initializeRuntimeDependentModules``, ``ListenAndServePodResources`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from pathlib import Path

from ..apis.pluginregistration import DEVICE_PLUGIN_TYPE
from ..container_manager.container_manager import ContainerManager
from ..model.config import KubeletConfig
from ..monitoring.exposition import PluginSockets, content_type, exposition
from ..monitoring.health import checks_of
from ..monitoring.kubelet_http import KubeletHttp
from ..monitoring.pod_resources import PodResourcesServer
from ..monitoring.pod_resources_books import KubeletBooks
from ..node.context import NodeContext
from ..node.node_paths import PLUGINS_REGISTRY, POD_RESOURCES
from ..pods.pod_manager import Pods
from ..registration.device_plugin_handler import DevicePluginHandler
from ..registration.plugin_manager import PluginManager
from ..runtime.container_records import ContainerRecords

__all__ = ["PLUGINS_REGISTRY", "POD_RESOURCES", "NodeServices"]


class NodeServices:
    """Started after the device manager, stopped before it.

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
    ) -> None:
        self._version = config.version
        self._metrics = containers.metrics
        self._records = records
        self.plugin_manager = PluginManager(
            directory / PLUGINS_REGISTRY,
            {DEVICE_PLUGIN_TYPE: DevicePluginHandler(containers.registration)},
            version=config.version,
            clock=context.clock,
            tasks=context.tasks,
        )
        books = KubeletBooks(pods, containers)
        self.pod_resources = PodResourcesServer(directory / POD_RESOURCES, books, config, containers.metrics)
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
