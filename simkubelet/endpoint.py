"""One registered plugin as the device manager calls it.

Source: devicemanager/endpoint.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from .apis.deviceplugin import (
    PRE_START_CONTAINER_TIMEOUT_S,
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
)
from .pod_devices import DeviceID
from .resources import ResourceName
from .rpc_error import answer_to

if TYPE_CHECKING:
    from .apis.deviceplugin import DevicePluginAsyncStub

__all__ = ["STOP_GRACE_PERIOD_S", "Endpoint", "EndpointStoppedError"]

STOP_GRACE_PERIOD_S: Final = 300.0


class EndpointStoppedError(Exception):
    """The plugin behind an endpoint is gone; the message reaches the pod."""


class _HasStub(Protocol):
    @property
    def stub(self) -> DevicePluginAsyncStub: ...


class Endpoint:
    """Calls to one plugin; refuses them once the plugin is gone.

    `stop_time` is the kubelet's clock at the end of the plugin, None while it lives. An endpoint restored from a
    checkpoint has no plugin behind it and is stopped from the start.
    """

    def __init__(self, resource: ResourceName, plugin: _HasStub | None, *, stop_time: float | None = None) -> None:
        self.resource = resource
        self.stop_time = stop_time
        self._plugin = plugin

    @property
    def is_stopped(self) -> bool:
        return self.stop_time is not None

    def is_grace_period_over(self, now: float) -> bool:
        """Whether the plugin has been gone for more than five minutes: its resource is to be forgotten."""
        return self.stop_time is not None and now - self.stop_time > STOP_GRACE_PERIOD_S

    async def allocate(self, devices: Iterable[DeviceID]) -> AllocateResponse:
        """Ask the plugin to set up devices for one container. No time limit, as in the kubelet.

        Raises:
            EndpointStoppedError: the plugin is gone.
            ConnectionClosedError: the plugin was disconnected meanwhile.
            grpc.aio.AioRpcError: the plugin refused or died.
        """
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=sorted(devices))])
        stub = self._stub()
        return await answer_to(lambda: stub.Allocate(request))

    async def get_preferred_allocation(
        self, available: Iterable[DeviceID], must_include: Iterable[DeviceID], size: int
    ) -> PreferredAllocationResponse:
        """Ask the plugin which of the `available` devices it would take. Raises as `allocate`."""
        container = ContainerPreferredAllocationRequest(
            available_deviceIDs=sorted(available), must_include_deviceIDs=sorted(must_include), allocation_size=size
        )
        request, stub = PreferredAllocationRequest(container_requests=[container]), self._stub()
        return await answer_to(lambda: stub.GetPreferredAllocation(request))

    async def pre_start_container(self, devices: Iterable[DeviceID]) -> None:
        """Tell the plugin that a container with these devices is about to start; 30 s at most. Raises as `allocate`."""
        request, stub = PreStartContainerRequest(devices_ids=sorted(devices)), self._stub()
        await answer_to(lambda: stub.PreStartContainer(request, timeout=PRE_START_CONTAINER_TIMEOUT_S))

    def _stub(self) -> DevicePluginAsyncStub:
        if self._plugin is None or self.is_stopped:
            # The kubelet prints its struct here, pointers included.
            raise EndpointStoppedError(f"endpoint &{{{self.resource}}} has been stopped")
        return self._plugin.stub
