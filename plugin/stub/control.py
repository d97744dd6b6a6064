"""Commands on standard input, answers and reports on standard output: one JSON object a line.

A command is answered with ``{"done": true}``, or with ``{"error": "…"}`` where it is none; what follows from it is
reported when it happens: ``{"called": "Allocate", "devices": […]}``, ``{"registered": "…", "endpoint": "…",
"error": ""}``. The first line is ``{"ready": true}``. The end of the input ends nothing but the commands.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from simkubelet.apis.pluginregistration import PLUGINS_REGISTRY

from ..command.options import CommonOptions
from ..command.process import loaded, set_up_logging
from ..errors import UsageError
from .behaviour import (
    AnswerWith,
    Behaviour,
    Command,
    CommandError,
    EndStream,
    ListDevices,
    Register,
    Registers,
    Rpc,
    StopServer,
    read_command,
)
from .stub import Registration, Stub

__all__ = ["Control", "Output", "launch", "run"]


class Output:
    """`Reports` as JSON lines.

    Args:
        write_line: Takes each line, without its end.
    """

    def __init__(self, write_line: Callable[[str], None]) -> None:
        self._write_line = write_line

    def called(self, rpc: Rpc, device_ids: Sequence[str]) -> None:
        """Write a ``called`` line."""
        self.write({"called": rpc.value, "devices": sorted(device_ids)})

    def registered(self, registration: Registration, error: str) -> None:
        """Write a ``registered`` line."""
        self.write({"registered": registration.resource, "endpoint": registration.endpoint, "error": error})

    def write(self, line: dict[str, Any]) -> None:
        """Write any line."""
        self._write_line(json.dumps(line))


class Control:
    """Carries out commands, one after the other; `run` ends when it is cancelled.

    Args:
        stub: That obeys.
        output: Gets the answers.
        lines: The commands as they come, an empty one at their end.
    """

    def __init__(self, stub: Stub, output: Output, lines: asyncio.Queue[str]) -> None:
        self._stub = stub
        self._output = output
        self._lines = lines

    async def run(self) -> None:
        """Read and carry out commands; an error of what a command began is raised."""
        try:
            async with asyncio.TaskGroup() as calls:
                self._output.write({"ready": True})
                while line := await self._lines.get():
                    self._output.write(await self._answer(line, calls))
        except BaseExceptionGroup as errors:
            # Such as that of an output which nobody reads: who started the stub knows what to make of it.
            raise errors.exceptions[0] from None

    async def _answer(self, line: str, calls: asyncio.TaskGroup) -> dict[str, Any]:
        try:
            waits = await self._obey(read_command(line))
        except CommandError as error:
            return {"error": str(error)}
        if waits is not None:
            calls.create_task(waits)
        return {"done": True}

    async def _obey(self, command: Command) -> Coroutine[Any, Any, object] | None:
        """Do what a command says; what waits for the kubelet is returned, so that the next command need not."""
        match command:
            case Register(resource, endpoint, version, service, times):
                return self._stub.register(resource, endpoint, version, service, times)
            case ListDevices(devices):
                self._stub.send_list(devices)
            case AnswerWith(rpc, answer):
                self._stub.behaviour.answers[rpc] = answer
            case EndStream():
                self._stub.end_streams()
            case StopServer():
                await self._stub.stop_server()
        return None


def _lines_of_input() -> asyncio.Queue[str]:
    """The lines of standard input as they come, an empty one at its end.

    A thread reads them, as the input may be what an event loop cannot wait for: a file, or nothing at all.
    """
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        # A loop that is closed takes no more of them.
        with suppress(RuntimeError):
            for line in chain(sys.stdin.buffer, [b""]):
                loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))

    threading.Thread(target=read, name="standard input", daemon=True).start()
    return lines


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def launch(behaviour: Behaviour, options: CommonOptions) -> int:
    """Run the stub in this process; the exit status is 0 after a signal, 1 after a lost stream that ends it.

    Raises:
        UsageError: the kubelet's folder cannot be used as it was named.
        HostError: the machine does not let the stub work there.
    """
    set_up_logging(options.log_level)
    if not options.kubelet_dir.is_dir():
        raise UsageError(f"--kubelet-dir: no folder {options.kubelet_dir}; name the kubelet's folder of sockets")
    for option, folder in _further_folders(behaviour, options.kubelet_dir):
        if not folder.is_dir():
            raise UsageError(f"{option}: no folder {folder}; make it before the stub starts")
    loaded()
    return asyncio.run(_run(behaviour, options))


def _further_folders(behaviour: Behaviour, kubelet_dir: Path) -> Iterator[tuple[str, Path]]:
    if behaviour.registers is Registers.FOUND:
        yield "--registers", kubelet_dir.parent / PLUGINS_REGISTRY
    if behaviour.watched_folder is not None:
        yield "--watches", behaviour.watched_folder


async def _run(behaviour: Behaviour, options: CommonOptions) -> int:
    output = Output(_print_line)
    stub = Stub(behaviour, options.kubelet_dir, output)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return await run(stub, Control(stub, output, _lines_of_input()), stop)


async def run(stub: Stub, control: Control, stop: asyncio.Event) -> int:
    """Let the stub work and obey until `stop`, status 0, or until a lost stream ends it, status 1."""
    tasks = [asyncio.create_task(stub.run()), asyncio.create_task(_obey_until(control, stop))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await stub.stop_server()
    for task in done:
        task.result()
    return 1 if tasks[0] in done else 0


async def _obey_until(control: Control, stop: asyncio.Event) -> None:
    """Carry out commands until the signal, also when no more of them come."""
    commands = asyncio.create_task(control.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([commands, stopping], return_when=asyncio.FIRST_COMPLETED)
        if commands.done():
            commands.result()
            await stopping
    finally:
        commands.cancel()
        stopping.cancel()
        await asyncio.gather(commands, stopping, return_exceptions=True)
