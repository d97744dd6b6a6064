"""A plugin's process and its supervisor, which starts it again when it ends, as the kubelet does for a DaemonSet.

A story may keep it from running, end it and start it again, and give the scriptable plugin commands. The process has
a mark in its environment that whatever it starts inherits, so all of that ends with it (`child`). What it writes goes
into a log file of the node. A plugin that ends by itself before it has ever registered is broken: its story cannot go
on.

Source of the back-off: client-go flowcontrol/backoff.go as the kubelet uses it (v1.34.4): the first restart is at once,
then 10 s doubling to 5 min, forgotten after 10 min of running. "At once" is no sooner than the kubelet sees the end of
the container, for which it looks each second (kubelet.go, ``genericPlegRelistPeriod``). A foreign program can tell: it
keeps real time, and may name its socket by the second.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from simkubelet.host import PipedLog
from simkubelet.model.clock import Clock
from simkubelet.model.errors import InputError, PluginError

from ...trace.events import PluginExited, PluginMeasured, PluginPaused, PluginResumed, PluginSignalled, PluginStarted
from ...trace.snapshot import PluginState, PluginView
from ...trace.trace import Record
from .child import Child, PluginCommand, Spawn, spawn_process
from .logs import exit_message
from .marked_processes import NO_USE, Use
from .plugin_reports import CallLog, StubControl, StubEndedError

_FIRST_BACKOFF_S: Final = 10.0
_MAX_BACKOFF_S: Final = 300.0
_REST_S: Final = 1.0
"""Real time from an end by itself, and from any end of a foreign program, to the next start.

