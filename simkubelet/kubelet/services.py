"""The servers of one kubelet instance beside Registration: plugin watcher, PodResources, /healthz and /metrics.

Source: kubelet/kubelet.go, ``initializeRuntimeDependentModules``, ``ListenAndServePodResources``;
kubelet/cm/container_manager_linux.go, ``GetDevices``, ``GetAllocatableDevices`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..apis.pluginregistration import DEVICE_PLUGIN_TYPE
from ..container_manager.container_manager import ContainerManager
from ..devices.pod_devices import DeviceID
from ..model.config import KubeletConfig
from ..model.pod import Pod, PodUID
from ..model.resources import ResourceName
from ..monitoring.exposition import PluginSockets, content_type, exposition
from ..monitoring.kubelet_http import KubeletHttp, checks_of
from ..monitoring.pod_resources import PodResourcesServer
from ..node import PLUGINS_REGISTRY, POD_RESOURCES, NodeContext
from ..pods.pod_manager import Pods
from ..registration.plugin_manager import PluginManager
from ..registration.plugin_registration import DevicePluginHandler
from ..runtime.container_records import ContainerRecords

__all__ = ["PLUGINS_REGISTRY", "POD_RESOURCES", "InstanceProvider", "NodeServices"]


class InstanceProvider:
    """The pods and devices of one kubelet instance for PodResources."""

    def __init__(self, pods: Pods, containers: ContainerManager) -> None:
        self._pods = pods
        self._containers = containers

    def pods(self) -> Iterable[Pod]:
        return self._pods.known()

    def active_pods(self) -> Iterable[Pod]:
        return self._pods.active()

    def update_allocated_devices(self) -> None:
        self._containers.allocator.release_inactive()

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        held = self._containers.devices.pod_devices.container(pod, container)
        return {resource: allocation.device_ids for resource, allocation in held.items()}

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        devices = self._containers.devices
        return {
            resource: {device: devices.listed(resource).numa_nodes.get(device) for device in healthy}
            for resource, healthy in devices.healthy.items()
            if resource in devices.devices
        }


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
        provider = InstanceProvider(pods, containers)
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
