"""Gives devices to containers: the decisions of `allocation`, carried out with the plugins over gRPC.

One `Allocator` belongs to one kubelet instance. Pods are admitted one after the other; between a decision and the
plugin's answer the device manager's state may change, so what is read after a call is read again.

Source: devicemanager/manager.go, ``Allocate``, ``allocateContainerResources`` and ``GetDeviceRunContainerOptions``
(kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from .allocation import AllocationError, DeviceRequest, PreferenceQuery, devices_to_allocate
from .apis.deviceplugin import AllocateResponse
from .device_manager import DeviceManager
from .errors import PluginError
from .plugin_folder import CheckpointNotWrittenError
from .pod import Container, ContainerKind, Pod, PodUID
from .pod_devices import Allocation, AllocationEntry, DeviceID, by_numa_node
from .resources import ResourceName
from .rpc_error import go_text
from .run_options import DeviceRunOptions, merge
from .version import Version

__all__ = ["Allocator"]


class Allocator:
    """Allocates devices for the pods of one kubelet instance.

    Args:
        manager: the state; this is the only one that takes devices in it.
        version: the Kubernetes minor to behave as.
        save: writes the checkpoint; raises CheckpointNotWrittenError.
        active_pods: pods of this node that have not ended, the one in admission included.
        is_container_running: whether the runtime reported a container as running when this kubelet started.
        on_allocated: told of every answered Allocate.
    """

    def __init__(
        self,
        manager: DeviceManager,
        version: Version,
        *,
        save: Callable[[], None],
        active_pods: Callable[[], Collection[PodUID]],
        is_container_running: Callable[[PodUID, str], bool],
        on_allocated: Callable[[Pod, Container, ResourceName, frozenset[DeviceID]], None],
    ) -> None:
        self._manager = manager
        self._version = version
        self._save = save
        self._active_pods = active_pods
        self._is_container_running = is_container_running
        self._on_allocated = on_allocated
        self._reusable: tuple[PodUID | None, dict[ResourceName, set[DeviceID]]] = (None, {})
        self.are_sources_ready = False

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Give one container the devices it asks for; init containers come before the others.

        What an init container held may be used again by the next container of its pod; a sidecar keeps its devices.

        Raises:
            AllocationError: the devices cannot be given, or the plugin failed; its text goes into the pod's status.
            PluginError: the plugin did what makes a kubelet of this version crash.
        """
        if self._reusable[0] != pod.uid:
            self._reusable = (pod.uid, {})
        reusable = self._reusable[1]
        await self._allocate_resources(pod, container, reusable)
        for resource, allocation in self._manager.pod_devices.container(pod.uid, container.name).items():
            kept = reusable.setdefault(resource, set())
            if container.kind is ContainerKind.INIT:
                kept |= allocation.devices()
            else:
                kept -= allocation.devices()

    async def run_options(self, pod: Pod, container: Container) -> DeviceRunOptions:
        """What to add to a container that is about to start; calls PreStartContainer where the plugin wants it.

        Raises:
            AllocationError: PreStartContainer or a late Allocate failed.
        """
        needs_allocation = False
        for resource in self._device_limits(container):
            await self._pre_start(pod, container, resource)
            held = self._manager.pod_devices.container_devices(pod.uid, container.name, resource)
            needs_allocation |= held is None and pod.uid in self._active_pods()
        if needs_allocation:
            await self.allocate(pod, container)
        allocations = self._manager.pod_devices.container(pod.uid, container.name)
        return merge(allocation.response for allocation in allocations.values())

    def _device_limits(self, container: Container) -> dict[ResourceName, int]:
        return {name: size for name, size in container.limits.items() if size and self._manager.knows(name)}

    async def _allocate_resources(
        self, pod: Pod, container: Container, reusable: dict[ResourceName, set[DeviceID]]
    ) -> None:
        is_running = not self.are_sources_ready and self._is_container_running(pod.uid, container.name)
        has_released = has_changed = False
        for resource, size in container.limits.items():
            if not self._manager.knows(resource):
                continue
            if not has_released:
                self._release_inactive()
                has_released = True
            request = DeviceRequest(
                pod.uid, container.name, resource, size, frozenset(reusable.get(resource, ())), is_running
            )
            devices = await self._decide(request)
            if devices:
                await self._call_allocate(pod, container, resource, devices)
                has_changed = True
        if has_changed:
            try:
                self._save()
            except CheckpointNotWrittenError as error:
                raise AllocationError(str(error)) from error

    def _release_inactive(self) -> None:
        if self.are_sources_ready:
            self._manager.release_inactive(self._active_pods())

    async def _decide(self, request: DeviceRequest) -> frozenset[DeviceID]:
        decision = devices_to_allocate(self._manager, request)
        try:
            query = next(decision)
            while True:
                query = decision.send(await self._ask_preference(query))
        except StopIteration as done:
            devices: frozenset[DeviceID] = done.value
            return devices

    async def _ask_preference(self, query: PreferenceQuery) -> frozenset[DeviceID] | None:
        registered = self._manager.endpoints.get(query.resource)
        if registered is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {query.resource}")
        if registered.options is None or not registered.options.get_preferred_allocation_available:
            return None
        try:
            response = await registered.endpoint.get_preferred_allocation(
                query.available, query.must_include, query.size
            )
        except Exception as error:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {go_text(error)}"
            raise AllocationError(text) from error
        if not response.container_responses:
            return frozenset()
        return frozenset(DeviceID(device) for device in response.container_responses[0].deviceIDs)

    async def _call_allocate(
        self, pod: Pod, container: Container, resource: ResourceName, devices: frozenset[DeviceID]
    ) -> None:
        response = await self._answer_to_allocate(resource, devices)
        if not response.container_responses:
            # The devices stay reserved until the pod is purged, as in the kubelet.
            raise AllocationError("no containers return in allocation response ")
        listed = self._manager.devices.get(resource, {})
        if self._version.crashes_on_vanished_devices and (vanished := sorted(devices - listed.keys())):
            raise PluginError(
                f"the plugin of {resource} took {', '.join(vanished)} off its list while its Allocate was under way; "
                f"a kubelet of {self._version.minor} ends there with a nil pointer"
            )
        allocation = Allocation(by_numa_node(devices, listed), response.container_responses[0])
        self._manager.pod_devices.insert(AllocationEntry(pod.uid, container.name, resource, allocation))
        self._on_allocated(pod, container, resource, devices)

    async def _answer_to_allocate(self, resource: ResourceName, devices: frozenset[DeviceID]) -> AllocateResponse:
        registered = self._manager.endpoints.get(resource)
        if registered is None:
            self._manager.forget_reservations()
            raise AllocationError(f"unknown Device Plugin {resource}")
        try:
            return await registered.endpoint.allocate(devices)
        except Exception as error:
            self._manager.forget_reservations()
            raise AllocationError(go_text(error)) from error

    async def _pre_start(self, pod: Pod, container: Container, resource: ResourceName) -> None:
        registered = self._manager.endpoints.get(resource)
        if registered is None:
            raise AllocationError(f"endpoint not found in cache for a registered resource: {resource}")
        if registered.options is None or not registered.options.pre_start_required:
            return
        devices = self._manager.pod_devices.container_devices(pod.uid, container.name, resource)
        if devices is None:
            raise AllocationError(
                f"no devices found allocated in local cache for pod {pod.uid}, container {container.name}, "
                f"resource {resource}"
            )
        try:
            await registered.endpoint.pre_start_container(devices)
        except Exception as error:
            text = f"device plugin PreStartContainer rpc failed with err: {go_text(error)}"
            raise AllocationError(text) from error
