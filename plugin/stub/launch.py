"""Runs the stub until a signal: the server beside the commands."""

from __future__ import annotations

import asyncio
import signal

from ..command.loading import loaded
from ..command.logs import set_up_logging
from ..command.options import CommonOptions
from ..errors import UsageError
from .behaviour import Behaviour
from .control import Control, StandardOutput
from .stub import Stub

__all__ = ["launch"]


def launch(behaviour: Behaviour, options: CommonOptions) -> int:
    """Run the stub in this process; the exit status is 0 after a signal.

    Raises:
        UsageError: the kubelet's folder cannot be used as it was named.
        HostError: the machine does not let the stub work there.
    """
    set_up_logging(options.log_level)
    if not options.kubelet_dir.is_dir():
        raise UsageError(f"--kubelet-dir: no folder {options.kubelet_dir}; name the kubelet's folder of sockets")
    loaded()
    asyncio.run(_run(behaviour, options))
    return 0


async def _run(behaviour: Behaviour, options: CommonOptions) -> None:
    output = StandardOutput()
    stub = Stub(behaviour, options.kubelet_dir, output)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    tasks = [
        asyncio.create_task(stub.run()),
        asyncio.create_task(_obey_until(Control(stub, output), stop)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await stub.stop_server()
    for task in done:
        task.result()


async def _obey_until(control: Control, stop: asyncio.Event) -> None:
    """Carry out commands until the signal, also when no more of them come."""
    commands = asyncio.create_task(control.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([commands, stopping], return_when=asyncio.FIRST_COMPLETED)
    if commands.done():
        commands.result()
        await stopping
    commands.cancel()
    await asyncio.gather(commands, return_exceptions=True)
