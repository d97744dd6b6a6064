"""From start to exit: serve, register, wait for a reason to do it again or to stop.

::

    build ─▶ serve each ─▶ register each ─▶ wait ─┬─ kubelet.sock created ─▶ again, exit or nothing
      ▲                        │ refused          ├─ the kubelet's stream lost ─▶ again
      │                        │                  ├─ SIGHUP ─▶ again
      └────────────────────────┴── after 5 s ◀────┤
                                                  └─ SIGINT, SIGTERM, SIGQUIT ─▶ clean stop

Every start builds the plugins again, so that discovery and health begin from scratch. The picture shows the default
rules; each plugin has its own, a `RestartPolicy`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME

from ..errors import FatalError, HostError, UsageError
from .client import RegistrationError, is_listening, register
from .device_plugin import DevicePlugin, StartError, check_methods
from .restart_policy import OnKubelet, OnSignal, RestartPolicy, caught
from .server import own_socket_name, plugin_socket, serving
from .socket_watch import SocketChange, SocketWatch

__all__ = ["run_plugins"]

_log = logging.getLogger(__name__)

Build: TypeAlias = Callable[[], Sequence[DevicePlugin]]


class _Cause(Enum):
    """Why plugins stop serving, with what is logged."""

    NEW_KUBELET = "inotify: {socket} created, restarting."
    KUBELET_GONE = "inotify: {socket} removed, stopping until there is another."
    SOCKET_GONE = "A socket of this plugin was removed, restarting."
    STREAM_LOST = "The kubelet has ended ListAndWatch and opens no other, restarting."
    SIGNAL = "Received SIGHUP, restarting."
    RETRY = "Retrying, restarting."


_SUPERSEDED: Final = (_Cause.SOCKET_GONE, _Cause.STREAM_LOST)
"""What a kubelet that restarts brings about, too: a cause that comes with it is the one."""


async def run_plugins(
    build: Build, kubelet_dir: Path, policy: RestartPolicy, *, kubelet_socket: str | None = None
) -> int:
    """Serve plugins until a signal or the policy says stop; then leave no socket behind.

    Args:
        build: Makes the plugins, again for every start; where it makes none, the next cause of a start is waited for.
        kubelet_dir: Where the plugins' sockets are made.
        policy: When the plugins stop serving, and what follows.
        kubelet_socket: Where the kubelet listens, if not as ``kubelet.sock`` in that folder; with an empty text nothing
            is registered.

    Returns:
        The exit status.

    Raises:
        UsageError: the folder is missing or its path too long, or a plugin has a method that looks like a hook.
        FatalError: registering failed as often as the policy allows.
        HostError: the folder cannot be used.
    """
    plugin_socket(kubelet_dir, KUBELET_SOCKET_NAME)
    kubelet = kubelet_dir / KUBELET_SOCKET_NAME if kubelet_socket is None else Path(kubelet_socket)
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    supervisor = _Supervisor(build, kubelet_dir, kubelet if kubelet_socket != "" else None, policy)

    def act(number: signal.Signals, action: OnSignal) -> None:
        if action is OnSignal.RESTART:
            supervisor.end(_Cause.SIGNAL)
        elif action is OnSignal.STOP and not stopped.done():
            _log.info('Received signal "%s", shutting down.', number.name)
            if policy.keeps_sockets:
                # An end that cleans up would take the files along.
                os._exit(policy.stop_status)
            stopped.set_result(policy.stop_status)

    with _watch(kubelet) as watch, caught(policy.signals, act):
        running = asyncio.create_task(supervisor.run())
        watching = asyncio.create_task(_report(watch, supervisor))
        tasks = (running, watching)
        try:
            await asyncio.wait((*tasks, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = [task for task in tasks if task.done()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in ended:
            task.result()
        return stopped.result() if stopped.done() else 0


class _Supervisor:
    """Starts the plugins again and again; cancelled from outside to stop."""

    def __init__(self, build: Build, kubelet_dir: Path, kubelet_socket: Path | None, policy: RestartPolicy) -> None:
        self._build = build
        self._kubelet_dir = kubelet_dir
        self._kubelet_socket = kubelet_socket
        self._policy = policy
        self._causes: asyncio.Queue[_Cause] = asyncio.Queue()
        self._serving: set[str] = set()
        self._attempts = 0
        self._fatal: FatalError | None = None
        self._retry: asyncio.TimerHandle | None = None

    def end(self, cause: _Cause) -> None:
        """End what runs now, then what is started after it, once for each call."""
        self._causes.put_nowait(cause)

    def socket_changed(self, change: SocketChange) -> None:
        """End what runs where the policy says so about a change in the folder of the kubelet's socket."""
        kubelet = self._kubelet_socket
        if kubelet is None:
            return
        policy = self._policy
        if change.name == kubelet.name:
            if change.is_there and policy.on_kubelet is not OnKubelet.NOTHING:
                self.end(_Cause.NEW_KUBELET)
            elif not change.is_there and policy.stops_without_kubelet:
                self.end(_Cause.KUBELET_GONE)
        elif policy.restarts_without_socket and self._has_lost(change.name) and is_listening(kubelet):
            # Where no kubelet listens, one is starting that removes what the last one left: its socket comes next.
            self.end(_Cause.SOCKET_GONE)

    def _stream_lost(self) -> None:
        """Start again where the policy says so; without a kubelet that listens the next one is waited for."""
        kubelet = self._kubelet_socket
        if self._policy.restarts_without_stream and kubelet is not None and is_listening(kubelet):
            self.end(_Cause.STREAM_LOST)

    def _has_lost(self, socket_name: str) -> bool:
        return socket_name in self._serving and not (self._kubelet_dir / socket_name).exists()

    async def run(self) -> None:
        """Start and wait for a cause to start again, until the policy says exit."""
        while True:
            cause = await self._run_until_cause()
            while cause is _Cause.KUBELET_GONE or (cause in _SUPERSEDED and not self._causes.empty()):
                _log.info(cause.value.format(socket=self._kubelet_socket))
                cause = await self._causes.get()
            if cause is not _Cause.RETRY:
                self._attempts = 0
            if cause is _Cause.NEW_KUBELET and self._policy.on_kubelet is OnKubelet.EXIT:
                _log.info("%s created, exiting so that the supervisor starts the plugin again.", self._kubelet_socket)
                return
            _log.info(cause.value.format(socket=self._kubelet_socket))

    async def _run_until_cause(self) -> _Cause:
        """Run the plugins until a cause ends them, also while they start: a new kubelet has removed the sockets."""
        serving_all = asyncio.create_task(self._serve())
        cause = asyncio.create_task(self._causes.get())
        try:
            await asyncio.wait([serving_all, cause], return_when=asyncio.FIRST_COMPLETED)
        finally:
            serving_all.cancel()
            cause.cancel()
            await asyncio.wait([serving_all, cause])
        if self._fatal is not None:
            # Also where a cause came before the plugins had ended.
            raise self._fatal
        if not serving_all.cancelled():
            serving_all.result()
        return cause.result()

    async def _serve(self) -> None:
        """Serve and register all plugins, then go on until cancelled; an error of a device source is raised."""
        async with AsyncExitStack() as stack:
            stack.callback(self._serving.clear)
            sources = await self._start(stack)
            await asyncio.gather(*sources)
            await asyncio.Event().wait()

    async def _start(self, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
        """Serve and register all plugins; on a failure those already registered keep serving.

        Returns:
            The tasks that follow the device sources.
        """
        plugins = self._build()
        for plugin in plugins:
            check_methods(plugin)
        sources: list[asyncio.Task[None]] = []
        for plugin in plugins:
            try:
                sources.append(await self._start_one(plugin, stack))
            except StartError:
                break
        else:
            self._attempts = 0
        if not plugins:
            _log.info("No devices found. Waiting indefinitely.")
        return sources

    async def _start_one(self, plugin: DevicePlugin, stack: AsyncExitStack) -> asyncio.Task[None]:
        """Serve and register one plugin, which `stack` then ends; one that cannot register leaves no socket behind.

        Source: internal/plugin/server.go, ``Start`` (k8s-device-plugin v0.19.0).
        """
        plugin.socket_name = plugin.socket_name or own_socket_name(plugin.resource_name)
        async with AsyncExitStack() as own:
            try:
                await own.enter_async_context(plugin.lifespan())
                source = await own.enter_async_context(serving(plugin, self._kubelet_dir, self._stream_lost))
                self._serving.add(plugin.socket_name)
                own.callback(self._serving.discard, plugin.socket_name)
                await self._register(plugin)
            except StartError as error:
                self._start_failed(error)
                raise
            stack.push_async_exit(own.pop_all())
        return source

    async def _register(self, plugin: DevicePlugin) -> None:
        if self._kubelet_socket is None:
            _log.info("Skipping registration with Kubelet")
            return
        await register(plugin, self._kubelet_socket)
        _log.info("Registered device plugin for '%s' with Kubelet", plugin.resource_name)

    def _start_failed(self, error: StartError) -> None:
        self._attempts += 1
        is_spent = self._policy.attempts is not None and self._attempts >= self._policy.attempts
        if is_spent and self._policy.exits_when_spent:
            prefix = "register to kubelet failed: " if isinstance(error, RegistrationError) else ""
            self._fatal = FatalError(f"{prefix}{error}", self._policy.failed_status)
            raise self._fatal
        _log.error("Failed to start plugin: %s", error)
        if is_spent:
            _log.info("Failed to start one or more plugins. Waiting for the next kubelet.")
            return
        _log.info("Failed to start one or more plugins. Retrying in %gs...", self._policy.retry_s)
        # As in the original, an earlier start for another cause leaves the timer running.
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(self._policy.retry_s, self.end, _Cause.RETRY)


@contextmanager
def _watch(kubelet_socket: Path) -> Iterator[SocketWatch]:
    folder = kubelet_socket.parent
    try:
        watch = SocketWatch(folder, kubelet_socket.name)
    except FileNotFoundError:
        raise UsageError(
            f"cannot watch {folder}: no such file or directory; name the kubelet's folder of sockets with "
            "--kubelet-dir, or mount it there in a pod"
        ) from None
    except NotADirectoryError:
        raise UsageError(f"--kubelet-dir: {folder} is no folder; name the kubelet's folder of sockets") from None
    except OSError as error:
        raise HostError(f"cannot watch the folder {folder}: {error.strerror}; check its permissions") from error
    with watch:
        yield watch


async def _report(watch: SocketWatch, supervisor: _Supervisor) -> None:
    async with aclosing(watch.changes()) as changes:
        async for change in changes:
            supervisor.socket_changed(change)
