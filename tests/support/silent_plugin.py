"""A device plugin that does not answer one of its calls until it is released, and a registrar of the same kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from simkubelet.apis import deviceplugin as api
from simkubelet.apis import pluginregistration
from tests.support.grpc_peers import DEVICE_PLUGIN, WATCHED_REGISTRATION, RealServer
from tests.support.node import FakePlugin, Node
from tests.support.patience import LIMIT_S
from tests.support.watched_plugin import WatchedPlugin

DEADLINE_TEXTS = ("context deadline exceeded", "Deadline Exceeded")
"""How a call past its deadline is described: by the kubelet, or by the plugin's gRPC library where that is first."""
ASKING = api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)


class Silence:
    """What was seen of the call that is not answered.

    Attributes:
        may_answer: set it to have the call answered, that one and all later ones.
        time_left_s: of its deadline when it came; None where it has none.
    """

    def __init__(self, call: str) -> None:
        self.call = call
        self.may_answer = asyncio.Event()
        self.time_left_s: float | None = None
        self._is_asked = asyncio.Event()
        self._is_given_up = asyncio.Event()

    async def fall(self, call: str, context: Any) -> None:
        if call != self.call or self.may_answer.is_set():
            return
        self.time_left_s = context.time_remaining()
        self._is_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self._is_given_up.set()
            raise

    @property
    def is_asked(self) -> bool:
        return self._is_asked.is_set()

    @property
    def is_given_up(self) -> bool:
        return self._is_given_up.is_set()

    async def until_asked(self) -> None:
        await asyncio.wait_for(self._is_asked.wait(), LIMIT_S)

    async def until_given_up(self) -> None:
        """Wait until the kubelet does not wait any more."""
        await asyncio.wait_for(self._is_given_up.wait(), LIMIT_S)


class SilentPlugin(FakePlugin):
    def __init__(self, folder: Path, call: str, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.silence = Silence(call)
        if call in ("PreStartContainer", "GetPreferredAllocation"):
            self.options = ASKING

    async def serve(self) -> None:
        # Its methods see the deadlines of calls.
        self._server = RealServer(self, DEVICE_PLUGIN)
        await self._server.listen(self.folder / self.endpoint)

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> api.DevicePluginOptions:
        await self.silence.fall("GetDevicePluginOptions", context)
        return await super().GetDevicePluginOptions(request, context)

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[api.ListAndWatchResponse]:
        await self.silence.fall("ListAndWatch", context)
        async for message in super().ListAndWatch(request, context):
            yield message

    async def GetPreferredAllocation(self, request: Any, context: Any) -> api.PreferredAllocationResponse:
        await self.silence.fall("GetPreferredAllocation", context)
        return await super().GetPreferredAllocation(request, context)

    async def Allocate(self, request: Any, context: Any) -> api.AllocateResponse:
        await self.silence.fall("Allocate", context)
        return await super().Allocate(request, context)

    async def PreStartContainer(self, request: Any, context: Any) -> api.PreStartContainerResponse:
        await self.silence.fall("PreStartContainer", context)
        return await super().PreStartContainer(request, context)


class SilentRegistrar(WatchedPlugin):
    def __init__(self, *args: Any, call: str, **info: Any) -> None:
        super().__init__(*args, **info)
        self.silence = Silence(call)

    async def serve(self) -> None:
        self._server = RealServer(self, WATCHED_REGISTRATION)
        await self._server.listen(self.socket)

    async def GetInfo(self, request: Any, context: Any) -> pluginregistration.PluginInfo:
        await self.silence.fall("GetInfo", context)
        return await super().GetInfo(request, context)

    async def NotifyRegistrationStatus(
        self, request: Any, context: Any
    ) -> pluginregistration.RegistrationStatusResponse:
        await self.silence.fall("NotifyRegistrationStatus", context)
        return await super().NotifyRegistrationStatus(request, context)


async def until_true(node: Node, condition: Callable[[], object]) -> None:
    """Let seconds of the node pass until something has happened in a plugin."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await node.clock.advance(1)
            await asyncio.sleep(0.001)


async def silent_plugin(node: Node, call: str, *healthy: str, **settings: Any) -> SilentPlugin:
    """A plugin that is served and not registered yet."""
    plugin = SilentPlugin(node.folder, call, **settings)
    node.plugins.append(plugin)
    plugin.list(healthy or ["d0"])
    await plugin.serve()
    return plugin


async def listed_silent_plugin(node: Node, call: str, *healthy: str, **settings: Any) -> SilentPlugin:
    """A plugin that is registered and has listed."""
    plugin = await silent_plugin(node, call, *healthy, **settings)
    listed = len(node.of("devices-listed"))
    await plugin.register()
    await node.until(lambda: len(node.of("devices-listed")) > listed)
    await node.tick()
    return plugin