A kubelet starts no container again before it has looked at the runtime, once a second (pleg/generic.go, ``relist``).
Without it a bundled plugin may be back before its node is published, and the status with none of its devices never is.
A stub runs in this process, whose order of things is the same on any machine.
"""
TERMINATION_GRACE_S: Final = 5.0
"""How long a plugin may take to end after SIGTERM."""


class PluginProcess:
    """Keeps one plugin running on one node; `run` does the work, the rest may be called beside it.

    Args:
        command: How it is run.
        clock: The node's time, for the back-off.
        trace: Gets what happens.
        is_wanted: Whether it runs from the beginning.
        spawn: Starts its process.
    """

    def __init__(
        self, command: PluginCommand, clock: Clock, trace: Record, is_wanted: bool = True, spawn: Spawn = spawn_process
    ) -> None:
        self.command = command
        self.registrations = 0
        self.starts = 0
        self.is_found = False
        """Whether the kubelet has found the socket by which its process registers, and asks it in its own time."""
        self._registrations_before = 0
        self._clock = clock
        self._trace = trace
        self._call_log = CallLog(command.name, command.node, trace)
        self._log: PipedLog | None = None
        self._state = PluginState.WAITING if is_wanted else PluginState.STOPPED
        self._spawn = spawn
        self._exit_status: int | None = None
        self._exit_s: float | None = None
        self._process: Child | None = None
        self._control: StubControl | None = None
        self._pause: asyncio.Task[None] | None = None
        self._restart_at = 0.0
        self._rests_until = 0.0
        self._is_resting = False
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
    def is_backing_off(self) -> bool:
        """Whether it has ended and is started again when node time has passed; a kubelet is there for that."""
        return self._pause is not None and self.may_restart.is_set() and self._restart_at > self._clock.now()

    @property
    def is_starting(self) -> bool:
        """Whether its process has yet to come to the kubelet that is there, or a stub to take commands."""
        if self._control is not None:
            return not self._control.is_ready
        has_come = self._up.is_set() and self._known_registrations > self._registrations_before
        return (self._up.is_set() or self._is_resting) and self.may_restart.is_set() and not has_come

    @property
    def _known_registrations(self) -> int:
        """All that are known of: with a tap it may think that it has, or be refused as the story says."""
        return self.registrations + self._call_log.calls["Register"]

    @property
    def _has_registered(self) -> bool:
        """Whether it is known to keep its contract; a kubelet that hangs answers no call of it."""
        return self.command.takes_commands or self._known_registrations > 0 or self._call_log.has_tried

    @property
    def view(self) -> PluginView:
        """What the supervisor knows of the plugin."""
        restarts = max(self.starts - 1, 0)
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
                await self._rest()
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
        self._trace.append(PluginSignalled(self.command.name, self.command.node, name))
        if self._process is not None:
            self._process.send_signal(signal.Signals[f"SIG{name}"])

    def measure(self) -> None:
        """Record what its processes use now."""
        files, threads, memory_bytes, cpu_s, _ = self.use()
        self._trace.append(PluginMeasured(self.command.name, self.command.node, files, threads, memory_bytes, cpu_s))

    def use(self) -> Use:
        """What its processes use now."""
        return NO_USE if self._process is None else self._process.use()

    async def _signal(self, number: signal.Signals) -> None:
        await self._until_up()
        if self._process is not None:
            self._process.signal_all(number)

    async def send_command(self, command: Mapping[str, Any]) -> None:
        """Give the scriptable plugin a command; return when it has begun to obey.

        Raises:
            InputError: this plugin takes no commands, or does not run.
            StubEndedError: it ends before it answers; raised when its process has ended.
            PluginError: it does not answer.
        """
        if not self.command.takes_commands:
            raise InputError(f"plugin '{self.command.name}' is no stub here, so it takes no commands")
        await self._until_up()
        if self._control is None:
            return
        try:
            await self._control.send_command(command)
        except StubEndedError:
            # Its output ends a little before it does; the next command is for its next process.
            await self._down.wait()
            raise

    def owns(self, socket_name: str) -> bool:
        """Whether a process of this plugin listens on a Unix socket whose path ends with this name."""
        return self._process is not None and self._process.owns(socket_name)

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
        self._restart_at = self._clock.now() + delay_s
        self._pause = asyncio.ensure_future(self._until_due())
        try:
            await asyncio.wait([self._pause])
        finally:
            self._pause.cancel()
            self._pause = None

    async def _until_due(self) -> None:
        # Node time may have passed since the back-off began.
        await self._clock.sleep(self._restart_at - self._clock.now())
        await self.may_restart.wait()

    async def _rest(self) -> None:
        """Wait as long as a kubelet takes to see that the last process has ended."""
        self._is_resting = True
        try:
            await asyncio.sleep(self._rests_until - time.monotonic())
        finally:
            self._is_resting = False

    async def _run_once(self) -> int:
        """Run the process once; return its status, negative for a signal."""
        self.starts += 1
        self.is_found = False
        self._registrations_before = self._known_registrations
        self._call_log.begin_process()
        self._log = log = self.command.open_log()
        self._process = process = await self._spawn(self.command, log.pipe)
        log.pipe.close()
        self._state = PluginState.RUNNING
        self._trace.append(PluginStarted(self.command.name, self.command.node, self.starts))
        if self.command.takes_commands:
            on_report = self._ignored if self.command.is_tapped else self.reported
            self._control = StubControl(self.command.name, process, on_report)
        self._down.clear()
        self._up.set()
        try:
            if self._control is not None:
                await self._control.listen()
            status = await process.wait()
            await process.kill_all()
            await log.close()
            self._exit_status = status
            self._trace.append(PluginExited(self.command.name, self.command.node, status, self._exit_message()))
        finally:
            if self.command.is_foreign or (self.is_wanted and not self.command.takes_commands):
                self._rests_until = time.monotonic() + _REST_S
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

    async def _end(self, grace_s: float = TERMINATION_GRACE_S) -> None:
        """Ask the plugin to end where there is a grace, then make it."""
        process, self._process = self._process, None
        if process is None:
            self._exit_s = 0.0
        else:
            await self._end_process(process, grace_s)
        if self._log is not None:
            await self._log.close()

    async def _end_process(self, process: Child, grace_s: float) -> None:
        began_s = time.monotonic()
        if grace_s:
            await process.terminate_all()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await process.wait()
            self._exit_s = time.monotonic() - began_s
        process.kill()
        await process.kill_all()
        await process.wait()
        self._state = PluginState.EXITED

    def _exit_message(self) -> str:
        """Return why the latest process ended, by its log."""
        log = self._log
        return "" if log is None else exit_message(log.path, log.begin, is_rotated=log.is_rotated)

    def _never_registered(self, status: int) -> str:
        said = self._exit_message()
        words = f'its log says: "{said}"' if said else "its log is empty"
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"plugin '{self.command.name}' {ended} before it registered with the kubelet; {words}"
