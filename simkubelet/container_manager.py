"""The device side of one kubelet instance: device manager, allocation, Registration, checkpoint, topology, claims.

It knows pods only as those that it is asked to give devices to, so it can be driven without a node around it, as
`simkubelet.stdio` does.

Source: kubelet/cm/container_manager_linux.go, devicemanager/manager.go ``ManagerImpl`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Final

from .apis.deviceplugin import DevicePluginOptions
from .devices.allocator import Allocator
from .devices.checkpoint import Checkpoint, CheckpointText
from .devices.device_list import DeviceList
from .devices.device_manager import DeviceManager
from .devices.endpoint import AlreadyConnectedError, Endpoint
from .devices.health_updates import HEALTH_UPDATE_QUEUE, HealthUpdates, allocated_resources_status, pods_with_changes
from .devices.plugin_folder import CheckpointNotWrittenError, PluginFolder
from .devices.pod_devices import Allocation, DeviceID, DeviceRunOptions, response_data
from .devices.topology_hints import DeviceHintProvider
from .dra.claim_info import ClaimInfo
from .dra.container_claims import DynamicDevice
from .dra.manager import DraManager
from .model.clock import Clock
from .model.config import KubeletConfig
from .model.events import (
    DevicesAllocated,
    DevicesListed,
    Observer,
    PluginDisconnected,
    PluginRegistered,
    RegistrationRefused,
)
from .model.metrics import Metrics
from .model.node import DeviceCapacity
from .model.pod import Container, Pod, PodUID
from .model.pod_status import Rejection, ResourceStatus
from .model.resources import ResourceName
from .model.version import EXTENDED_CLAIMS, Difference
from .registration.plugin_client import PluginClient, RefusedError
from .registration.registration import RegistrationServer
from .topology.manager import AffinityStore, TopologyManager

__all__ = ["ContainerManager"]

_TRUSTS_RESTARTED_CONTAINERS: Final = Difference(
    "after a restart of the kubelet, running containers that had been restarted before keep their devices without "
    "a check",
    {"1.26": False, "1.34.7": True, "1.35": False, "1.35.4": True},
    "devicemanager/manager.go, ``isContainerAlreadyRunning`` (kubernetes/kubernetes#135485, v1.34.7, v1.35.4, v1.36.0)",
)

_log = logging.getLogger(__name__)


class ContainerManager:
    """Devices of one node, from a kubelet's start to its stop.

    Args:
        folder: the device plugin folder.
        checkpoint: what it holds.
        config: the kubelet's settings.
        clock: the node's time.
        tasks: owns the streams and calls.
        active_pods: pods of this node that came to admission and have not ended.
        running_at_start: (pod, container) of all that the runtime reported as running when the kubelet started.
        exited_at_start: (pod, container) of all of which it reported a run that had ended, restarted since or not.
        observe: called with what happens between kubelet and plugins.
        dra: the DRA manager, with whose loops it begins and ends; None for a kubelet without one.
    """

    def __init__(
        self,
        folder: PluginFolder,
        checkpoint: Checkpoint | None,
        config: KubeletConfig,
        *,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        active_pods: Callable[[], Collection[PodUID]],
        running_at_start: Collection[tuple[PodUID, str]],
        exited_at_start: Collection[tuple[PodUID, str]] = (),
        observe: Observer,
        dra: DraManager | None = None,
    ) -> None:
        self.dra = dra
        self._folder = folder
        self._config = config
        self._clock = clock
        self._observe = observe
        self._running_at_start = frozenset(running_at_start)
        self._exited_at_start = frozenset(exited_at_start)
        self._reports_health = config.is_on("ResourceHealthStatus")
        self._text = CheckpointText()
        self._is_save_due = False
        self.devices = DeviceManager(checkpoint, clock.now(), config.version)
        self.health_updates = HealthUpdates(HEALTH_UPDATE_QUEUE.at(config.version) or 0)
        self.metrics = Metrics()
        self.affinities = AffinityStore()
        self.allocator = Allocator(
            self.devices,
            config.version,
            save=self._save,
            active_pods=active_pods,
            is_container_running=self._was_running,
            on_answered=self.metrics.allocate_answered,
            on_allocated=self._report_allocation,
            affinity=self.affinities.get_affinity,
            takes_cdi_devices=config.is_on("DevicePluginCDIDevices"),
            leaves_extended=config.is_on(EXTENDED_CLAIMS),
        )
        self.hints = DeviceHintProvider(
            self.devices,
            config.topology.numa_nodes,
            config.version,
            reusable=self.allocator.reusable,
            enter_admission=self.allocator.enter_admission,
        )
        self.topology = TopologyManager(
            config.topology, config.version, config.feature_gates, [self.hints], self.affinities
        )
        self.metrics.topology = self.topology.counts
        self.registration = RegistrationServer(folder.directory, self, tasks, config.version, config.max_message_bytes)

    def start(self) -> None:
        """Remove what plugins of the last kubelet left, then serve ``kubelet.sock``.

        Raises:
            HostError: the socket cannot be made.
        """
        self._folder.clean(self._config.version)
        self.registration.start()
        if self.dra is not None:
            self.dra.start()

    async def stop(self) -> None:
        """Disconnect every plugin and stop listening; may be called twice and from any state."""
        self._save_if_due()
        await self.registration.stop()
        if self.dra is not None:
            await self.dra.stop()

    def cut(self) -> None:
        """Take and write nothing from here on; `abandon` has to follow."""
        self._is_save_due = False
        self.registration.cut()
        if self.dra is not None:
            self.dra.cut()

    async def abandon(self) -> None:
        """End as in a killed kubelet: connections break, the socket's file stays, nothing is written any more."""
        self._is_save_due = False
        await self.registration.abandon()
        if self.dra is not None:
            await self.dra.stop()

    async def admit(self, pod: Pod) -> Rejection | None:
        """Give the containers of a pod their devices, where the topology policy lets them; None admits the pod.

        Raises:
            KubeletPanicError: the kubelet of this minor would end here.
        """
        began = time.perf_counter()
        try:
            return await self.topology.admit(pod, self.allocator.allocate)
        finally:
            self.metrics.pod_admitted(time.perf_counter() - began)

    async def run_options(self, pod: Pod, container: Container) -> DeviceRunOptions:
        """What to add to a container that is about to start: the CDI devices of its claims, then devices of plugins.

        Raises:
            DynamicResourcesError: a claim is not in the cache.
            AllocationError: PreStartContainer or a late Allocate failed.
            KubeletPanicError: see `Allocator.run_options`.

        Source: kubelet/cm/container_manager_linux.go, ``GetResources``.
        """
        claimed = [] if self.dra is None else self.dra.claims.cdi_devices(pod, container.name)
        options = await self.allocator.run_options(pod, container)
        return replace(options, cdi_devices=(*claimed, *options.cdi_devices)) if claimed else options

    def capacity(self) -> DeviceCapacity:
        """Return the devices for the node status; forgets resources whose plugin has been gone for the grace period.

        Source: devicemanager/manager.go, ``GetCapacity``.
        """
        deleted = self.devices.drop_expired(self._clock.now())
        if deleted:
            self._save_or_log()
        known = self.devices.capacity()
        return DeviceCapacity(known.capacity, known.allocatable, deleted)

    def update_plugin_resources(
        self, pod: PodUID, allocatable: Mapping[ResourceName, int]
    ) -> Mapping[ResourceName, int]:
        """A node's allocatable as it counts at the admission of a pod: never less than the pods hold already.

        Source: devicemanager/manager.go, ``UpdatePluginResources``, ``sanitizeNodeAllocatable``.
        """
        if pod not in self.devices.pod_devices.pods():
            return allocatable
        held = {resource: len(devices) for resource, devices in self.devices.allocated.items()}
        return {**allocatable, **{name: max(count, allocatable.get(name, 0)) for name, count in held.items()}}

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        """Resource -> NUMA node (`NO_NUMA_NODE` without) -> ids that a container holds.

        Source: kubelet/cm/container_manager_linux.go, ``GetDevices``.
        """
        held = self.devices.pod_devices.container(pod, container)
        return {resource: allocation.device_ids for resource, allocation in held.items()}

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        """Resource -> id -> NUMA nodes of each healthy device, None for one without topology.

        Source: kubelet/cm/container_manager_linux.go, ``GetAllocatableDevices``.
        """
        devices = self.devices
        return {
            resource: {device: devices.devices[resource].numa_nodes.get(device) for device in healthy}
            for resource, healthy in devices.healthy.items()
            if resource in devices.devices
        }

    def dynamic_resources(self, pod: Pod, container: str) -> Sequence[tuple[ClaimInfo, Sequence[DynamicDevice]]]:
        """The claims of a container, each with its devices.

        Source: kubelet/cm/container_manager_linux.go, ``GetDynamicResources``.
        """
        return () if self.dra is None else self.dra.claims.dynamic_resources(pod, container)

    def allocated_resources_status(self, pod: Pod) -> Mapping[str, Sequence[ResourceStatus]]:
        """The health of the devices that a pod's app containers hold: container -> resources by name, then claims.

        See `devices.health_updates`; the kubelet asks for it where the gate ResourceHealthStatus is on.
        """
        held = allocated_resources_status(self.devices, pod)
        claimed = {} if self.dra is None else self.dra.claims.health_status(pod)
        return {name: (*held.get(name, ()), *claimed.get(name, ())) for name in (*held, *claimed)}

    def _was_running(self, pod: PodUID, container: str) -> bool:
        """Whether a container is taken for running when it is asked for again after a restart of the kubelet.

        Up to a fix the kubelet looks at any one of a container's records, and its map gives a random one: here it is
        always that of the run that ended.
        """
        has_ended_before = (pod, container) in self._exited_at_start
        return (pod, container) in self._running_at_start and (
            _TRUSTS_RESTARTED_CONTAINERS.at(self._config.version) or not has_ended_before
        )

    # RegistrationHandler

    def register_called(self, resource: ResourceName) -> None:
        self.metrics.register_called(resource)

    def plugin_connected(self, client: PluginClient, options: DevicePluginOptions) -> None:
        try:
            self.devices.connect(Endpoint(client.resource, client), options)
        except AlreadyConnectedError as error:
            raise RefusedError(str(error)) from None
        self._observe(PluginRegistered(self._config.node, client.resource, PurePath(client.socket).name))

    async def plugin_listed(self, resource: ResourceName, devices: DeviceList) -> None:
        before = self.devices.listed(resource)
        self.devices.update(resource, devices)
        # A caller that waits for the capacity sees it before the checkpoint is written, as in the kubelet.
        self._observe(
            DevicesListed(self._config.node, resource, tuple(sorted(devices.healthy)), tuple(sorted(devices.unhealthy)))
        )
        if self._reports_health and (
            pods := pods_with_changes(resource, before, devices, self.devices.pod_devices, self._config.version)
        ):
            await self.health_updates.put(pods)
        self._save_soon()

    def plugin_disconnected(self, resource: ResourceName, socket: str, reason: str) -> None:
        self.devices.disconnect(resource, socket, self._clock.now())
        self._observe(PluginDisconnected(self._config.node, resource, reason))

    def registration_refused(self, resource: ResourceName, endpoint: str, message: str) -> None:
        self._observe(RegistrationRefused(self._config.node, resource, endpoint, message))

    def _report_allocation(
        self, pod: Pod, container: Container, resource: ResourceName, allocation: Allocation
    ) -> None:
        devices = tuple(sorted(allocation.devices()))
        response = response_data(allocation.response)
        self._observe(DevicesAllocated(self._config.node, pod.key, container.name, resource, devices, response))

    # The checkpoint

    def _save_soon(self) -> None:
        """Write the checkpoint after the waiters for the list have run, once for lists that come together."""
        if not self._is_save_due:
            self._is_save_due = True
            asyncio.get_running_loop().call_soon(self._save_if_due)

    def _save_if_due(self) -> None:
        if self._is_save_due:
            self._save_or_log()

    def _save(self) -> None:
        self._is_save_due = False
        self._folder.save(self._text.render(self.devices.checkpoint()))

    def _save_or_log(self) -> None:
        try:
            self._save()
        except CheckpointNotWrittenError as error:
            _log.error("%s", error)
