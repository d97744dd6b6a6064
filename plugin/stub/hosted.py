"""The stub as a task of another program's event loop, for one that runs more stubs than a machine runs processes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from typing import Final

from ..errors import PluginExitError
from .command import behaviour_of, command
from .control import Control, Output, run
from .stub import CRASHED, Stub

__all__ = ["HostedStub"]

_FAILED: Final = 1


class HostedStub:
    """Does what a process of ``plugin stub`` does, from its construction to its end; an event loop has to run.

    Args:
        words: The options of the command.
        write_line: Takes each line of its output, without its end.
        write_error: Takes the message of an error that ends it.
        close: Called at its end, after the last line.
    """

    def __init__(
        self,
        words: Sequence[str],
        write_line: Callable[[str], None],
        write_error: Callable[[str], None],
        close: Callable[[], None],
    ) -> None:
        given = command.make_context("stub", list(words)).params
        self._stub = Stub(behaviour_of(**given), given["kubelet_dir"], Output(write_line), self._crash)
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._stop = asyncio.Event()
        self._status = _FAILED
        self._write_error = write_error
        self._task = asyncio.create_task(self._run(Control(self._stub, Output(write_line), self._lines)))
        self._task.add_done_callback(lambda _: close())

    def take(self, line: str) -> None:
        """Take a line of input."""
        self._lines.put_nowait(line)

    def terminate(self) -> None:
        """End it as SIGTERM does."""
        self._stop.set()

    def kill(self) -> None:
        """End it as SIGKILL does: its connections break, its socket stays."""
        self._end(-signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end; the status is that of the process."""
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()
        return self._status

    def _crash(self) -> None:
        self._end(CRASHED)

    def _end(self, status: int) -> None:
        if not self._task.done():
            self._status = status
            self._task.cancel()

    async def _run(self, control: Control) -> None:
        try:
            self._status = await run(self._stub, control, self._stop)
        except PluginExitError as error:
            self._write_error(f"error: {error}")
            self._status = error.exit_status
        finally:
            await self._stub.abandon_server()
