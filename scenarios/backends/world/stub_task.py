"""Stubs as tasks of this process: a process for each would take longer than the story, or the node, around it."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, BinaryIO

from simkubelet.host import LazyModule, module_name
from simkubelet.model.errors import InputError
from simkubelet.node_tree import open_without_links

from .child import Child, PluginCommand
from .marked_processes import NO_USE, Use

if TYPE_CHECKING:
    from plugin.stub import hosted
else:
    hosted = LazyModule("plugin", "stub.hosted")


async def spawn_task(command: PluginCommand, log: BinaryIO) -> Child:
    """Start a stub; see `child.Spawn`."""
    first = command.argv.index(module_name("plugin")) + len(("plugin", "stub"))
    return _StubTask(command, command.argv[first:])


class _StubTask:
    """A `Child` that is a task; it cannot be paused, handles no signal but SIGTERM, and starts nothing."""

    def __init__(self, command: PluginCommand, words: tuple[str, ...]) -> None:
        self._command = command
        self.stdout = asyncio.StreamReader()
        self._stub = hosted.HostedStub(words, self._write, self._write_error, self.stdout.feed_eof)

    @property
    def stdin(self) -> _StubTask:
        return self

    def write(self, data: bytes) -> None:
        self._stub.take(data.decode())

    async def drain(self) -> None:
        """Return at once: what was written is taken."""

    async def wait(self) -> int:
        return await self._stub.wait()

    def kill(self) -> None:
        self._stub.kill()

    async def kill_all(self) -> None:
        """Return at once: it has started nothing."""

    async def terminate_all(self) -> None:
        self._stub.terminate()

    def send_signal(self, number: signal.Signals) -> None:
        """Return at once: it has no handler."""

    def signal_all(self, number: signal.Signals) -> None:
        name = self._command.name
        raise InputError(f"plugin '{name}' is part of this process and cannot be sent {number.name}; kill or stop it")

    def use(self) -> Use:
        return NO_USE

    def owns(self, socket_name: str) -> bool:
        return False

    def _write(self, line: str) -> None:
        self.stdout.feed_data(line.encode() + b"\n")

    def _write_error(self, message: str) -> None:
        with open_without_links(self._command.log, "a") as log:
            log.write(f"{message}\n")
