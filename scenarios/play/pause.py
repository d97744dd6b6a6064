"""A look at the world of a failed story: it stays until the user at the terminal presses Enter.

The event loop goes on meanwhile, so kubelets and plugins answer who calls their sockets. Node time stands still on the
simulator, where only a story's steps and expectations let it pass.
"""

from __future__ import annotations

import asyncio
import sys
from typing import IO

from simkubelet.host import one_line
from simkubelet.model.errors import InputError

from ..backends.backend import Backend
from .runner import AtFailure


def until_enter(keyboard: IO[str] | None = None, terminal: IO[str] | None = None) -> AtFailure:
    """Return what waits for Enter at the failure of a story.

    Args:
        keyboard: Where Enter is read, in place of standard input.
        terminal: Where the user reads what there is to look at, in place of standard output.

    Raises:
        InputError: One of the two is no terminal.
    """
    read, write = keyboard or sys.stdin, terminal or sys.stdout
    if not (read.isatty() and write.isatty()):
        raise InputError("--pause-on-failure: needs a terminal, where Enter ends the pause; leave it out in scripts")

    async def pause(backend: Backend, reason: str) -> None:
        places = backend.places
        width = max(map(len, places), default=0)
        lines = [f"paused: {reason}", *(f"  {name:<{width}}  {where}" for name, where in places.items())]
        print(*map(one_line, lines), "Enter ends the story, Ctrl-C the run", sep="\n", file=write, flush=True)
        await _readable(read)
        read.readline()

    return pause


async def _readable(stream: IO[str]) -> None:
    """Wait until there is a line to read, or the end."""
    loop = asyncio.get_running_loop()
    come = asyncio.Event()
    loop.add_reader(stream, come.set)
    try:
        await come.wait()
    finally:
        loop.remove_reader(stream)
