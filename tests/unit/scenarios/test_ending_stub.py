"""A stub that ends while it is given commands; its process is one of the test."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import pytest

from scenarios.backends.world.child import PluginCommand
from scenarios.backends.world.marked_processes import NO_USE, Use
from scenarios.backends.world.plugin_process import PluginProcess
from scenarios.backends.world.plugin_reports import StubEndedError
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock


class Process:
    """Answers no command: its output ends at the first one, it itself when `ended` is set."""

    def __init__(self) -> None:
        self.stdout = asyncio.StreamReader()
        self.stdout.feed_data(json.dumps({"ready": True}).encode() + b"\n")
        self.ended = asyncio.Event()
        self.commands = 0

    @property
    def stdin(self) -> Process:
        return self

    def write(self, data: bytes) -> None:
        self.commands += 1
        self.stdout.feed_eof()

    async def drain(self) -> None: ...

    async def wait(self) -> int:
        await self.ended.wait()
        return -signal.SIGKILL

    def kill(self) -> None:
        self.ended.set()

    def end(self) -> None:
        self.stdout.feed_eof()
        self.ended.set()

    async def kill_all(self) -> None: ...

    async def terminate_all(self) -> None:
        self.kill()

    def send_signal(self, number: signal.Signals) -> None: ...

    def signal_all(self, number: signal.Signals) -> None: ...

    def use(self) -> Use:
        return NO_USE

    def owns(self, socket_name: str) -> bool:
        return False


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def processes() -> list[Process]:
    """Those of the plugin, in the order of their starts."""
    return []


@pytest.fixture
async def plugin(clock: ManualClock, processes: list[Process], tmp_path: Path) -> AsyncIterator[PluginProcess]:
    async def spawn(command: PluginCommand, log: BinaryIO) -> Process:
        processes.append(Process())
        return processes[-1]

    command = PluginCommand("gpu", "node-1", ("stub",), {}, tmp_path / "gpu.log", takes_commands=True)
    plugin = PluginProcess(command, clock, Trace(now=clock.now), spawn=spawn)
    running = asyncio.create_task(plugin.run())
    yield plugin
    running.cancel()
    await asyncio.wait([running])


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_command_to_an_ending_stub_waits_until_it_has_ended(
    plugin: PluginProcess, processes: list[Process]
) -> None:
    first = asyncio.create_task(plugin.send_command({"command": "list", "devices": []}))

    await turns()
    assert processes[0].stdout.at_eof()
    assert not first.done()
    processes[0].ended.set()
    with pytest.raises(StubEndedError):
        await first
    with pytest.raises(StubEndedError):
        await asyncio.gather(plugin.send_command({"command": "list", "devices": []}), plugin.kill())

    assert [process.commands for process in processes] == [1, 1]


@pytest.mark.parametrize("late", range(8))
async def test_stub_that_ends_while_node_time_passes_is_started_again_on_time(
    clock: ManualClock, plugin: PluginProcess, processes: list[Process], late: int
) -> None:
    await turns()
    processes[0].end()
    await turns()

    async def end_at_5_s() -> None:
        await clock.sleep(5)
        await turns(late)
        processes[1].end()

    others = [asyncio.create_task(clock.sleep(due_s)) for due_s in (7, 16)]
    async with asyncio.TaskGroup() as group:
        group.create_task(end_at_5_s())
        await clock.advance(7)
    await turns()
    while plugin.is_backing_off and (due_s := clock.next_deadline()) is not None:
        await clock.advance(due_s - clock.now())
    await turns()

    assert len(processes) == 3
    for other in others:
        other.cancel()
