"""Gives devices to containers: the decisions of `allocation`, carried out with the plugins over gRPC.

One `Allocator` belongs to one kubelet instance. Pods are admitted one after the other; between a decision and the
plugin's answer the device manager's state may change, so what is read after a call is read again.

Source: devicemanager/manager.go, ``Allocate``, ``allocateContainerResources`` and ``GetDeviceRunContainerOptions``
(kubernetes v1.34.4).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from typing import Final

from ..apis.deviceplugin import AllocateResponse
from ..golang.message import READS_WITH_GOGO
from ..model.errors import AllocationError, KubeletPanicError
from ..model.pod import Container, ContainerKind, Pod, PodUID
from ..model.resources import ResourceName
from ..model.version import Difference, Version
from ..topology.hint import NO_HINT, TopologyHint
from .allocation import DeviceRequest, PreferenceQuery, devices_to_allocate
from .device_manager import DeviceManager
from .plugin_folder import CheckpointNotWrittenError
from .pod_devices import Allocation, AllocationEntry, DeviceID, DeviceRunOptions, by_numa_node, cdi_annotation, merge
from .topology_hints import CRASHES_ON_VANISHED_DEVICES

__all__ = ["Allocator"]

_SIDECARS_KEEP_DEVICES: Final = Difference(
    "a restartable init container keeps its devices; before, they go to the pod's next container as those of any "
    "init container",
    {"1.26": False, "1.29": True},
    "devicemanager/manager.go, ``Allocate`` (kubernetes v1.28.15, v1.29.6)",
)
_ANNOTATES_CDI_DEVICES: Final = Difference(
    "CDI devices are also given to the container runtime in an annotation",
    {"1.26": False, "1.28": True, "1.32": False},
    "devicemanager/pod_devices.go, ``deviceRunContainerOptions`` (kubernetes v1.28.15, v1.31.14, v1.32.13)",
)
_TRUSTS_RUNNING_CONTAINERS: Final = Difference(
    "after a restart of the kubelet, running containers keep their devices without a check",
    {"1.26": False, "1.26.9": True, "1.27": False, "1.27.6": True},
    "devicemanager/manager.go, ``isContainerAlreadyRunning``, ``devicesToAllocate`` (kubernetes/kubernetes#118635, "
    "v1.26.9, v1.27.6, v1.28.0)",
)
_CHECKS_DEVICES_OF_KNOWN_PODS: Final = Difference(
    "a pod that already has devices is admitted only while their plugin is registered and they are healthy; "
    "before, the checkpoint is enough",
    {"1.26": False, "1.26.5": True, "1.27": False, "1.27.2": True},
    "devicemanager/manager.go, ``devicesToAllocate`` (kubernetes/kubernetes#116376, v1.26.5, v1.27.2, v1.28.0)",
)
_COUNTS_POD_IN_ADMISSION: Final = Difference(
    "the pod that requested devices last counts as active when devices of ended pods are freed",
    {"1.26": True, "1.32": False},
    "devicemanager/manager.go, ``pendingAdmissionPod`` (kubernetes v1.31.14, v1.32.13)",
)
_CRASHES_WHEN_FREED_WHILE_ASKING: Final = Difference(
    "a kubelet that frees devices of ended pods while it asks a plugin for its preference crashes",
    {"1.26": True, "1.30": False},
    "devicemanager/manager.go, ``devicesToAllocate`` (kubernetes v1.29.6, v1.30.14)",
)


class Allocator:
    """Allocates devices for the pods of one kubelet instance.

    Args:
        manager: the state; this is the only one that takes devices in it.
        version: the Kubernetes minor to behave as.
        save: writes the checkpoint; raises CheckpointNotWrittenError.
        active_pods: pods of this node that have not ended, the one in admission included.
        is_container_running: whether this kubelet takes a container for one that has been running since before it
            started.
        on_answered: called after every answer to Allocate, an error too, with the seconds that it took.
        on_allocated: called after every Allocate that gave devices.
        affinity: what the topology manager chose for a container.
        takes_cdi_devices: whether plugins can name CDI devices.
        leaves_extended: whether resources that a container gets through a claim are left to that: the gate
            DRAExtendedResource. Its options are asked of the device plugin all the same.
    """

    def __init__(
        self,
        manager: DeviceManager,
        version: Version,
        *,
        save: Callable[[], None],
        active_pods: Callable[[], Collection[PodUID]],
        is_container_running: Callable[[PodUID, str], bool],
        on_answered: Callable[[ResourceName, float], None],
        on_allocated: Callable[[Pod, Container, ResourceName, Allocation], None],
        affinity: Callable[[PodUID, str], TopologyHint] = lambda pod, container: NO_HINT,
        takes_cdi_devices: bool = True,
        leaves_extended: bool = False,
    ) -> None:
        self._manager = manager
        self._version = version
        self._save = save
        self._active_pods = active_pods
        self._is_container_running = is_container_running
        self._on_answered = on_answered
        self._on_allocated = on_allocated
        self._affinity = affinity
        self._takes_cdi_devices = takes_cdi_devices
        self._leaves_extended = leaves_extended
        # Of the pod that asked last; another pod's is gone.
        self._reusable: dict[PodUID, dict[ResourceName, set[DeviceID]]] = {}
        self._in_admission: PodUID | None = None
        self.are_sources_ready = False

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Give one container the devices it asks for; init containers come before the others.

        What an init container held may be used again by the next container of its pod; a sidecar keeps its devices.

        Raises:
            AllocationError: the devices cannot be given, or the plugin failed; its text goes into the pod's status.
            KubeletPanicError: the plugin did what makes a kubelet of this version crash.
        """
        self._in_admission = pod.uid
        self._reusable = {pod.uid: self._reusable.get(pod.uid, {})}
        await self._allocate_resources(pod, container, self._reusable[pod.uid])
        for resource, allocation in self._manager.pod_devices.container(pod.uid, container.name).items():
            if (reusable := self._reusable.get(pod.uid)) is None:
                # Another pod asked meanwhile, and with that this one's devices to reuse are gone.
                raise KubeletPanicError("assignment to entry in nil map")
            kept, devices = reusable.get(resource, set()), allocation.devices()
            reusable[resource] = kept | devices if self._leaves_devices(container) else kept - devices

    def _leaves_devices(self, container: Container) -> bool:
        if container.kind is ContainerKind.SIDECAR:
            return not _SIDECARS_KEEP_DEVICES.at(self._version)
        return container.kind is ContainerKind.INIT

    def reusable(self, pod_uid: PodUID) -> Mapping[ResourceName, Set[DeviceID]]:
        """Resource -> devices that init containers of a pod have left to its next container."""
        return self._reusable.get(pod_uid, {})

    def pods_with_reusable(self) -> Collection[PodUID]:
        """The pods that `reusable` knows of, gone or not: the one that asked last."""
        return self._reusable.keys()

    async def run_options(self, pod: Pod, container: Container) -> DeviceRunOptions:
        """What to add to a container that is about to start; calls PreStartContainer where the plugin wants it.

        Raises:
            AllocationError: PreStartContainer or a late Allocate failed.
            KubeletPanicError: see `allocate` and `cdi_annotation`.
        """
        needs_allocation = False
        for resource in self._device_limits(container):
            await self._pre_start(pod, container, resource)
            held = self._manager.pod_devices.container_devices(pod.uid, container.name, resource)
            needs_allocation |= held is None and pod.uid in self._active_pods()
        if needs_allocation:
            await self.allocate(pod, container)
        allocations = self._manager.pod_devices.container(pod.uid, container.name)
        responses = (allocation.response for allocation in allocations.values())
        options = merge(responses, takes_cdi_devices=self._takes_cdi_devices)
        if not _ANNOTATES_CDI_DEVICES.at(self._version):
            return options
        # A plugin's own annotation of that key stays.
        annotation = cdi_annotation(options.cdi_devices, pod.uid, container.name)
        return replace(options, annotations={**annotation, **options.annotations})

    def _device_limits(self, container: Container) -> dict[ResourceName, int]:
        return {name: size for name, size in container.limits.items() if size and self._manager.knows(name)}

    async def _allocate_resources(
        self, pod: Pod, container: Container, reusable: dict[ResourceName, set[DeviceID]]
    ) -> None:
        is_running = (
            _TRUSTS_RUNNING_CONTAINERS.at(self._version)
            and not self.are_sources_ready
            and self._is_container_running(pod.uid, container.name)
        )
        has_released = has_changed = False
        claim = pod.extended_claim if self._leaves_extended else None
        for resource, size in container.limits.items():
            if claim is not None and claim.serves(container.name, resource):
                continue
            if not self._manager.knows(resource):
                continue
            if not has_released:
                self.release_inactive()
                has_released = True
            request = DeviceRequest(
                pod.uid,
                container.name,
                resource,
                size,
                reusable=frozenset(reusable.get(resource, ())),
                is_container_running=is_running,
                checks_held=_CHECKS_DEVICES_OF_KNOWN_PODS.at(self._version),
                affinity=self._affinity(pod.uid, container.name),
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

    def enter_admission(self, pod_uid: PodUID) -> None:
        """A pod is looked at for its admission: free the devices of ended pods, now also of the one before."""
        self._in_admission = pod_uid
        self.release_inactive()

    def release_inactive(self) -> None:
        """Free the devices of ended pods, unless the kubelet does not know yet which pods there are."""
        if self.are_sources_ready:
            active = frozenset(self._active_pods())
            if _COUNTS_POD_IN_ADMISSION.at(self._version) and self._in_admission is not None:
                active |= {self._in_admission}
            self._manager.release_inactive(active)

    async def _decide(self, request: DeviceRequest) -> frozenset[DeviceID]:
        decision = devices_to_allocate(self._manager, request)
        try:
            query = next(decision)
            while True:
                query = decision.send(await self._ask_preference(query))
        except StopIteration as done:
            devices: frozenset[DeviceID] = done.value
            return devices

    async def _ask_preference(self, query: PreferenceQuery) -> frozenset[DeviceID]:
        endpoint = self._manager.endpoints[query.resource].endpoint
        try:
            response = await endpoint.get_preferred_allocation(query.available, query.must_include, query.size)
        except Exception as error:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            raise AllocationError(text) from error
        if _CRASHES_WHEN_FREED_WHILE_ASKING.at(self._version) and query.resource not in self._manager.allocated:
            raise KubeletPanicError("assignment to entry in nil map")
        if not response.container_responses:
            return frozenset()
        return frozenset(DeviceID(device) for device in response.container_responses[0].deviceIDs)

    async def _call_allocate(
        self, pod: Pod, container: Container, resource: ResourceName, devices: frozenset[DeviceID]
    ) -> None:
        response = await self._answer_to_allocate(resource, devices)
        if not response.container_responses:
            # The devices stay reserved until the pod is purged, as in the kubelet.
            raise AllocationError(f"no containers return in allocation response {_printed_empty(self._version)}")
        listed = self._manager.listed(resource)
        if CRASHES_ON_VANISHED_DEVICES.at(self._version) and (vanished := sorted(devices - listed.keys())):
            raise KubeletPanicError(
                "runtime error: invalid memory address or nil pointer dereference "
                f"[{resource}: {', '.join(vanished)} left the list while Allocate was under way]"
            )
        allocation = Allocation(by_numa_node(devices, listed.numa_nodes), response.container_responses[0])
        self._manager.pod_devices.insert(AllocationEntry(pod.uid, container.name, resource, allocation))
        self._on_allocated(pod, container, resource, allocation)

    async def _answer_to_allocate(self, resource: ResourceName, devices: frozenset[DeviceID]) -> AllocateResponse:
        registered = self._manager.endpoints.get(resource)
        if registered is None:
            self._manager.forget_reservations()
            raise AllocationError(f"unknown Device Plugin {resource}")
        began = time.perf_counter()
        try:
            return await registered.endpoint.allocate(devices)
        except Exception as error:
            self._manager.forget_reservations()
            raise AllocationError(str(error)) from error
        finally:
            self._on_answered(resource, time.perf_counter() - began)

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
            text = f"device plugin PreStartContainer rpc failed with err: {error}"
            raise AllocationError(text) from error


def _printed_empty(version: Version) -> str:
    """An answer to Allocate without container responses, as Go prints it."""
    return (
        "&AllocateResponse{ContainerResponses:[]*ContainerAllocateResponse{},}" if READS_WITH_GOGO.at(version) else ""
    )
