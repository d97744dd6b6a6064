"""One resource of the node's GPUs or MIG devices: lists them, hands them out, says which fit together.

Source: internal/plugin/server.go, internal/rm/nvml_manager.go, tegra_manager.go (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from simkubelet.apis import deviceplugin as api

from ..command.plugin_command import Quirks
from ..framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    PluginOptions,
    StartError,
)
from ..nvml.events import XidPolicy
from ..nvml.nvml import Nvml
from .allocation import Allocator
from .health import failing_devices
from .mps.mps import MpsDaemonError
from .preference import PreferenceError, preferred_devices

__all__ = ["NvidiaPlugin"]


class NvidiaPlugin(DevicePlugin):
    """The devices of one discovery; one that failed stays unhealthy until the next discovery.

    Args:
        nvml: asked for health and for links between GPUs.
        allocator: has the resource, and answers what a container gets.
        xids: which failures count.
        quirks: whose health check this is.
    """

    options = PluginOptions(preferred_allocation_available=True, in_registration=True)

    def __init__(self, nvml: Nvml, allocator: Allocator, xids: XidPolicy, quirks: Quirks = Quirks.ARTICLE) -> None:
        self._nvml = nvml
        self._allocator = allocator
        self._resource = allocator.resource
        self._xids = xids
        self._quirks = quirks
        self.resource_name = self._resource.name
        self.socket_name = f"nvidia-{self._resource.name.partition('/')[2]}.sock"

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Serve only once the MPS control daemon answers, where GPUs are shared by MPS."""
        return self._with_daemon()

    @asynccontextmanager
    async def _with_daemon(self) -> AsyncGenerator[None, None]:
        if self._allocator.mps is not None:
            try:
                await self._allocator.mps.wait_for_daemon()
            except MpsDaemonError as error:
                raise StartError(str(error)) from error
        yield

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """All devices as healthy, once no failure can be missed any more, then again after each failure."""
        unhealthy: set[DeviceID] = set()
        if self._resource.is_tegra:
            yield self._list(unhealthy)
            return
        failures = failing_devices(
            self._nvml,
            list(self._resource.devices.values()),
            self._xids,
            fail_on_init_error=self._allocator.settings.fail_on_init_error,
            quirks=self._quirks,
        )
        async with aclosing(failures):
            async for failing in failures:
                unhealthy |= failing
                yield self._list(unhealthy)

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """What one container gets for its devices.

        Raises:
            AllocationRefusedError: an id is unknown, or several replicas are requested where only one is allowed.
        """
        return self._allocator.allocate(device_ids)

    def preferred(
        self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
    ) -> Sequence[DeviceID] | None:
        """Whole GPUs by their links, anything else spread evenly; an unsolvable request may get an empty list.

        Raises:
            AllocationRefusedError: the links cannot be read, an id is not one of ours, or too few are available.
        """
        try:
            return preferred_devices(self._nvml, self._resource, available, required, size)
        except PreferenceError as error:
            raise AllocationRefusedError(f"error getting list of preferred allocation devices: {error}") from error

    def _list(self, unhealthy: set[DeviceID]) -> DeviceList:
        return tuple(
            Device(
                device_id,
                Health.UNHEALTHY if device_id in unhealthy else Health.HEALTHY,
                () if device.numa_node is None else (device.numa_node,),
            )
            for device_id, device in self._resource.devices.items()
        )
