"""One life of a kubelet, from its start to its stop.

Two loops run side by side: pods of this node are admitted, started and ended one after the other as they appear in the
store, and the node's status is published every ten seconds. Containers start in a task of their own for each pod, as
PreStartContainer may take its time.

Source: kubelet/kubelet.go, ``HandlePodAdditions``, ``syncLoop``; kubelet_node_status.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from .admission import Rejection, device_rejection, resource_rejection
from .allocation import AllocationError
from .allocator import Allocator
from .apis.deviceplugin import HEALTHY, Device, DevicePluginOptions
from .clock import Clock
from .cluster.store import Store
from .device_manager import DeviceCapacity, DeviceManager
from .endpoint import Endpoint
from .events import DevicesAllocated, DevicesListed, Observer, PluginDisconnected, PluginRegistered, RegistrationRefused
from .fit import requested_by
from .node_status import NodeStatus, updated, with_extended_resources_reset
from .plugin_folder import CheckpointNotWrittenError, PluginFolder
from .pod import Container, Pod, PodPhase, PodStatus, PodUID
from .pod_devices import DeviceID
from .pod_starter import PodStarter
from .registration import PluginClient, RegistrationServer
from .resources import ResourceName
from .runtime import ContainerRuntime
from .version import Version

__all__ = ["COMPONENT", "NODE_STATUS_PERIOD_S", "KubeletInstance"]

COMPONENT: Final = "kubelet"
NODE_STATUS_PERIOD_S: Final = 10.0

_log = logging.getLogger(__name__)


class KubeletInstance:
    """What a kubelet process holds in memory, and its loops; see `Kubelet` for the arguments."""

    def __init__(
        self,
        node: str,
        folder: PluginFolder,
        runtime: ContainerRuntime,
        *,
        version: Version,
        clock: Clock,
        store: Store,
        observe: Observer,
        machine: Mapping[ResourceName, int],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._group = tasks
        self._node = node
        self._folder = folder
        self._runtime = runtime
        self._version = version
        self._clock = clock
        self._store = store
        self._observe = observe
        self._machine = machine
        self._is_new_node = folder.is_of_a_new_node()
        self.manager = DeviceManager(folder.load(), clock.now())
        running_at_start = runtime.running()
        self._allocator = Allocator(
            self.manager,
            version,
            save=self._save,
            active_pods=self._active_pods,
            is_container_running=lambda pod, container: (pod, container) in running_at_start,
            on_allocated=self._report_allocation,
        )
        self._starter = PodStarter(self._allocator, runtime, store, clock, version, tasks)
        self._registration = RegistrationServer(folder.directory, self, tasks)
        self._handled: set[PodUID] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Publish the node, then serve plugins, then take pods."""
        self._folder.clean(self._version)
        if self._is_new_node and (status := self._store.nodes.get(self._node)) is not None:
            self._store.publish_node(self._node, with_extended_resources_reset(status))
        # Before plugins can register, so that the capacity of 0 after a restart is seen.
        self._publish_status()
        await self._registration.start()
        self._tasks = [
            self._group.create_task(self._sync_pods(), name=f"pods of {self._node}"),
            self._group.create_task(self._publish_periodically(), name=f"status of {self._node}"),
        ]

    async def stop(self) -> None:
        """End the loops and disconnect the plugins; may be called twice and from any state."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._starter.stop()
        await self._registration.stop()

    # RegistrationHandler

    def plugin_connected(self, client: PluginClient, options: DevicePluginOptions) -> None:
        self.manager.connect(Endpoint(client.resource, client), options)
        self._observe(PluginRegistered(self._node, client.resource, client.socket.name))

    def plugin_listed(self, resource: ResourceName, devices: Sequence[Device]) -> None:
        self.manager.update(resource, devices)
        healthy = tuple(sorted(device.ID for device in devices if device.health == HEALTHY))
        unhealthy = tuple(sorted(device.ID for device in devices if device.health != HEALTHY))
        self._observe(DevicesListed(self._node, resource, healthy, unhealthy))
        self._save_or_log()

    def plugin_disconnected(self, resource: ResourceName) -> None:
        self.manager.disconnect(resource, self._clock.now())
        self._observe(PluginDisconnected(self._node, resource))

    def registration_refused(self, resource: ResourceName, endpoint: str, message: str) -> None:
        self._observe(RegistrationRefused(self._node, resource, endpoint, message))

    # Node status

    async def _publish_periodically(self) -> None:
        while True:
            await self._clock.sleep(NODE_STATUS_PERIOD_S)
            self._publish_status()

    def _publish_status(self) -> None:
        deleted = self.manager.drop_expired(self._clock.now())
        if deleted:
            self._save_or_log()
        known = self.manager.capacity()
        devices = DeviceCapacity(known.capacity, known.allocatable, deleted)
        status = self._store.nodes.get(self._node, NodeStatus())
        self._store.publish_node(self._node, updated(status, self._machine, devices))

    def _save(self) -> None:
        self._folder.save(self.manager.checkpoint())

    def _save_or_log(self) -> None:
        try:
            self._save()
        except CheckpointNotWrittenError as error:
            _log.error("%s", error)

    # Pods

    async def _sync_pods(self) -> None:
        while True:
            seen = self._store.change.count
            for pod in self._store.pods:
                if pod.node_name != self._node:
                    continue
                if pod.is_deleting:
                    await self._end(pod)
                elif pod.uid not in self._handled and not pod.status.phase.is_terminal:
                    self._handled.add(pod.uid)
                    await self._admit(pod)
            # Sources are ready once the first set of pods has been handled.
            self._allocator.are_sources_ready = True
            await self._store.change.wait(seen)

    async def _admit(self, pod: Pod) -> None:
        rejection = await self._rejection(pod)
        if rejection is None:
            self._starter.start(pod)
            return
        self._runtime.remove(pod.uid)
        self._store.record(pod, "Warning", rejection.reason, rejection.message, COMPONENT)
        message = f"Pod was rejected: {rejection.message}"
        self._store.set_pod_status(pod.uid, PodStatus(PodPhase.FAILED, rejection.reason, message))

    async def _rejection(self, pod: Pod) -> Rejection | None:
        try:
            for container in pod.containers:
                await self._allocator.allocate(pod, container)
        except AllocationError as error:
            return device_rejection(error)
        others = [other for other in self._store.pods if other.uid in self._active_pods() and other.uid != pod.uid]
        holds_devices = pod.uid in self.manager.pod_devices.pods()
        held = {name: len(devices) for name, devices in self.manager.allocated.items()} if holds_devices else {}
        allocatable = self._store.nodes[self._node].allocatable
        return resource_rejection(pod, allocatable, requested_by(others), held)

    async def _end(self, pod: Pod) -> None:
        """Stop a pod's containers, then let the object go."""
        await self._starter.cancel(pod.uid)
        for container in self._runtime.containers(pod.uid).values():
            if container.is_running:
                self._store.record(pod, "Normal", "Killing", f"Stopping container {container.name}", COMPONENT)
        self._runtime.remove(pod.uid)
        self._store.remove_pod(pod.uid)

    def _active_pods(self) -> frozenset[PodUID]:
        """Pods that came to admission and have not ended: of pods that come together, the later ones do not count."""
        return frozenset(
            pod.uid for pod in self._store.pods if pod.uid in self._handled and not pod.status.phase.is_terminal
        )

    def _report_allocation(
        self, pod: Pod, container: Container, resource: ResourceName, devices: frozenset[DeviceID]
    ) -> None:
        self._observe(DevicesAllocated(self._node, pod.key, container.name, resource, tuple(sorted(devices))))
