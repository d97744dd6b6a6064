"""Serves the PodResources API, v1 and v1alpha1, on ``pod-resources/kubelet.sock``.

There are no exclusive CPUs and no pinned memory: the kubelet's default policies give neither.

Source: kubelet/server/server.go, ``ListenAndServePodResources``; apis/podresources/server_v1.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final, NoReturn

import grpc

from ..apis import podresources as v1
from ..apis import podresources_v1alpha1 as v1alpha1
from ..config import KubeletConfig
from ..errors import HostError
from ..go.server import Context, go_server, listen, method_handler
from .metrics import Metrics, PodResourcesMethod
from .pod_resources_messages import PodResourcesBooks, allocatable_devices, pod_resources, pod_resources_v1alpha1
from .rate_limit import RateLimit

__all__ = ["SOCKET_NAME", "PodResourcesServer"]

SOCKET_NAME: Final = "kubelet.sock"

_CALLS_PER_SECOND: Final = 100
_BURST: Final = 10
_V1: Final = "v1"
_V1ALPHA1: Final = "v1alpha1"
_GET_GATE: Final = "KubeletPodResourcesGet"
_LIST_ACTIVE_GATE: Final = "KubeletPodResourcesListUseActivePods"


class PodResourcesServer:
    """The API on one socket, from `start` to `stop`.

    Args:
        directory: ``pod-resources/``, made when it is missing.
        books: what is told.
        config: the version and the gates.
        metrics: counts the calls.
    """

    def __init__(self, directory: Path, books: PodResourcesBooks, config: KubeletConfig, metrics: Metrics) -> None:
        self._directory = directory
        self._books = books
        self._version = version = config.version
        self._metrics = metrics
        is_get_on = version.pod_resources_get_gate
        self.is_get_on = is_get_on is None or config.is_on(_GET_GATE, is_get_on)
        """Whether Get answers; its metrics are there with it only."""
        self._lists_active = config.is_on(_LIST_ACTIVE_GATE, version.list_active_pods_gate)
        self._limit = RateLimit(_CALLS_PER_SECOND, _BURST) if version.limits_pod_resources_rate else None
        self._server: grpc.aio.Server | None = None

    @property
    def socket(self) -> Path:
        return self._directory / SOCKET_NAME

    async def start(self) -> None:
        """Listen, in the place of the last kubelet.

        Raises:
            HostError: the socket cannot be made.
        """
        version = self._version
        server = go_server(
            {
                "v1.PodResourcesLister": {
                    "List": method_handler(v1.ListPodResourcesRequest, self.List, version),
                    "Get": method_handler(v1.GetPodResourcesRequest, self.Get, version),
                    "GetAllocatableResources": method_handler(
                        v1.AllocatableResourcesRequest, self.GetAllocatableResources, version
                    ),
                },
                "v1alpha1.PodResourcesLister": {
                    "List": method_handler(v1alpha1.ListPodResourcesRequest, self.list_v1alpha1, version)
                },
            }
        )
        # As the kubelet does: no caller finds a path without a server, and the socket outlives the kubelet.
        temporary = self._directory / secrets.token_hex(4)
        try:
            self._directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            self.socket.unlink(missing_ok=True)
            listen(server, f"unix:{temporary}")
            temporary.rename(self.socket)
        except (OSError, RuntimeError) as error:
            raise HostError(f"{self.socket}: cannot listen: {error}") from None
        self._server = server
        await server.start()

    async def stop(self) -> None:
        """Stop listening; the socket stays. May be called twice and from any state."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    async def List(self, request: v1.ListPodResourcesRequest, context: Context) -> v1.ListPodResourcesResponse:
        await self._admit(context)
        self._metrics.pod_resources_called(_V1, PodResourcesMethod.LIST)
        pods = self._books.active_pods() if self._lists_active else self._books.pods()
        self._books.update_allocated_devices()
        sidecars = self._version.lists_sidecars
        messages = [pod_resources(pod, self._books, lists_sidecars=sidecars) for pod in pods]
        return v1.ListPodResourcesResponse(pod_resources=messages)

    async def Get(self, request: v1.GetPodResourcesRequest, context: Context) -> v1.GetPodResourcesResponse:
        if not self._version.has_pod_resources_get:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method Get for service v1.PodResourcesLister")
        await self._admit(context)
        self._metrics.pod_resources_called(_V1, PodResourcesMethod.GET)
        if not self.is_get_on:
            await self._fail_get(context, "PodResources API Get method disabled")
        wanted = (request.pod_namespace, request.pod_name)
        pod = next((pod for pod in self._books.pods() if (pod.namespace, pod.name) == wanted), None)
        if pod is None:
            await self._fail_get(context, f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        message = pod_resources(pod, self._books, lists_sidecars=self._version.lists_sidecars)
        return v1.GetPodResourcesResponse(pod_resources=message)

    async def GetAllocatableResources(
        self, request: v1.AllocatableResourcesRequest, context: Context
    ) -> v1.AllocatableResourcesResponse:
        await self._admit(context)
        self._metrics.pod_resources_called(
            _V1, PodResourcesMethod.GET_ALLOCATABLE, requests=2 if self._version.counts_get_allocatable_twice else 1
        )
        return v1.AllocatableResourcesResponse(devices=allocatable_devices(self._books.allocatable_devices()))

    async def list_v1alpha1(
        self, request: v1alpha1.ListPodResourcesRequest, context: Context
    ) -> v1alpha1.ListPodResourcesResponse:
        """List as of v1alpha1: all pods whatever the version, no sidecars, no topology."""
        await self._admit(context)
        self._metrics.pod_resources_called(_V1ALPHA1, None)
        pods = self._books.pods()
        self._books.update_allocated_devices()
        messages = [pod_resources_v1alpha1(pod, self._books) for pod in pods]
        return v1alpha1.ListPodResourcesResponse(pod_resources=messages)

    async def _admit(self, context: Context) -> None:
        """Refuse a call when there were too many."""
        if self._limit is not None and not self._limit.allows():
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    async def _fail_get(self, context: Context, text: str) -> NoReturn:
        self._metrics.pod_resources_get_failed(_V1)
        await context.abort(grpc.StatusCode.UNKNOWN, text)
