"""The PodResources API, v1 and v1alpha1: its messages, and a server on ``pod-resources/kubelet.sock`` with rate limit.

Each device has an entry of its own, and one with several NUMA nodes an entry for each. There are no exclusive CPUs and
no pinned memory: the kubelet's default policies give neither.

Source: kubelet/server/server.go, ``ListenAndServePodResources``; apis/podresources/server_v1.go, server_v1alpha1.go;
kubelet/cm/container_manager.go, ``containerDevicesFromResourceDeviceInstances`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from .._internal.file_tree import FileTree
from ..apis import podresources as v1
from ..apis import podresources_v1alpha1 as v1alpha1
from ..apis.grpcwire.messages import Code
from ..apis.grpcwire.served_call import CallError
from ..apis.grpcwire.server import GrpcServer
from ..devices.pod_devices import NO_NUMA_NODE, DeviceID
from ..dra.claim_info import ClaimInfo
from ..dra.container_claims import DynamicDevice
from ..golang.message import served_method
from ..model.config import KubeletConfig
from ..model.errors import HostError
from ..model.metrics import Metrics, PodResourcesMethod
from ..model.pod import ContainerKind, Pod, PodUID
from ..model.resources import ResourceName
from ..model.version import Difference

__all__ = ["PodResourcesProvider", "PodResourcesServer", "RateLimit", "allocatable_devices", "container_devices"]

_GET_ASKS_ITS_GATE: Final = Difference(
    "Get of PodResources answers only with the gate KubeletPodResourcesGet",
    {"1.26": True, "1.36": False},
    "apis/podresources/server_v1.go, ``Get`` (kubernetes v1.35.4, v1.36.3)",
)
_GET_FINDS_ENDED_PODS: Final = Difference(
    "Get of PodResources finds pods that have ended",
    {"1.26": True, "1.34.7": False, "1.35": True, "1.35.4": False},
    "pkg/kubelet/kubelet.go, ``GetPodByName``; kubelet_pods.go, ``isPodInactive``, ``filterOutInactivePods`` "
    "(kubernetes v1.34.5, v1.34.7, v1.35.3, v1.35.4)",
)
_LIMITS_POD_RESOURCES_RATE: Final = Difference(
    "PodResources answers at most 100 calls a second",
    {"1.26": False, "1.27": True},
    "kubelet/server/server.go, ``ListenAndServePodResources`` (kubernetes v1.26.15, v1.27.16)",
)
_HAS_POD_RESOURCES_GET: Final = Difference(
    "PodResources has the method Get",
    {"1.26": False, "1.27": True},
    "apis/podresources/server_v1.go (kubernetes v1.26.15, v1.27.16)",
)
_LISTS_SIDECARS: Final = Difference(
    "PodResources lists restartable init containers",
    {"1.26": False, "1.30": True},
    "apis/podresources/server_v1.go, ``List`` (kubernetes v1.29.6, v1.30.14)",
)
_COUNTS_GET_ALLOCATABLE_TWICE: Final = Difference(
    "a call of GetAllocatableResources counts as two requests in the metrics",
    {"1.26": True, "1.27": False},
    "apis/podresources/server_v1.go, ``GetAllocatableResources`` (kubernetes v1.26.15, v1.27.16)",
)

_SOCKET_NAME: Final = "kubelet.sock"
_CALLS_PER_SECOND: Final = 100
_BURST: Final = 10
_V1: Final = "v1"
_V1ALPHA1: Final = "v1alpha1"


class RateLimit:
    """A full bucket of `burst` tokens that gets `per_second` tokens a second.

    The seconds are real, as callers are real processes.

    Source: kubelet/apis/grpc/ratelimit.go (kubernetes v1.34.4); golang.org/x/time/rate, ``Limiter.Allow``.
    """

    def __init__(self, per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._last = now()

    def allows(self) -> bool:
        """Take a token; False when there is none."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._last) * self._per_second)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class PodResourcesServer:
    """The API on one socket, from `start` to `stop`.

    Args:
        directory: ``pod-resources/``, made when it is missing.
        provider: has the pods and devices.
        config: the version and the gates.
        metrics: counts the calls.
    """

    def __init__(
        self, directory: Path, provider: PodResourcesProvider, config: KubeletConfig, metrics: Metrics
    ) -> None:
        self._directory = directory
        self._provider = provider
        self._version = version = config.version
        self._metrics = metrics
        self.is_get_on = not _GET_ASKS_ITS_GATE.at(version) or config.is_on("KubeletPodResourcesGet")
        """Whether Get answers; its metrics are there with it only."""
        self._lists_claims = config.is_on("KubeletPodResourcesDynamicResources")
        self._lists_sidecars = _LISTS_SIDECARS.at(version)
        self._lists_active = config.is_on("KubeletPodResourcesListUseActivePods")
        self._limit = RateLimit(_CALLS_PER_SECOND, _BURST) if _LIMITS_POD_RESOURCES_RATE.at(version) else None
        self._server: GrpcServer | None = None

    @property
    def socket(self) -> Path:
        return self._directory / _SOCKET_NAME

    def start(self) -> None:
        """Listen, in the place of the last kubelet.

        Raises:
            HostError: the socket cannot be made.
        """
        version = self._version
        lister, lister_v1alpha1 = "/v1.PodResourcesLister", "/v1alpha1.PodResourcesLister"
        server = GrpcServer(
            {
                f"{lister}/List": served_method(v1.ListPodResourcesRequest, self.List, version),
                f"{lister}/Get": served_method(v1.GetPodResourcesRequest, self.Get, version),
                f"{lister}/GetAllocatableResources": served_method(
                    v1.AllocatableResourcesRequest, self.GetAllocatableResources, version
                ),
                f"{lister_v1alpha1}/List": served_method(v1alpha1.ListPodResourcesRequest, self.list_v1alpha1, version),
            }
        )
        # As the kubelet does: no caller finds a path without a server, and the socket outlives the kubelet.
        temporary, name = secrets.token_hex(4), self.socket.name
        try:
            self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            with FileTree(self._directory.parent).folder(f"/{self._directory.name}") as folder:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                server.listen(Path(f"/proc/self/fd/{folder}", temporary))
                self._server = server
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            raise HostError(f"{self.socket}: cannot listen: {error}") from None

    async def stop(self) -> None:
        """Stop listening; the socket stays. May be called twice and from any state."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def List(self, request: v1.ListPodResourcesRequest) -> v1.ListPodResourcesResponse:
        self._admit()
        self._metrics.pod_resources_called(_V1, PodResourcesMethod.LIST)
        pods = self._provider.active_pods() if self._lists_active else self._provider.pods()
        self._provider.update_allocated_devices()
        messages = [self._pod_resources(pod) for pod in pods]
        return v1.ListPodResourcesResponse(pod_resources=messages)

    async def Get(self, request: v1.GetPodResourcesRequest) -> v1.GetPodResourcesResponse:
        if not _HAS_POD_RESOURCES_GET.at(self._version):
            raise CallError(Code.UNIMPLEMENTED, "unknown method Get for service v1.PodResourcesLister")
        self._admit()
        self._metrics.pod_resources_called(_V1, PodResourcesMethod.GET)
        if not self.is_get_on:
            raise self._failed_get("PodResources API Get method disabled")
        wanted = (request.pod_namespace, request.pod_name)
        finds_ended = _GET_FINDS_ENDED_PODS.at(self._version)
        pods = self._provider.pods() if finds_ended else self._provider.active_pods()
        pod = next((pod for pod in pods if (pod.namespace, pod.name) == wanted), None)
        if pod is None:
            raise self._failed_get(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        return v1.GetPodResourcesResponse(pod_resources=self._pod_resources(pod))

    async def GetAllocatableResources(self, request: v1.AllocatableResourcesRequest) -> v1.AllocatableResourcesResponse:
        self._admit()
        self._metrics.pod_resources_called(
            _V1,
            PodResourcesMethod.GET_ALLOCATABLE,
            requests=2 if _COUNTS_GET_ALLOCATABLE_TWICE.at(self._version) else 1,
        )
        return v1.AllocatableResourcesResponse(devices=allocatable_devices(self._provider.allocatable_devices()))

    async def list_v1alpha1(self, request: v1alpha1.ListPodResourcesRequest) -> v1alpha1.ListPodResourcesResponse:
        """List as of v1alpha1: all pods in every version, no sidecars, no topology."""
        self._admit()
        self._metrics.pod_resources_called(_V1ALPHA1, None)
        pods = self._provider.pods()
        self._provider.update_allocated_devices()
        messages = [_pod_resources_v1alpha1(pod, self._provider) for pod in pods]
        return v1alpha1.ListPodResourcesResponse(pod_resources=messages)

    def _pod_resources(self, pod: Pod) -> v1.PodResources:
        """What a pod holds, by container: sidecars if they are listed, then app containers."""
        kinds = (ContainerKind.SIDECAR, ContainerKind.APP) if self._lists_sidecars else (ContainerKind.APP,)
        containers = [
            v1.ContainerResources(
                name=container.name,
                devices=container_devices(self._provider.devices_of(pod.uid, container.name)),
                dynamic_resources=self._dynamic_resources(pod, container.name),
            )
            for container in pod.containers
            if container.kind in kinds
        ]
        return v1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    def _dynamic_resources(self, pod: Pod, container: str) -> list[v1.DynamicResource]:
        claims = self._provider.dynamic_resources(pod, container) if self._lists_claims else ()
        return [
            v1.DynamicResource(
                claim_name=info.name, claim_namespace=info.namespace, claim_resources=map(_claim_resource, devices)
            )
            for info, devices in claims
        ]

    def _admit(self) -> None:
        """Refuse a call when there were too many."""
        if self._limit is not None and not self._limit.allows():
            raise CallError(Code.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _failed_get(self, text: str) -> CallError:
        self._metrics.pod_resources_get_failed(_V1)
        return CallError(Code.UNKNOWN, text)


class PodResourcesProvider(Protocol):
    """The pods and devices of a kubelet; read at each call, in the event loop."""

    def pods(self) -> Iterable[Pod]:
        """Pods that the kubelet knows, those that have ended too."""

    def active_pods(self) -> Iterable[Pod]:
        """Pods that have not ended."""

    def update_allocated_devices(self) -> None:
        """Take the devices of ended pods back."""

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        """Resource -> NUMA node (`NO_NUMA_NODE` without) -> ids that a container holds."""

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        """Resource -> id -> NUMA nodes of each healthy device, None for one without topology."""

    def dynamic_resources(self, pod: Pod, container: str) -> Iterable[tuple[ClaimInfo, Sequence[DynamicDevice]]]:
        """The claims of a container, each with its devices; none where the kubelet has no DRA manager."""


def container_devices(held: Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]) -> list[v1.ContainerDevices]:
    """The devices of one container.

    Source: devicemanager/pod_devices.go, ``getContainerDevices`` (kubernetes v1.34.4).
    """
    messages: list[v1.ContainerDevices] = []
    for resource, by_node in held.items():
        nodes: dict[DeviceID, list[int]] = {}
        for node, devices in by_node.items():
            for device in devices:
                nodes.setdefault(device, []).extend(() if node == NO_NUMA_NODE else (node,))
        for device, known in nodes.items():
            messages += _device(resource, device, known or None)
    return messages


def allocatable_devices(
    known: Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]],
) -> list[v1.ContainerDevices]:
    """The healthy devices of a node; one whose topology names no NUMA node is left out."""
    return [
        message
        for resource, devices in known.items()
        for device, nodes in devices.items()
        for message in _device(resource, device, nodes)
    ]


def _claim_resource(device: DynamicDevice) -> v1.ClaimResource:
    """A device of a claim.

    Source: kubelet/cm/container_manager_linux.go, ``GetDynamicResources`` (kubernetes v1.34.4).
    """
    return v1.ClaimResource(
        cdi_devices=[v1.CDIDevice(name=name) for name in device.cdi_ids],
        driver_name=device.driver,
        pool_name=device.pool,
        device_name=device.name,
    )


def _pod_resources_v1alpha1(pod: Pod, provider: PodResourcesProvider) -> v1alpha1.PodResources:
    """What the app containers of a pod hold; a device still stands once for each of its NUMA nodes."""
    containers = [
        v1alpha1.ContainerResources(
            name=container.name,
            devices=[
                v1alpha1.ContainerDevices(resource_name=message.resource_name, device_ids=message.device_ids)
                for message in container_devices(provider.devices_of(pod.uid, container.name))
            ],
        )
        for container in pod.containers
        if container.kind is ContainerKind.APP
    ]
    return v1alpha1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)


def _device(resource: ResourceName, device: DeviceID, nodes: Sequence[int] | None) -> list[v1.ContainerDevices]:
    if nodes is None:
        return [v1.ContainerDevices(resource_name=resource, device_ids=[device])]
    return [
        v1.ContainerDevices(
            resource_name=resource,
            device_ids=[device],
            topology=v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)]),
        )
        for node in nodes
    ]
