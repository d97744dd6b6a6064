"""A registered plugin as the device manager calls it, and which one it calls for a resource.

Up to 1.36 there is one place a resource, the newest plugin's: when any of the resource's plugins leaves, the devices
are lost. From 1.37 on each socket has its place, and the devices are lost with the last one.

Source: devicemanager/endpoint.go (kubernetes v1.34.4, v1.37.0); manager.go, ``PluginConnected``,
``PluginDisconnected`` (kubernetes v1.36.3, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message

from ..apis.deviceplugin import (
    PRE_START_CONTAINER_TIMEOUT_S,
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from ..model.resources import ResourceName
from ..model.version import Difference, Version
from .pod_devices import DeviceID

__all__ = [
    "KEYS_ENDPOINTS_BY_SOCKET",
    "STOP_GRACE_PERIOD_S",
    "AlreadyConnectedError",
    "Endpoint",
    "EndpointStoppedError",
    "PluginEndpoints",
    "Registered",
    "plugin_endpoints",
]

STOP_GRACE_PERIOD_S: Final = 300.0

M = TypeVar("M", bound=Message)
KEYS_ENDPOINTS_BY_SOCKET: Final = Difference(
    "plugins of one resource on several sockets exist side by side; before, the newest replaces the others",
    {"1.26": False, "1.37": True},
    "devicemanager/manager.go, ``PluginConnected``, ``PluginDisconnected``; plugin/v1beta1/handler.go (kubernetes "
    "v1.36.3, v1.37.0)",
)


class EndpointStoppedError(Exception):
    """The plugin behind an endpoint is gone; the message reaches the pod."""


class _Plugin(Protocol):
    @property
    def socket(self) -> str: ...

    async def call(self, method: str, request: Message, answer: type[M], *, timeout_s: float | None = None) -> M: ...


class Endpoint:
    """Calls to one plugin; refuses them once the plugin is gone.

    `stop_time` is the kubelet's clock at the end of the plugin, None while it lives. An endpoint restored from a
    checkpoint has no plugin behind it and is stopped from the start.

    Each call raises EndpointStoppedError when the plugin is gone, and what `PluginClient.call` raises.
    """

    def __init__(self, resource: ResourceName, plugin: _Plugin | None, *, stop_time: float | None = None) -> None:
        self.resource = resource
        self.stop_time = stop_time
        self._plugin = plugin

    @property
    def socket(self) -> str:
        """The path of the plugin's socket; empty for an endpoint of a checkpoint."""
        return self._plugin.socket if self._plugin is not None else ""

    @property
    def is_stopped(self) -> bool:
        return self.stop_time is not None

    def is_grace_period_over(self, now: float) -> bool:
        """Whether the plugin has been gone for more than five minutes: its resource is to be forgotten."""
        return self.stop_time is not None and now - self.stop_time > STOP_GRACE_PERIOD_S

    async def allocate(self, devices: Iterable[DeviceID]) -> AllocateResponse:
        """Ask the plugin to set up devices for one container. No time limit, as in the kubelet."""
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=sorted(devices))])
        return await self._running().call("Allocate", request, AllocateResponse)

    async def get_preferred_allocation(
        self, available: Iterable[DeviceID], must_include: Iterable[DeviceID], size: int
    ) -> PreferredAllocationResponse:
        """Ask the plugin which of the `available` devices it would take. No time limit, as in the kubelet."""
        container = ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted(available), must_include_deviceIDs=sorted(must_include), allocation_size=size
        )
        request = PreferredAllocationRequest(container_requests=[container])
        return await self._running().call("GetPreferredAllocation", request, PreferredAllocationResponse)

    async def pre_start_container(self, devices: Iterable[DeviceID]) -> None:
        """Tell the plugin that a container with these devices is about to start; 30 s at most."""
        request, limit_s = PreStartContainerRequest(devices_ids=sorted(devices)), PRE_START_CONTAINER_TIMEOUT_S
        await self._running().call("PreStartContainer", request, PreStartContainerResponse, timeout_s=limit_s)

    def _running(self) -> _Plugin:
        if self._plugin is None or self.stop_time is not None:
            raise EndpointStoppedError(f"endpoint &{self._as_go_struct()} has been stopped")
        return self._plugin

    def _as_go_struct(self) -> str:
        """The kubelet prints its struct here: a mutex, the name, a pointer and the words of a time."""
        client = "<nil>" if self._plugin is None else "0xc000010000"
        since_start_ns = int((self.stop_time or 0.0) * 1e9)
        wall = 1 << 63 | since_start_ns // 10**9 << 30 | since_start_ns % 10**9
        return f"{{{{{{}} {{0 0}}}} {self.resource} {client} {{{wall} {since_start_ns + 1} 0x5f5e100}} <nil>}}"


class AlreadyConnectedError(Exception):
    """A plugin registered on a socket whose last plugin has not left yet; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The endpoint that is called for a resource; `options` is None for one restored from a checkpoint."""

    endpoint: Endpoint
    options: DevicePluginOptions | None


class PluginEndpoints(Mapping[ResourceName, Registered]):
    """Resource -> the endpoint that is called: that of the plugin that registered last."""

    def __init__(self) -> None:
        self._called: dict[ResourceName, Registered] = {}

    def __getitem__(self, resource: ResourceName) -> Registered:
        return self._called[resource]

    def __iter__(self) -> Iterator[ResourceName]:
        return iter(self._called)

    def __len__(self) -> int:
        return len(self._called)

    def restore(self, resource: ResourceName, now: float) -> None:
        """A checkpoint names the resource: it counts as left by its plugin now."""
        self._called[resource] = Registered(Endpoint(resource, None, stop_time=now), None)

    def connect(self, registered: Registered) -> None:
        """A plugin registered.

        Raises:
            AlreadyConnectedError: its socket is taken.
        """
        self._called[registered.endpoint.resource] = registered

    def disconnect(self, resource: ResourceName, socket: str, now: float) -> bool:
        """A plugin left; whether the resource's devices are lost by it."""
        registered = self._called.get(resource)
        if registered is None:
            return False
        registered.endpoint.stop_time = now
        return True

    def forget(self, resource: ResourceName) -> None:
        """The resource's grace period is over."""
        self._called.pop(resource, None)


class _EndpointsBySocket(PluginEndpoints):
    """One place for each socket of a resource; a place stays taken until its plugin's end has been reported."""

    def __init__(self) -> None:
        super().__init__()
        self._by_socket: dict[ResourceName, dict[str, Registered]] = {}

    def connect(self, registered: Registered) -> None:
        socket = registered.endpoint.socket
        taken = self._by_socket.setdefault(registered.endpoint.resource, {})
        if socket in taken:
            raise AlreadyConnectedError(f"device plugin already connected: {socket}")
        taken[socket] = registered
        super().connect(registered)

    def disconnect(self, resource: ResourceName, socket: str, now: float) -> bool:
        taken = self._by_socket.get(resource, {})
        left = taken.pop(socket, None)
        if left is None:
            return False
        left.endpoint.stop_time = now
        if not taken:
            del self._by_socket[resource]
            return True
        # The kubelet takes any of the others.
        self._called[resource] = next(reversed(taken.values()))
        return False


def plugin_endpoints(version: Version) -> PluginEndpoints:
    """The endpoints of a new device manager."""
    return _EndpointsBySocket() if KEYS_ENDPOINTS_BY_SOCKET.at(version) else PluginEndpoints()
