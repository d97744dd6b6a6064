"""A plugin of the framework whose lists come from the test, and the framework at work with it."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from plugin.framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    PluginOptions,
    ResourceName,
    RestartPolicy,
    run_plugins,
)
from simkubelet.apis import deviceplugin as api
from tests.support.grpc_peers import DEVICE_PLUGIN, Calls, calls
from tests.support.patience import LIMIT_S


class ScriptedPlugin(DevicePlugin):
    """Lists what the test puts into `lists`; an exception there is raised."""

    resource_name: ClassVar[ResourceName] = ResourceName("example.com/scripted")
    socket_name: ClassVar[str] = "scripted.sock"
    options: ClassVar[PluginOptions] = PluginOptions(pre_start_required=True, preferred_allocation_available=True)

    def __init__(self) -> None:
        self.lists: asyncio.Queue[DeviceList | Exception] = asyncio.Queue()
        self.lists.put_nowait(device_list("d0", "d1"))
        self.is_listed = asyncio.Event()
        self.is_closed = False
        self.asked_in: threading.Thread | None = None

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        try:
            while True:
                item = await self.lists.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                self.is_listed.set()
        finally:
            self.is_closed = True

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        if "bad" in device_ids:
            raise AllocationRefusedError("no bad devices")
        if "gone" in device_ids:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/dev/gone")
        return api.ContainerAllocateResponse(envs={"IDS": ",".join(device_ids)})

    def preferred(
        self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
    ) -> Sequence[DeviceID] | None:
        self.asked_in = threading.current_thread()
        return [*required, *available][:size]


def device_list(*names: str, health: Health = Health.HEALTHY) -> DeviceList:
    return tuple(Device(DeviceID(name), health, (1,)) for name in names)


class Running:
    """The framework at work in a task, and the plugins it has built."""

    def __init__(self, task: asyncio.Task[None], plugins: list[ScriptedPlugin], built: asyncio.Event) -> None:
        self.task = task
        self.plugins = plugins
        self.built = built

    async def serves(self) -> None:
        """Wait until the first plugin serves and its first list was taken."""
        async with asyncio.timeout(LIMIT_S):
            await self.built.wait()
            await self.plugins[0].is_listed.wait()

    async def finish(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            await self.task


@asynccontextmanager
async def run_scripted(
    folder: Path, policy: RestartPolicy, *makes: Callable[[], ScriptedPlugin]
) -> AsyncIterator[Running]:
    plugins: list[ScriptedPlugin] = []
    built = asyncio.Event()

    def build() -> list[ScriptedPlugin]:
        made = [make() for make in makes or (ScriptedPlugin,)]
        plugins.extend(made)
        built.set()
        return made

    task = asyncio.create_task(run_plugins(build, folder, policy))
    try:
        yield Running(task, plugins, built)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def stub_of(folder: Path) -> AbstractAsyncContextManager[Calls]:
    return calls(folder / "scripted.sock", DEVICE_PLUGIN)


async def read_list(stream: Any) -> list[tuple[str, str]]:
    async with asyncio.timeout(LIMIT_S):
        return [(device.ID, device.health) for device in (await stream.read()).devices]
