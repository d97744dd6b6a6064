"""The DevicePlugin service: the kubelet's calls turned into calls of a `DevicePlugin`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator

import grpc

from simkubelet.apis import deviceplugin as api

from .device import DeviceID
from .device_feed import DeviceFeed
from .device_plugin import AllocationRefusedError, DevicePlugin

__all__ = ["DevicePluginService"]

_log = logging.getLogger(__name__)


class DevicePluginService(api.DevicePluginServicer):
    """Answers for one plugin; its device lists come from `feed`."""

    def __init__(self, plugin: DevicePlugin, feed: DeviceFeed) -> None:
        self._plugin = plugin
        self._feed = feed

    async def GetDevicePluginOptions(
        self, request: api.Empty, context: grpc.aio.ServicerContext[api.Empty, api.DevicePluginOptions]
    ) -> api.DevicePluginOptions:
        """The optional calls that the plugin wants."""
        return self._plugin.options.to_message()

    async def ListAndWatch(
        self, request: api.Empty, context: grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse]
    ) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """The device list, then each newer one, until the kubelet or the plugin ends the stream."""
        async for devices in self._feed.follow():
            _log.debug("sending %d devices of %s", len(devices), self._plugin.resource_name)
            yield api.ListAndWatchResponse(devices=[device.to_message() for device in devices])

    async def Allocate(
        self, request: api.AllocateRequest, context: grpc.aio.ServicerContext[api.AllocateRequest, api.AllocateResponse]
    ) -> api.AllocateResponse:
        """One answer for each container, in order; the first refusal fails the call."""
        response = api.AllocateResponse()
        try:
            for container in request.container_requests:
                device_ids = [DeviceID(device_id) for device_id in container.devices_ids]
                response.container_responses.append(self._plugin.allocate(device_ids))
        except AllocationRefusedError as refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, str(refusal))
        return response

    async def GetPreferredAllocation(
        self,
        request: api.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[api.PreferredAllocationRequest, api.PreferredAllocationResponse],
    ) -> api.PreferredAllocationResponse:
        """One answer for each container, in order, or none at all.

        Asked in a thread: finding a good answer may take long, and health must get through meanwhile.
        """
        response = api.PreferredAllocationResponse()
        try:
            for container in request.container_requests:
                device_ids = await asyncio.to_thread(
                    self._plugin.preferred,
                    [DeviceID(device_id) for device_id in container.available_deviceIDs],
                    [DeviceID(device_id) for device_id in container.must_include_deviceIDs],
                    container.allocation_size,
                )
                if device_ids is not None:
                    response.container_responses.add(deviceIDs=device_ids)
        except AllocationRefusedError as refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, str(refusal))
        return response

    async def PreStartContainer(
        self,
        request: api.PreStartContainerRequest,
        context: grpc.aio.ServicerContext[api.PreStartContainerRequest, api.PreStartContainerResponse],
    ) -> api.PreStartContainerResponse:
        """Nothing to prepare."""
        return api.PreStartContainerResponse()
