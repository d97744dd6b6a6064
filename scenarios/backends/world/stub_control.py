"""The pipe to one process of the scriptable plugin: commands in, answers and reports out, one JSON object a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from simkubelet.model.errors import PluginError

LINE_LIMIT_BYTES: Final = 16 * 1024 * 1024
_ANSWER_LIMIT_S: Final = 20.0


class StubControl:
    """Sends a stub commands; `listen` has to run beside it.

    Args:
        name: The plugin's, for messages.
        process: A stub with pipes for standard input and output.
        on_report: Called with each line that answers no command: see `plugin.stub.control`.
    """

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, on_report: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._name = name
        self._process = process
        self._on_report = on_report
        self._answers: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._ready = asyncio.Event()

    async def listen(self) -> None:
        """Take what the stub writes until it ends."""
        assert self._process.stdout is not None  # noqa: S101  # a pipe was asked for
        while line := await self._process.stdout.readline():
            written = json.loads(line)
            if "ready" in written:
                self._ready.set()
            elif "called" in written or "registered" in written:
                self._on_report(written)
            else:
                self._answers.put_nowait(written)

    async def send_command(self, command: Mapping[str, Any]) -> None:
        """Give a command and wait until the stub has taken it.

        Raises:
            PluginError: it refuses the command, does not answer, or is gone.
        """
        assert self._process.stdin is not None  # noqa: S101  # a pipe was asked for
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                await self._ready.wait()
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                await self._process.stdin.drain()
                answer = await self._answers.get()
        except (TimeoutError, ConnectionError):
            raise PluginError(f"plugin '{self._name}' does not take the command {command['command']}") from None
        if "error" in answer:
            raise PluginError(f"plugin '{self._name}': {answer['error']}")
