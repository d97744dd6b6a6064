"""From start to exit: serve, register, wait for a reason to do it again or to stop.

::

    build ─▶ serve each ─▶ register each ─▶ wait ─┬─ kubelet.sock created ─▶ again, or exit (`RestartPolicy`)
      ▲                        │ refused          ├─ SIGHUP ─▶ again
      └────────────────────────┴── after 30 s ◀───┤
                                                  └─ SIGINT, SIGTERM, SIGQUIT ─▶ clean stop

Every start is a new life: the plugins are built anew, so that discovery and health begin from scratch.

Source: cmd/nvidia-device-plugin/main.go, ``start`` (k8s-device-plugin v0.19.0), for the restarting kind.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeAlias

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME

from ..errors import FatalError, HostError, UsageError
from .device_plugin import DevicePlugin
from .kubelet_watch import KubeletWatch
from .plugin_server import plugin_socket, serving
from .registration import RegistrationError, register

__all__ = ["RestartPolicy", "run_plugins"]

_log = logging.getLogger(__name__)

_RETRY_DELAY_S: Final = 30.0
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)

Build: TypeAlias = Callable[[], Sequence[DevicePlugin]]


class RestartPolicy(Enum):
    """What a plugin does about a kubelet that is new, or absent at its start."""

    IN_PROCESS = auto()
    """Start again in the same process; try again after 30 s when registering fails."""
    EXIT = auto()
    """Exit, with status 0 for a new kubelet and 1 for an absent one, and leave the restart to the supervisor."""


class _Cause(Enum):
    """Why a life ends."""

    KUBELET_CREATED = auto()
    HANGUP = auto()
    RETRY = auto()


async def run_plugins(build: Build, kubelet_dir: Path, policy: RestartPolicy) -> None:
    """Serve the plugins that `build` returns until a signal or the policy says stop; then leave no socket behind.

    `build` is called for every life and may return nothing: then the next life is waited for.

    Raises:
        UsageError: the folder is missing or its path too long.
        FatalError: registering failed under `RestartPolicy.EXIT`.
        HostError: the folder cannot be used.
    """
    plugin_socket(kubelet_dir, KUBELET_SOCKET_NAME)
    stop = asyncio.Event()
    causes: asyncio.Queue[_Cause] = asyncio.Queue()
    with _watch(kubelet_dir) as watch, _signals(stop, causes, policy):
        lives = asyncio.create_task(_Lives(build, kubelet_dir, policy, causes).run())
        watching = asyncio.create_task(_report(watch, causes))
        stopping = asyncio.create_task(stop.wait())
        tasks = (lives, watching, stopping)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for task in (lives, watching):
            if task in done:
                task.result()


class _Lives:
    """One life after the other; cancelled from outside to stop."""

    def __init__(self, build: Build, kubelet_dir: Path, policy: RestartPolicy, causes: asyncio.Queue[_Cause]) -> None:
        self._build = build
        self._kubelet_dir = kubelet_dir
        self._kubelet_socket = kubelet_dir / KUBELET_SOCKET_NAME
        self._policy = policy
        self._causes = causes
        self._retry: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Live until the policy says exit."""
        while True:
            cause = await self._live_until_cause()
            if cause is _Cause.KUBELET_CREATED and self._policy is RestartPolicy.EXIT:
                _log.info("%s created, exiting so that the supervisor starts the plugin again.", self._kubelet_socket)
                return
            _log.info("%s, restarting.", _REASONS[cause].format(socket=self._kubelet_socket))

    async def _live_until_cause(self) -> _Cause:
        """One life. A cause ends it also while it still starts: a new kubelet has removed the sockets it found."""
        life = asyncio.create_task(self._live())
        cause = asyncio.create_task(self._causes.get())
        try:
            await asyncio.wait([life, cause], return_when=asyncio.FIRST_COMPLETED)
        finally:
            life.cancel()
            cause.cancel()
            await asyncio.wait([life, cause])
        if not life.cancelled():
            life.result()
        return cause.result()

    async def _live(self) -> None:
        """Serve and register all plugins, then go on until cancelled; an error of a device source is raised."""
        async with AsyncExitStack() as stack:
            sources = await self._start(stack)
            await asyncio.gather(*sources)
            await asyncio.Event().wait()

    async def _start(self, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
        """Serve and register all plugins; on a failure those already registered keep serving.

        Returns:
            The tasks that follow the device sources.
        """
        plugins = self._build()
        sources: list[asyncio.Task[None]] = []
        for plugin in plugins:
            try:
                sources.append(await self._start_one(plugin, stack))
            except RegistrationError as error:
                self._registration_failed(error)
                break
            _log.info("Registered device plugin for '%s' with Kubelet", plugin.resource_name)
        if not plugins:
            _log.info("No devices found. Waiting indefinitely.")
        return sources

    async def _start_one(self, plugin: DevicePlugin, stack: AsyncExitStack) -> asyncio.Task[None]:
        """Serve and register one plugin, which `stack` then ends; one that cannot register leaves no socket behind.

        Source: internal/plugin/server.go, ``Start`` (k8s-device-plugin v0.19.0).
        """
        async with AsyncExitStack() as own:
            source = await own.enter_async_context(serving(plugin, self._kubelet_dir))
            await register(plugin, self._kubelet_socket)
            stack.push_async_exit(own.pop_all())
        return source

    def _registration_failed(self, error: RegistrationError) -> None:
        if self._policy is RestartPolicy.EXIT:
            raise FatalError(f"register to kubelet failed: {error}")
        _log.error("Failed to start plugin: %s", error)
        _log.info("Failed to start one or more plugins. Retrying in 30s...")
        # As in the original, an earlier start for another cause leaves the timer running.
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(_RETRY_DELAY_S, self._causes.put_nowait, _Cause.RETRY)


_REASONS: Final = {
    _Cause.KUBELET_CREATED: "inotify: {socket} created",
    _Cause.HANGUP: "Received SIGHUP",
    _Cause.RETRY: "Retrying",
}


@contextmanager
def _watch(kubelet_dir: Path) -> Iterator[KubeletWatch]:
    try:
        watch = KubeletWatch(kubelet_dir)
    except FileNotFoundError:
        raise UsageError(f"--kubelet-dir: no folder {kubelet_dir}; name the kubelet's folder of sockets") from None
    except NotADirectoryError:
        raise UsageError(f"--kubelet-dir: {kubelet_dir} is no folder; name the kubelet's folder of sockets") from None
    except OSError as error:
        raise HostError(f"cannot watch the folder {kubelet_dir}: {error.strerror}; check its permissions") from error
    with watch:
        yield watch


async def _report(watch: KubeletWatch, causes: asyncio.Queue[_Cause]) -> None:
    async with aclosing(watch.created()) as created:
        async for _ in created:
            causes.put_nowait(_Cause.KUBELET_CREATED)


@contextmanager
def _signals(stop: asyncio.Event, causes: asyncio.Queue[_Cause], policy: RestartPolicy) -> Iterator[None]:
    """Catch the signals; a hang-up restarts a plugin that can and stops one that leaves restarts to its supervisor."""
    loop = asyncio.get_running_loop()

    def shut_down(number: signal.Signals) -> None:
        _log.info('Received signal "%s", shutting down.', number.name)
        stop.set()

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, shut_down, number)
    if policy is RestartPolicy.IN_PROCESS:
        loop.add_signal_handler(signal.SIGHUP, causes.put_nowait, _Cause.HANGUP)
    else:
        loop.add_signal_handler(signal.SIGHUP, shut_down, signal.SIGHUP)
    try:
        yield
    finally:
        for number in (*_STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)
