"""A plugin's process and its supervisor, which starts it again when it ends, as the kubelet does for a DaemonSet.

A story may keep it from running, end it and start it again, and give the scriptable plugin commands. The process has
a mark in its environment that whatever it starts inherits, so all of that ends with it. What it writes goes into a log
file of the node. A plugin that ends by itself before it has ever registered is broken: its story cannot go on.

Source of the back-off: client-go flowcontrol/backoff.go as the kubelet uses it (v1.34.4): the first restart is at once,
then 10 s doubling to 5 min, forgotten after 10 min of running.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simkubelet.host import with_first_limit
from simkubelet.model.clock import Clock
from simkubelet.model.errors import HostError, InputError, PluginError

from ...trace.events import PluginExited, PluginMeasured, PluginPaused, PluginResumed, PluginSignalled, PluginStarted
from ...trace.snapshot import PluginState, PluginView
from ...trace.trace import Record
from .logs import exit_message
from .marked_processes import MARK, catches, kill_marked, owns_socket, signal_marked, use_of_marked
from .plugin_reports import LINE_LIMIT_BYTES, CallLog, StubControl

_FIRST_BACKOFF_S: Final = 10.0
_MAX_BACKOFF_S: Final = 300.0
TERMINATION_GRACE_S: Final = 5.0
"""How long a plugin may take to end after SIGTERM."""
_KILL_GRACE_S: Final = 60.0
"""A guard only: what is killed ends by itself, on a busy machine later than after some seconds."""


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


class PluginProcess:
    """Keeps one plugin running on one node; `run` does the work, the rest may be called beside it.

    Args:
        command: How it is run.
        clock: The node's time, for the back-off.
        trace: Gets what happens.
        is_wanted: Whether it runs from the beginning.
    """

    def __init__(self, command: PluginCommand, clock: Clock, trace: Record, is_wanted: bool = True) -> None:
        self.command = command
        self.registrations = 0
        self._clock = clock
        self._trace = trace
        self._call_log = CallLog(command.name, command.node, trace)
        self._starts = 0
        self._log_begin = 0
        self._state = PluginState.WAITING if is_wanted else PluginState.STOPPED
        self._mark = f"{command.node}/{command.name}/{command.log}"
        self._exit_status: int | None = None
        self._exit_s: float | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._control: StubControl | None = None
        self._pause: asyncio.Task[None] | None = None
        self.may_restart = asyncio.Event()
        """A kubelet is there to restart it when it has ended; so it is in the beginning."""
        self.may_restart.set()
        self._wanted, self._up, self._down = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._down.set()
        if is_wanted:
            self._wanted.set()

    @property
    def is_wanted(self) -> bool:
        """Whether it runs, or will again by itself."""
        return self._wanted.is_set()

    @property
    def _has_registered(self) -> bool:
        """Whether it is known to keep its contract: with a tap it may think so, or be refused as the story says."""
        return self.command.takes_commands or self.registrations > 0 or self._call_log.calls["Register"] > 0

    @property
    def view(self) -> PluginView:
        """What the supervisor knows of the plugin."""
        restarts = max(self._starts - 1, 0)
        calls = self._call_log.view_fields
        view = PluginView(self.command.name, self.command.node, self._state, restarts, self.registrations, **calls)
        return replace(view, exit_status=self._exit_status, exit_s=self._exit_s)

    async def run(self) -> None:
        """Start the plugin again and again until cancelled; then the process is ended.

        Raises:
            InputError: the program cannot be run.
            HostError: no process could be made.
            PluginError: the plugin ended by itself before it had ever registered.
        """
        backoff_s = 0.0
        try:
            while True:
                if not self.is_wanted:
                    backoff_s, self._state = 0.0, PluginState.STOPPED
                    await self._wanted.wait()
                began = self._clock.now()
                status = await self._run_once()
                if not self.is_wanted:
                    continue
                if not self._has_registered and self.may_restart.is_set():
                    self._state = PluginState.EXITED
                    raise PluginError(self._never_registered(status))
                if self._clock.now() - began > 2 * _MAX_BACKOFF_S:
                    backoff_s = 0.0
                self._state = PluginState.WAITING
                await self._back_off(backoff_s)
                backoff_s = min(max(2 * backoff_s, _FIRST_BACKOFF_S), _MAX_BACKOFF_S)
        finally:
            await self._end()

    async def start(self) -> None:
        """Let it run from now on; returns when its process is there.

        Raises:
            InputError: it runs already.
        """
        if self.is_wanted:
            raise InputError(f"plugin '{self.command.name}' runs already; stop it first")
        self._wanted.set()
        await self._up.wait()

    async def stop(self, grace_s: float = TERMINATION_GRACE_S) -> None:
        """End its process and do not start it again; without a grace it is killed at once.

        Raises:
            InputError: it was stopped before.
        """
        if not self.is_wanted:
            raise InputError(f"plugin '{self.command.name}' does not run; start it first")
        if self._pause is None:
            await self._up.wait()
        self._wanted.clear()
        if self._pause is not None:
            self._pause.cancel()
        await self._end(grace_s)
        await self._down.wait()
        self._state = PluginState.STOPPED

    async def kill(self) -> None:
        """Kill its process; it is started again as after any other end.

        Raises:
            InputError: there is no process.
        """
        await self._until_up()
        if self._process is not None:
            self._process.kill()
        await self._down.wait()

    async def pause(self) -> None:
        """Pause its processes.

        Raises:
            InputError: there is no process.
        """
        await self._signal(signal.SIGSTOP)
        self._trace.append(PluginPaused(self.command.name, self.command.node))

    async def resume(self) -> None:
        """Let its processes go on.

        Raises:
            InputError: there is no process.
        """
        await self._signal(signal.SIGCONT)
        self._trace.append(PluginResumed(self.command.name, self.command.node))

    async def send_signal(self, name: str) -> None:
        """Send its first process a signal, such as HUP, which gets it where it has a handler; see `SignalPlugin`.

        Raises:
            InputError: there is no process.
        """
        await self._until_up()
        number = signal.Signals[f"SIG{name}"]
        self._trace.append(PluginSignalled(self.command.name, self.command.node, name))
        if self._process is not None and catches(self._process.pid, number):
            self._process.send_signal(number)

    def measure(self) -> None:
        """Record what its processes use now."""
        used = use_of_marked(self._mark)
        self._trace.append(PluginMeasured(self.command.name, self.command.node, *used))

    async def _signal(self, number: signal.Signals) -> None:
        await self._until_up()
        signal_marked(self._mark, number)

    async def send_command(self, command: Mapping[str, Any]) -> None:
        """Give the scriptable plugin a command; return when it has begun to obey.

        Raises:
            InputError: this plugin takes no commands, or does not run.
            PluginError: it does not answer.
        """
        if not self.command.takes_commands:
            raise InputError(f"plugin '{self.command.name}' is no stub here, so it takes no commands")
        await self._until_up()
        if self._control is not None:
            await self._control.send_command(command)

    def owns(self, socket_name: str) -> bool:
        """Whether a process of this plugin listens on a Unix socket of this file name."""
        return self._process is not None and owns_socket(self._mark, socket_name)

    async def _until_up(self) -> None:
        """Wait for its process.

        Raises:
            InputError: nobody wants one, or none will come.
        """
        if not self.is_wanted:
            raise InputError(f"plugin '{self.command.name}' does not run; start it first")
        if self._pause is not None and not self.may_restart.is_set():
            raise InputError(f"plugin '{self.command.name}' has ended, and no kubelet is there to start it again")
        await self._up.wait()

    async def _back_off(self, delay_s: float) -> None:
        """Wait before the next start, or until the plugin is stopped."""
        self._pause = asyncio.ensure_future(self._until_due(delay_s))
        try:
            await asyncio.wait([self._pause])
        finally:
            self._pause.cancel()
            self._pause = None

    async def _until_due(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        await self.may_restart.wait()

    async def _run_once(self) -> int:
        """Run the process once; return its status, negative for a signal."""
        self._starts += 1
        self._call_log.begin_process()
        self._process = process = await self._spawn()
        self._state = PluginState.RUNNING
        self._trace.append(PluginStarted(self.command.name, self.command.node, self._starts))
        if self.command.takes_commands:
            on_report = self._ignored if self.command.is_tapped else self.reported
            self._control = StubControl(self.command.name, process, on_report)
        self._down.clear()
        self._up.set()
        try:
            if self._control is not None:
                await self._control.listen()
            status = await process.wait()
            await kill_marked(self._mark)
            self._exit_status = status
            self._trace.append(PluginExited(self.command.name, self.command.node, status, self._exit_message()))
        finally:
            self._control = None
            self._up.clear()
            self._down.set()
        self._process = None
        return status

    def reported(self, report: Mapping[str, Any]) -> None:
        """Record what the scriptable plugin, or a tap, reports."""
        self.registrations += self._call_log.take(report) and self.command.takes_commands

    def _ignored(self, report: Mapping[str, Any]) -> None:
        """Leave it to the tap, which sees the same."""

    async def _spawn(self) -> asyncio.subprocess.Process:
        try:
            with self.command.log.open("ab") as log:
                self._log_begin = log.tell()
                return await asyncio.create_subprocess_exec(
                    *with_first_limit(self.command.argv),
                    stdin=asyncio.subprocess.PIPE if self.command.takes_commands else asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE if self.command.takes_commands else log,
                    stderr=log,
                    limit=LINE_LIMIT_BYTES,
                    cwd=self.command.folder,
                    env={**self.command.env, MARK: self._mark},
                    start_new_session=True,
                )
        except asyncio.CancelledError:
            # The process has been killed, what it had started by then has not.
            await kill_marked(self._mark)
            raise
        except (FileNotFoundError, PermissionError) as error:
            raise InputError(f"plugin '{self.command.name}': cannot run {self.command.argv[0]}: {error}") from None
        except ValueError as error:
            raise InputError(f"plugin '{self.command.name}': cannot be run so: {error}") from None
        except OSError as error:
            raise HostError(f"plugin '{self.command.name}': cannot start a process: {error}") from None

    async def _end(self, grace_s: float = TERMINATION_GRACE_S) -> None:
        """Ask the plugin to end where there is a grace, then make it."""
        process, self._process = self._process, None
        if process is None:
            self._exit_s = 0.0
            return
        # The first process by its handle: a program may overwrite its environment, the mark with it. And only once: a
        # second signal would come when it handles none any more, and change its exit status.
        began_s = time.monotonic()
        if grace_s:
            # A paused process handles nothing until it goes on. The handle's second signal would first look whether the
            # first has ended the process, and take the exit status from asyncio.
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
                os.kill(process.pid, signal.SIGCONT)
            signal_marked(self._mark, signal.SIGTERM, signal.SIGCONT, but=process.pid)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await process.wait()
            self._exit_s = time.monotonic() - began_s
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        async with asyncio.timeout(_KILL_GRACE_S):
            await kill_marked(self._mark)
            await process.wait()
        self._state = PluginState.EXITED

    def _exit_message(self) -> str:
        """Return why the latest process ended, by its log."""
        return exit_message(self.command.log, self._log_begin)

    def _never_registered(self, status: int) -> str:
        said = self._exit_message()
        words = f'its log says: "{said}"' if said else "its log is empty"
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"plugin '{self.command.name}' {ended} before it registered with the kubelet; {words}"
