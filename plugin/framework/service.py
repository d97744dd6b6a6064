"""The DevicePlugin service: the kubelet's calls turned into calls of a `DevicePlugin`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, Method, StreamMethod, UnaryMethod

from .device import DeviceID
from .device_feed import DeviceFeed
from .device_plugin import AllocationRefusedError, DevicePlugin

__all__ = ["DevicePluginService"]

_log = logging.getLogger(__name__)

_SERVICE: Final = "v1beta1.DevicePlugin"


class DevicePluginService:
    """Answers for one plugin; its device lists come from `feed`."""

    def __init__(self, plugin: DevicePlugin, feed: DeviceFeed) -> None:
        self._plugin = plugin
        self._feed = feed

    def methods(self) -> Mapping[str, Method]:
        """What is served, by path."""
        methods: dict[str, Method] = {
            "GetDevicePluginOptions": UnaryMethod(api.Empty.FromString, self._options),
            "ListAndWatch": StreamMethod(api.Empty.FromString, self._lists),
            "Allocate": UnaryMethod(api.AllocateRequest.FromString, self._allocate),
            "GetPreferredAllocation": UnaryMethod(api.PreferredAllocationRequest.FromString, self._preferred),
            "PreStartContainer": UnaryMethod(api.PreStartContainerRequest.FromString, self._pre_start),
        }
        return {f"/{_SERVICE}/{name}": method for name, method in methods.items()}

    async def _options(self, request: api.Empty) -> api.DevicePluginOptions:
        return self._plugin.options.to_message()

    async def _lists(self, request: api.Empty) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """The device list, then each newer one, until the kubelet or the plugin ends the stream."""
        try:
            async for devices in self._feed.follow():
                _log.debug("sending %d devices of %s", len(devices), self._plugin.resource_name)
                yield api.ListAndWatchResponse(devices=[device.to_message() for device in devices])
        finally:
            self._plugin.stream_ended()

    async def _allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:
        """One answer for each container, in order, or a refusal of the whole call."""
        requests = [_device_ids(container.devices_ids) for container in request.container_requests]
        with _refusals():
            answers = await self._plugin.allocate_all(requests)
        return api.AllocateResponse(container_responses=answers)

    async def _preferred(self, request: api.PreferredAllocationRequest) -> api.PreferredAllocationResponse:
        """One answer for each container, in order, or none at all.

        Asked in a thread: finding a good answer may take long, and health must get through meanwhile.
        """
        response = api.PreferredAllocationResponse()
        with _refusals():
            for container in request.container_requests:
                device_ids = await asyncio.to_thread(
                    self._plugin.preferred,
                    _device_ids(container.available_deviceIDs),
                    _device_ids(container.must_include_deviceIDs),
                    container.allocation_size,
                )
                if device_ids is not None:
                    response.container_responses.add(deviceIDs=device_ids)
        return response

    async def _pre_start(self, request: api.PreStartContainerRequest) -> api.PreStartContainerResponse:
        """Let the plugin get the devices ready."""
        with _refusals():
            await self._plugin.pre_start(_device_ids(request.devices_ids))
        return api.PreStartContainerResponse()


@contextmanager
def _refusals() -> Iterator[None]:
    """A refusal as the kubelet gets it from a Go plugin."""
    try:
        yield
    except AllocationRefusedError as refusal:
        raise CallError(Code.UNKNOWN, str(refusal)) from refusal


def _device_ids(ids: Sequence[str]) -> list[DeviceID]:
    return [DeviceID(device_id) for device_id in ids]
