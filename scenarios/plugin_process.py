"""A plugin's process and its supervisor, which starts it again when it ends, as the kubelet does for a DaemonSet.

The process has a mark in its environment that whatever it starts inherits, so all of that ends with it. What it writes
goes into a log file of the node. A plugin that ends before it has ever registered is broken: its story cannot go on.

Source of the back-off: client-go flowcontrol/backoff.go as the kubelet uses it (v1.34.4): the first restart is at once,
then 10 s doubling to 5 min, forgotten after 10 min of running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.clock import Clock
from simkubelet.errors import HostError, InputError, PluginError

from .events import PluginExited, PluginStarted
from .snapshot import PluginState, PluginView
from .trace import Trace

_FIRST_BACKOFF_S: Final = 10.0
_MAX_BACKOFF_S: Final = 300.0
_TERMINATION_GRACE_S: Final = 5.0
_KILL_GRACE_S: Final = 5.0
_SAID_BYTES: Final = 2000
_MARK: Final = "SIMKUBELET_PLUGIN"


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """How a plugin is run: `argv` and `env` are complete, `log` takes its standard output and error."""

    name: str
    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    log: Path


class PluginProcess:
    """Keeps one plugin running on one node; `run` does the work, the rest may be called beside it."""

    def __init__(self, command: PluginCommand, clock: Clock, trace: Trace) -> None:
        self.command = command
        self.registrations = 0
        self._clock = clock
        self._trace = trace
        self._life = 0
        self._state = PluginState.WAITING
        self._mark = f"{command.node}/{command.name}/{command.log}"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def view(self) -> PluginView:
        """What the supervisor knows of the plugin."""
        return PluginView(self.command.name, self.command.node, self._state, max(self._life - 1, 0), self.registrations)

    async def run(self) -> None:
        """Start the plugin again and again until cancelled; then the process is ended.

        Raises:
            InputError: the program cannot be run.
            HostError: no process could be made.
            PluginError: the plugin ended before it had ever registered.
        """
        backoff_s = 0.0
        try:
            while True:
                began = self._clock.now()
                status = await self._live()
                if self.registrations == 0:
                    self._state = PluginState.EXITED
                    raise PluginError(self._never_registered(status))
                if self._clock.now() - began > 2 * _MAX_BACKOFF_S:
                    backoff_s = 0.0
                self._state = PluginState.WAITING
                await self._clock.sleep(backoff_s)
                backoff_s = min(max(2 * backoff_s, _FIRST_BACKOFF_S), _MAX_BACKOFF_S)
        finally:
            await self._end()

    def owns(self, socket_name: str) -> bool:
        """Whether a process of this plugin listens on a Unix socket of this file name."""
        if self._process is None:
            return False
        inodes = _socket_inodes(socket_name)
        return any(_holds(pid, inodes) for pid in _marked(self._mark))

    async def _live(self) -> int:
        """One life, from the start of the process to its end; the status, negative for a signal."""
        self._life += 1
        self._process = process = await self._spawn()
        self._state = PluginState.RUNNING
        self._trace.append(PluginStarted(self.command.name, self.command.node, self._life))
        status = await process.wait()
        _signal(self._mark, signal.SIGKILL)
        self._process = None
        self._trace.append(PluginExited(self.command.name, self.command.node, status, self.said()))
        return status

    async def _spawn(self) -> asyncio.subprocess.Process:
        try:
            with self.command.log.open("ab") as log:
                return await asyncio.create_subprocess_exec(
                    *self.command.argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**self.command.env, _MARK: self._mark},
                    start_new_session=True,
                )
        except (FileNotFoundError, PermissionError) as error:
            raise InputError(f"plugin '{self.command.name}': cannot run {self.command.argv[0]}: {error}") from None
        except ValueError as error:
            raise InputError(f"plugin '{self.command.name}': cannot be run so: {error}") from None
        except OSError as error:
            raise HostError(f"plugin '{self.command.name}': cannot start a process: {error}") from None

    async def _end(self) -> None:
        """Ask the plugin to end, then make it."""
        process, self._process = self._process, None
        if process is None:
            return
        # The first process by its handle: a program may overwrite its environment, the mark with it.
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        _signal(self._mark, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TERMINATION_GRACE_S):
                await process.wait()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        _signal(self._mark, signal.SIGKILL)
        async with asyncio.timeout(_KILL_GRACE_S):
            await process.wait()
        self._state = PluginState.EXITED

    def said(self) -> str:
        """The last line that the plugin wrote; empty when it wrote none."""
        try:
            with self.command.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _SAID_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return text.strip().rpartition("\n")[2].strip()

    def _never_registered(self, status: int) -> str:
        said = self.said()
        words = f'its last words were: "{said}"' if said else "it said nothing"
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"plugin '{self.command.name}' {ended} before it registered with the kubelet; {words}"


def _signal(mark: str, number: signal.Signals) -> None:
    """Signal every process with a mark, those included that left the session of the first."""
    for pid in _marked(mark):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _socket_inodes(name: str) -> frozenset[str]:
    """Inodes of the Unix sockets that are bound to a path with this file name, in any mount namespace."""
    rows = Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
    columns: list[Sequence[str]] = [row.split(maxsplit=7) for row in rows]
    return frozenset(row[6] for row in columns if len(row) == 8 and row[7].rpartition("/")[2] == name)


def _marked(mark: str) -> list[int]:
    """Ids of the processes that inherited a mark."""
    wanted = f"{_MARK}={mark}".encode()
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    members.append(int(entry.name))
    return members


def _holds(pid: int, inodes: frozenset[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    with contextlib.suppress(OSError):
        return any(str(entry.readlink()) in wanted for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False
