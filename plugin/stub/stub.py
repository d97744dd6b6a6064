"""The stub at work: at most one server, on one socket, and as many registrations as its commands ask for.

What it answers is in `service`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.served_call import Method, UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.apis.inotify import Mask, PathWatch
from simkubelet.apis.pluginregistration import (
    DEVICE_PLUGIN_TYPE,
    PLUGINS_REGISTRY,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

from ..errors import HostError
from ..framework import DeviceList, Health
from ..framework.client import REGISTRATION, RegistrationError, is_listening, send
from ..framework.server import own_socket_name, plugin_socket
from ..framework.socket_watch import SocketWatch
from .behaviour import Behaviour, Looks, OnLostStream, Registers, Rpc
from .service import StubService

__all__ = ["CRASHED", "Registration", "Reports", "Stub"]

_log = logging.getLogger(__name__)

CRASHED: Final = 2
"""The exit status of a Go program that panics."""

_TURNS_OF_A_LOST_STREAM: Final = 16
"""Turns of the event loop from the end of a connection to that of its stream, with room."""

_PAUSE_S: Final = 1.0
"""Between a refusal and the next try."""

_AT_ITS_START: Final = (Registers.ALWAYS, Registers.ONCE, Registers.UNTIL_CONNECTED)


_FILES: Final = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.ONLYDIR


def _listed(behaviour: Behaviour, devices: DeviceList) -> DeviceList:
    """What a stub with these devices lists now."""
    missing = {device_id for device_id, file in behaviour.files.items() if not file.exists()}
    if behaviour.looks is Looks.AT_START:
        return tuple(device for device in devices if device.device_id not in missing)
    return tuple(
        device._replace(health=Health.UNHEALTHY) if device.device_id in missing else device for device in devices
    )


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("", port))
    except OSError as error:
        reason = f"cannot listen on TCP port {port}: {os.strerror(error.errno or 0)}"
        raise HostError(f"{reason}; end what has it, or name another") from error


@dataclass(frozen=True, slots=True)
class Registration:
    """The arguments of a Register call."""

    resource: str
    endpoint: str
    version: str = api.VERSION
    service: str = REGISTRATION


class Reports(Protocol):
    """Gets what the stub sees; called in the event loop."""

    def called(self, rpc: Rpc, device_ids: Sequence[str]) -> None:
        """The kubelet made a call."""

    def registered(self, registration: Registration, error: str) -> None:
        """A Register call was answered; `error` is empty where it was accepted."""


class _Cause(Enum):
    """Why the stub does something without a command."""

    NEW_KUBELET = auto()
    LOST_STREAM = auto()
    NO_STREAM = auto()
    REFUSED = auto()


class Stub:
    """A device plugin that serves and registers; `run` makes it follow its behaviour.

    Args:
        behaviour: What it serves and does.
        kubelet_dir: The kubelet's folder of sockets.
        reports: Gets what it sees.
        crash: Ends the process, with status `CRASHED`; by `os._exit` where it is None.

    Raises:
        UsageError: the socket's path is too long.
    """

    def __init__(
        self,
        behaviour: Behaviour,
        kubelet_dir: Path,
        reports: Reports,
        crash: Callable[[], None] | None = None,
    ) -> None:
        self.behaviour = behaviour
        self._kubelet_socket = plugin_socket(kubelet_dir, api.KUBELET_SOCKET_NAME)
        self._folder = kubelet_dir.parent / PLUGINS_REGISTRY if behaviour.registers.is_found else kubelet_dir
        self._socket = self._named_now()
        self._reports = reports
        self._others = [
            Stub(
                replace(behaviour, resource_name=name, socket_name=own_socket_name(name), devices=(), empties=()),
                kubelet_dir,
                reports,
                crash,
            )
            for name in behaviour.empties
        ]
        self._causes: asyncio.Queue[_Cause] = asyncio.Queue()
        self._service = StubService(
            behaviour,
            reports.called,
            partial(self._causes.put_nowait, _Cause.LOST_STREAM),
            partial(self._causes.put_nowait, _Cause.NO_STREAM),
            crash or partial(os._exit, CRASHED),
        )
        self._server: GrpcServer | None = None
        self._is_accepted = False
        """Whether the latest registration of its own was."""

    async def run(self) -> None:
        """Serve, register and do again what the behaviour says, until cancelled or until a lost stream ends it.

        Raises:
            HostError: its socket or its port cannot be had.
        """
        if self.behaviour.failure is not None:
            _log.error("%s", self.behaviour.failure)
            _log.info("Shutting down.")
            return
        with ExitStack() as held:
            if self.behaviour.port is not None:
                held.enter_context(_listening(self.behaviour.port))
            await self._work()

    async def _work(self) -> None:
        devices = self.behaviour.devices
        with SocketWatch(self.behaviour.watched_folder or self._kubelet_socket.parent) as watch:
            self.behaviour.devices = _listed(self.behaviour, devices)
            await self.start_server()
            if self.behaviour.registers in _AT_ITS_START:
                await self._register_by_itself()
            tasks = [asyncio.create_task(self._act()), asyncio.create_task(self._follow_kubelets(watch))]
            tasks += [asyncio.create_task(other.run()) for other in self._others]
            if self.behaviour.files and self.behaviour.looks is Looks.ALWAYS:
                tasks.append(asyncio.create_task(self._follow_files(devices)))
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for other in self._others:
                    await other.stop_server()
            for task in done:
                task.result()

    async def _follow_kubelets(self, watch: SocketWatch) -> None:
        async with aclosing(watch.created()) as kubelets:
            async for _ in kubelets:
                # The last kubelet's streams ended before this; a busy stub sees both in one turn of its event loop.
                for _ in range(_TURNS_OF_A_LOST_STREAM):
                    await asyncio.sleep(0)
                self._causes.put_nowait(_Cause.NEW_KUBELET)

    async def _follow_files(self, devices: DeviceList) -> None:
        """Send a list whenever a file of a device comes or goes."""

        def send_changes() -> None:
            if (listed := _listed(self.behaviour, devices)) != self.behaviour.devices:
                self.send_list(listed)

        with PathWatch() as watch:
            for folder in {file.parent for file in self.behaviour.files.values()}:
                with suppress(FileNotFoundError, NotADirectoryError):
                    watch.add(folder, _FILES)
            send_changes()
            async for _ in watch:
                send_changes()

    async def _act(self) -> None:
        """Act on each cause, one after the other; return when a lost stream is to end the process."""
        while True:
            cause = await self._causes.get()
            if self._registers_for(cause):
                # A new kubelet has removed the socket, and a stream that has ended opens only with another server.
                await self.stop_server()
                await (self.start_server() if self.behaviour.registers.is_found else self._register_by_itself())
            elif cause is _Cause.LOST_STREAM and self.behaviour.on_lost_stream is OnLostStream.EXIT:
                return
            elif cause is _Cause.LOST_STREAM and self.behaviour.on_lost_stream is OnLostStream.HANG:
                await asyncio.Event().wait()

    def _registers_for(self, cause: _Cause) -> bool:
        """Whether it registers again; what has happened since the cause may have made that needless."""
        if cause is _Cause.NEW_KUBELET:
            return self.behaviour.registers in (Registers.ALWAYS, Registers.UNTIL_CONNECTED)
        if self.behaviour.registers is Registers.FOUND_AGAIN:
            return cause is _Cause.REFUSED and not self._is_accepted
        if self.behaviour.registers is not Registers.UNTIL_CONNECTED or cause is _Cause.LOST_STREAM:
            return False
        is_needed = not self._is_accepted if cause is _Cause.REFUSED else self._server is not None
        return is_needed and is_listening(self._kubelet_socket)

    async def _register_by_itself(self) -> None:
        """Register, and see to it that a refusal is not the end where the behaviour says so."""
        self._answered(is_accepted=await self.register())

    def _answered(self, *, is_accepted: bool) -> None:
        self._is_accepted = is_accepted
        if not is_accepted and self.behaviour.registers in (Registers.UNTIL_CONNECTED, Registers.FOUND_AGAIN):
            asyncio.get_running_loop().call_later(_PAUSE_S, self._causes.put_nowait, _Cause.REFUSED)

    async def start_server(self) -> None:
        """Serve on the socket, in the place of whatever has its name; nothing happens where the stub serves already.

        A socket that a new kubelet has removed is made again, with another server.

        Raises:
            HostError: the socket cannot be made.
        """
        if self._server is not None and self._socket.exists():
            return
        await self.stop_server()
        self._socket = self._named_now()
        server = GrpcServer({**self._service.methods(), **self._methods_for_a_kubelet_that_finds_it()})
        try:
            self._socket.unlink(missing_ok=True)
            server.listen(self._socket)
        except OSError as error:
            reason = error.strerror
            raise HostError(f"cannot make the socket {self._socket}: {reason}; check its permissions") from error
        self._server = server

    def _named_now(self) -> Path:
        """The path of a socket that is made now."""
        return plugin_socket(self._folder, self.behaviour.socket_name.replace("{second}", f"{time.time():.0f}"))

    @property
    def _endpoint(self) -> str:
        """What the kubelet is told of the socket."""
        return str(self._socket) if self.behaviour.names_whole_path else self._socket.name

    async def stop_server(self) -> None:
        """Stop serving: streams break off, the socket goes; may be called in any state."""
        if self._server is not None:
            await self.abandon_server()
            if self._socket.is_socket():
                self._socket.unlink()

    async def abandon_server(self) -> None:
        """Stop serving as a process does that is killed: streams break off, the socket stays; in any state, too."""
        server, self._server = self._server, None
        if server is not None:
            self._service.end_server()
            await server.stop()

    async def register(
        self,
        resource: str | None = None,
        endpoint: str | None = None,
        version: str = api.VERSION,
        service: str = REGISTRATION,
        times: int = 1,
    ) -> bool:
        """Call Register, by default with the stub's own resource and socket; serve first.

        Returns:
            Whether the last call was accepted.
        """
        await self.start_server()
        registration = Registration(
            resource or self.behaviour.resource_name, endpoint or self._endpoint, version, service
        )
        request = api.RegisterRequest(
            version=registration.version,
            endpoint=registration.endpoint,
            resource_name=registration.resource,
            options=self.behaviour.options.to_message(),
        )
        error = ""
        for _ in range(times):
            try:
                await send(request, self._kubelet_socket, service)
            except RegistrationError as refusal:
                error = str(refusal)
            else:
                error = ""
            self._reports.registered(registration, error)
        return not error

    def send_list(self, devices: DeviceList) -> None:
        """Send a list on every open stream."""
        self._service.send_list(devices)

    def end_streams(self) -> None:
        """End every ListAndWatch stream and go on serving."""
        self._service.end_streams()

    def _methods_for_a_kubelet_that_finds_it(self) -> Mapping[str, Method]:
        """What the kubelet calls at a socket in ``plugins_registry``.

        Source: k8s.io/kubelet v0.34.4, pkg/apis/pluginregistration/v1/api.proto.
        """
        if not self.behaviour.registers.is_found:
            return {}
        return {
            "/pluginregistration.Registration/GetInfo": UnaryMethod(InfoRequest.FromString, self._info),
            "/pluginregistration.Registration/NotifyRegistrationStatus": UnaryMethod(
                RegistrationStatus.FromString, self._found
            ),
        }

    async def _info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(
            type=DEVICE_PLUGIN_TYPE,
            name=self.behaviour.resource_name,
            endpoint=self._endpoint if self.behaviour.names_whole_path else "",
            supported_versions=[api.VERSION],
        )

    async def _found(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        registration = Registration(self.behaviour.resource_name, self._endpoint)
        self._reports.registered(registration, "" if request.plugin_registered else request.error)
        self._answered(is_accepted=request.plugin_registered)
        return RegistrationStatusResponse()
