"""One registered plugin as the device manager calls it.

Source: devicemanager/endpoint.go (kubernetes v1.34.4, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

from google.protobuf.message import Message

from ..apis.deviceplugin import (
    PRE_START_CONTAINER_TIMEOUT_S,
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from ..model.resources import ResourceName
from .pod_devices import DeviceID

__all__ = ["STOP_GRACE_PERIOD_S", "Endpoint", "EndpointStoppedError"]

STOP_GRACE_PERIOD_S: Final = 300.0

M = TypeVar("M", bound=Message)


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
