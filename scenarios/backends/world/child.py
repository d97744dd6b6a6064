"""The process of a plugin on a node: how its supervisor starts it, signals it and ends it with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeAlias

from simkubelet.host import BoundProgram, Bounds, PipedLog
from simkubelet.model.errors import HostError, InputError

from .family import Family, is_alive, name_of, tracers
from .marked_processes import (
    MARK,
    Use,
    catches,
    owns_socket,
    signal_marked,
    terminate_marked,
    use_of_marked,
)
from .plugin_reports import LINE_LIMIT_BYTES, Input

_LOG: Final = logging.getLogger(__name__)
_LOOK_AGAIN_S: Final = 0.01
_kept: Final[list[subprocess.Popen[bytes]]] = []
"""Processes that are over and that a debugger has; when it lets go of them they are to be waited for."""


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """How a plugin is run: `argv` and `env` are complete, `log` takes what it writes.

    `takes_commands` says that it reads commands and reports, see `StubControl`; `is_tapped` that a tap reports instead.
    `folder` is its working directory, that of this process where it is None. `is_foreign` says that it is none of the
    bundled plugins.
    """

    name: str
    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    takes_commands: bool = False
    is_tapped: bool = False
    folder: Path | None = None
    is_foreign: bool = False

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
    _check_program(command)
    bound = BoundProgram(Bounds(command.log.parent))
    try:
        process = await _spawn(command, bound.argv(command.argv), log)
    except BaseException:
        bound.end()
        raise
    return MarkedProcess(process, command.mark, bound)


def _check_program(command: PluginCommand) -> None:
    program = command.argv[0]
    place = os.path.join(command.folder or "", program) if "/" in program else program  # noqa: PTH118  # "" stays ""
    if shutil.which(place, path=command.env.get("PATH")) is None:
        raise InputError(f"plugin '{command.name}': cannot run {program}: there is no such program")


async def _spawn(command: PluginCommand, argv: Sequence[str], log: BinaryIO) -> _Started:
    _kept[:] = [process for process in _kept if process.poll() is None]
    reader, writer, theirs = await _connection() if command.takes_commands else (None, None, None)
    try:
        # Not by asyncio, which waits for the end in a way that a tracer of it can block, with the event loop.
        process = subprocess.Popen(  # noqa: ASYNC220  # as asyncio does
            argv,
            stdin=subprocess.DEVNULL if theirs is None else theirs.fileno(),
            stdout=log if theirs is None else theirs.fileno(),
            stderr=log,
            cwd=command.folder,
            env={**command.env, MARK: command.mark},
            start_new_session=True,
        )
    except BaseException as error:
        if writer is not None:
            writer.close()
        match error:
            case FileNotFoundError() | PermissionError():
                why = f"cannot run {command.argv[0]}: {error}"
                raise InputError(f"plugin '{command.name}': {why}") from None
            case ValueError():
                raise InputError(f"plugin '{command.name}': cannot be run so: {error}") from None
            case OSError():
                raise HostError(f"plugin '{command.name}': cannot start a process: {error}") from None
        raise
    finally:
        if theirs is not None:
            theirs.close()
    return _Started(process, reader, writer)


async def _connection() -> tuple[asyncio.StreamReader, asyncio.StreamWriter, socket.socket]:
    """A reader and a writer, and the other end of both."""
    ours, theirs = socket.socketpair()
    try:
        return (*await asyncio.open_unix_connection(sock=ours, limit=LINE_LIMIT_BYTES), theirs)
    except BaseException:
        theirs.close()
        raise


class Process(Protocol):
    """A process of the machine."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> Input | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    @property
    def is_held(self) -> bool:
        """Whether it leads a session, and no other process can have its id before `release`."""
        ...

    async def wait(self) -> int | None:
        """Wait for its end; the status is negative for a signal, and None where a process that traces it has it."""
        ...

    def release(self) -> None:
        """Let go of it, in whatever state it is; may be called again."""
        ...

    def send_signal(self, signal: int, /) -> None:
        """Send it a signal.

        Raises:
            ProcessLookupError: it has been let go.
        """
        ...


class _Started:
    """A `Process` that is a child of this one."""

    is_held = True

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdout: asyncio.StreamReader | None,
        stdin: asyncio.StreamWriter | None,
    ) -> None:
        self.pid = process.pid
        self.stdout, self.stdin = stdout, stdin
        self._process = process
        self._status: int | None = None

    async def wait(self) -> int | None:
        if self.is_held:
            await _end_of(self.pid)
        if self.is_held and self._status is None:
            self._status = _status_of(self.pid)
        return self._status

    def release(self) -> None:
        if self.is_held:
            self._status = self._process.poll()
            if self._status is None:
                self._status = _kept_status(self.pid)
                _kept.append(self._process)
            self.is_held = False
            if self.stdin is not None:
                self.stdin.close()

    def send_signal(self, signal: int, /) -> None:
        if not self.is_held:
            raise ProcessLookupError
        os.kill(self.pid, signal)


async def _end_of(pid: int) -> None:
    """Wait until a child has ended, by a descriptor: wait(2) waits for its tracers, too."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        while is_alive(pid):  # noqa: ASYNC110  # this kernel reports it to nobody
            await asyncio.sleep(_LOOK_AGAIN_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _status_of(pid: int) -> int | None:
    """The status of a child that has ended, which stays to be waited for; None where a tracer has it."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _kept_status(pid: int) -> int:
    """The status of a child that a tracer keeps, which need not have ended.

    Source: proc(5), field 52 of /proc/PID/stat.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()
    return os.waitstatus_to_exitcode(int(fields[49])) if fields[0] == "Z" else -signal.SIGKILL


class MarkedProcess:
    """A `Child` that is a process of the machine, with a mark in its environment that all inherit whom it starts."""

    def __init__(self, process: Process, mark: str, bound: BoundProgram | None = None) -> None:
        self._process = process
        self._mark = mark
        self._bound = bound

    @property
    def stdin(self) -> Input | None:
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        return self._process.stdout

    async def wait(self) -> int:
        status = await self._process.wait()
        if status is None:
            await self.kill_all()
            status = await self._process.wait()
        assert status is not None  # noqa: S101  # it has been let go
        return status

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    async def kill_all(self) -> None:
        if self._bound is not None:
            self._bound.kill()
        leader = self._process.pid if self._process.is_held else None
        kept = await Family(self._mark, leader, self._bound.processes if self._bound else tuple).kill()
        for pid in kept:
            who = ", ".join(f"{tracer} ({name_of(tracer)})" for tracer in tracers(pid)) or "nobody"
            _LOG.warning("plugin %s: process %s does not end; these trace it: %s", self._mark, pid, who)
        if kept or leader is not None:
            self._process.release()
        if self._bound is not None:
            await self._bound.ended()
            if self._bound.has_lost_memory():
                _LOG.warning("plugin %s: the kernel has ended a process of it, as there was no memory left", self._mark)

    async def terminate_all(self) -> None:
        # The first process by its id: a program may overwrite its environment, the mark with it. And only once: a
        # second signal would come when it handles none any more, and change its exit status. A paused process handles
        # nothing until it goes on.
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)
        if self._bound is None or not self._bound.terminate(but=self._process.pid):
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
