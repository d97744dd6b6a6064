"""A plugin on the node of a test: its process, and the task that starts it again when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ..backends.world.plugin_process import PluginProcess
from ..trace.snapshot import PluginState


class AsyncPlugin:
    """A plugin's process on a node, started again when it ends, as that of a DaemonSet.

    Attributes:
        name: By which steps and expectations call it.
        log: The file that has what it writes.
    """

    def __init__(self, process: PluginProcess, supervisor: asyncio.Task[None]) -> None:
        self.name = process.command.name
        self.log: Path = process.command.log
        self._process = process
        self._supervisor = supervisor

    @property
    def state(self) -> PluginState:
        """`running`, `waiting` for its restart, `stopped`, or `exited` where it has ended before it registered."""
        return self._process.view.state

    @property
    def registrations(self) -> int:
        """How often it has registered, over all its processes."""
        return self._process.registrations

    @property
    def restarts(self) -> int:
        """How often it was started after the first time."""
        return self._process.view.restarts

    async def start(self) -> None:
        """Start it after `stop`."""
        check(self)
        await self._process.start()

    async def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL five seconds later; it stays so until `start`."""
        check(self)
        await self._process.stop()

    async def kill(self) -> None:
        """Kill it; it is started again as after any other end."""
        check(self)
        await self._process.kill()

    async def send_signal(self, name: str) -> None:
        """Send its first process a signal, such as ``HUP``; nothing happens where it has no handler."""
        check(self)
        await self._process.send_signal(name)


@asynccontextmanager
async def supervised(process: PluginProcess) -> AsyncIterator[AsyncPlugin]:
    """Run a plugin's process, and start it again whenever it ends, until the context is left."""
    supervisor = asyncio.create_task(process.run(), name=f"plugin {process.command.name}")
    try:
        yield AsyncPlugin(process, supervisor)
    finally:
        supervisor.cancel()
        await asyncio.gather(supervisor, return_exceptions=True)


def is_ready(plugin: AsyncPlugin) -> bool:
    """Whether it has registered, or never will, which `check` explains."""
    return plugin.registrations > 0 or plugin._supervisor.done()


def check(plugin: AsyncPlugin) -> None:
    """Report that a plugin cannot be run.

    Raises:
        PluginError: It has ended before it registered.
        HostError: The machine failed.
    """
    supervisor = plugin._supervisor
    if supervisor.done() and not supervisor.cancelled() and (error := supervisor.exception()):
        raise error
