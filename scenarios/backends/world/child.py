"""The process of a plugin on a node: how its supervisor starts it, signals it and ends it with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from simkubelet.host import PipedLog, with_first_limit
from simkubelet.model.errors import HostError, InputError

from .marked_processes import (
    MARK,
    Use,
    catches,
    kill_marked,
    owns_socket,
    signal_marked,
    terminate_marked,
    use_of_marked,
)
from .plugin_reports import LINE_LIMIT_BYTES, Input


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """How a plugin is run: `argv` and `env` are complete, `log` takes what it writes.

    `takes_commands` says that it reads commands and reports, see `StubControl`; `is_tapped` that a tap reports instead.
    `folder` is its working directory, that of this process where it is None.
    """

    name: str
    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    takes_commands: bool = False
    is_tapped: bool = False
    folder: Path | None = None

    def open_log(self) -> PipedLog:
        """Open the log, to append to it.

        Raises:
            HostError: something is in its way, as a link.
        """
        try:
            return PipedLog.open(self.log)
        except OSError as error:
            raise HostError(f"{self.log}: cannot be written: {error.strerror}; remove what is there") from None

    @property
    def mark(self) -> str:
        """What tells its processes, and those that they start, from all others."""
        return f"{self.node}/{self.name}/{self.log}"


class Child(Protocol):
    """One process of a plugin, until it has ended; `stdin` and `stdout` are there where the plugin takes commands."""

    @property
    def stdin(self) -> Input | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    async def wait(self) -> int:
        """Wait for its end; the status is negative for a signal."""
        ...

    def kill(self) -> None:
        """Kill the process itself."""
        ...

    async def kill_all(self) -> None:
        """Kill what it has started, too; returns when all of that is gone."""
        ...

    async def terminate_all(self) -> None:
        """Ask it, and all that it has started, to end; what is paused goes on for that."""
        ...

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process itself a signal, where it has a handler for it."""
        ...

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to it and to all that it has started."""
        ...

    def use(self) -> Use:
        """What it and all that it has started use of the machine."""
        ...

    def owns(self, socket_name: str) -> bool:
        """Whether it, or what it has started, listens on a Unix socket whose path ends with this name."""
        ...


Spawn: TypeAlias = Callable[[PluginCommand, BinaryIO], Awaitable[Child]]
"""Starts a process that writes to a log."""


async def spawn_process(command: PluginCommand, log: BinaryIO) -> Child:
    """Start a process of the machine.

    Raises:
        InputError: The program cannot be run.
        HostError: No process could be made.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *with_first_limit(command.argv),
            stdin=asyncio.subprocess.PIPE if command.takes_commands else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if command.takes_commands else log,
            stderr=log,
            limit=LINE_LIMIT_BYTES,
            cwd=command.folder,
            env={**command.env, MARK: command.mark},
            start_new_session=True,
        )
    except asyncio.CancelledError:
        # The process has been killed, what it had started by then has not.
        await kill_marked(command.mark)
        raise
    except (FileNotFoundError, PermissionError) as error:
        raise InputError(f"plugin '{command.name}': cannot run {command.argv[0]}: {error}") from None
    except ValueError as error:
        raise InputError(f"plugin '{command.name}': cannot be run so: {error}") from None
    except OSError as error:
        raise HostError(f"plugin '{command.name}': cannot start a process: {error}") from None
    return MarkedProcess(process, command.mark)


class Process(Protocol):
    """A process of the machine, as `asyncio.subprocess.Process`."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> asyncio.StreamWriter | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, signal: int, /) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class MarkedProcess:
    """A `Child` that is a process of the machine, with a mark in its environment that all inherit whom it starts."""

    def __init__(self, process: Process, mark: str) -> None:
        self._process = process
        self._mark = mark

    @property
    def stdin(self) -> asyncio.StreamWriter | None:
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        return self._process.stdout

    async def wait(self) -> int:
        return await self._process.wait()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def kill_all(self) -> None:
        await kill_marked(self._mark)

    async def terminate_all(self) -> None:
        # The first process by its handle: a program may overwrite its environment, the mark with it. And only once: a
        # second signal would come when it handles none any more, and change its exit status. A paused process handles
        # nothing until it goes on. The handle's second signal would first look whether the first has ended the process,
        # and take the exit status from asyncio.
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
            os.kill(self._process.pid, signal.SIGCONT)
        await terminate_marked(self._mark, but=self._process.pid)

    def send_signal(self, number: signal.Signals) -> None:
        if catches(self._process.pid, number):
            self._process.send_signal(number)

    def signal_all(self, number: signal.Signals) -> None:
        signal_marked(self._mark, number)

    def use(self) -> Use:
        return use_of_marked(self._mark)

    def owns(self, socket_name: str) -> bool:
        return owns_socket(self._mark, socket_name)
