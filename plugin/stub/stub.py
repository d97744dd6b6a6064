"""The stub at work: at most one server, on one socket, and as many registrations as its commands ask for.

It has a DevicePlugin service of its own: the framework's is too well-behaved to hang, to lie or to fall silent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, Method, UnaryMethod
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
from ..framework.client import REGISTRATION, RegistrationError, send
from ..framework.server import methods_of, plugin_socket
from ..framework.socket_watch import SocketWatch
from .behaviour import Answer, Behaviour, Looks, OnLostStream, Registers, Rpc

__all__ = ["CRASHED", "Registration", "Reports", "Stub"]

_ENVIRONMENT_VARIABLE = "STUB_DEVICES"
"""Set in a container to the ids that it was given, joined by commas."""

CRASHED: Final = 2
"""The exit status of a Go program that panics."""

_TURNS_OF_A_LOST_STREAM: Final = 16
"""Turns of the event loop from the end of a connection to that of its stream, with room."""

_OnCall = Callable[[Rpc, Sequence[str]], None]
"""Called with each call as it arrives, and the device ids that it names."""


class _Service:
    """Answers as its `Behaviour` says, for one server of the stub after the other."""

    def __init__(
        self, behaviour: Behaviour, on_call: _OnCall, on_lost_stream: Callable[[], None], crash: Callable[[], None]
    ) -> None:
        self._behaviour = behaviour
        self._on_call = on_call
        self._on_lost_stream = on_lost_stream
        self._crash = crash
        self._streams = 0
        self._servers = 0
        self._changed = asyncio.Event()

    def methods(self) -> Mapping[str, Method]:
        """What is served, by path."""
        return methods_of(self._options, self._lists, self._allocate, self._preferred, self._pre_start)

    def send_list(self, devices: DeviceList) -> None:
        """Send a list on every open stream; later streams begin with it."""
        self._behaviour.devices = devices
        self._wake_streams()

    def end_streams(self) -> None:
        """End every open ListAndWatch stream; the server continues to serve."""
        self._streams += 1
        self._wake_streams()

    def end_server(self) -> None:
        """End every stream because its server stops, so that none of them is lost."""
        self._servers += 1
        self.end_streams()

    async def _options(self, request: api.Empty) -> api.DevicePluginOptions:
        """The options that the stub was started with."""
        answer = await self._begin(Rpc.OPTIONS, ())
        return api.DevicePluginOptions() if answer.is_empty else self._behaviour.options.to_message()

    async def _lists(self, request: api.Empty) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """The list, then each newer one, until `end_streams`."""
        opened_with = self._servers
        try:
            answer = await self._begin(Rpc.LIST, ())
            opened_in = self._streams
            while opened_in == self._streams and not answer.is_empty:
                changed = self._changed
                yield api.ListAndWatchResponse(devices=[device.to_message() for device in self._behaviour.devices])
                await changed.wait()
        finally:
            if opened_with == self._servers:
                self._on_lost_stream()

    async def _allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:
        """One answer for each container: its ids in `_ENVIRONMENT_VARIABLE`."""
        asked = [list(container.devices_ids) for container in request.container_requests]
        answer = await self._begin(Rpc.ALLOCATE, [device_id for ids in asked for device_id in ids])
        response = api.AllocateResponse()
        for device_ids in [] if answer.is_empty else asked:
            response.container_responses.add(envs={_ENVIRONMENT_VARIABLE: ",".join(device_ids)})
        return response

    async def _preferred(self, request: api.PreferredAllocationRequest) -> api.PreferredAllocationResponse:
        """For each container what it must have, then the first ids by name."""
        offered = [device_id for asked in request.container_requests for device_id in asked.available_deviceIDs]
        answer = await self._begin(Rpc.PREFERRED, offered)
        response = api.PreferredAllocationResponse()
        for asked in [] if answer.is_empty else request.container_requests:
            required = list(asked.must_include_deviceIDs)
            free = sorted(set(asked.available_deviceIDs) - set(required))
            response.container_responses.add(deviceIDs=[*required, *free][: asked.allocation_size])
        return response

    async def _pre_start(self, request: api.PreStartContainerRequest) -> api.PreStartContainerResponse:
        """Nothing to prepare."""
        await self._begin(Rpc.PRE_START, list(request.devices_ids))
        return api.PreStartContainerResponse()

    async def _begin(self, rpc: Rpc, device_ids: Sequence[str]) -> Answer:
        """Do what was ordered for a call before its answer."""
        answer = self._behaviour.next_answer(rpc)
        self._on_call(rpc, device_ids)
        if answer.devices is not None:
            self.send_list(answer.devices)
        await asyncio.sleep(answer.after_s)
        if answer.is_crash:
            self._crash()
        if answer.is_crash or answer.is_never:
            await asyncio.Event().wait()
        if answer.error is not None:
            raise CallError(Code.UNKNOWN, answer.error)
        return answer

    def _wake_streams(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


_FILES: Final = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.ONLYDIR


def _listed(behaviour: Behaviour, devices: DeviceList) -> DeviceList:
    """What a stub with these devices lists now."""
    missing = {device_id for device_id, file in behaviour.files.items() if not file.exists()}
    if behaviour.looks is Looks.AT_START:
        return tuple(device for device in devices if device.device_id not in missing)
    return tuple(
        device._replace(health=Health.UNHEALTHY) if device.device_id in missing else device for device in devices
    )


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
        is_found = behaviour.registers is Registers.FOUND
        self._socket = plugin_socket(
            kubelet_dir.parent / PLUGINS_REGISTRY if is_found else kubelet_dir, behaviour.socket_name
        )
        self._reports = reports
        self._causes: asyncio.Queue[_Cause] = asyncio.Queue()
        lost_stream = partial(self._causes.put_nowait, _Cause.LOST_STREAM)
        self._service = _Service(behaviour, reports.called, lost_stream, crash or partial(os._exit, CRASHED))
        self._server: GrpcServer | None = None

    async def run(self) -> None:
        """Serve, register and do again what the behaviour says, until cancelled or until a lost stream ends it."""
        devices = self.behaviour.devices
        with SocketWatch(self.behaviour.watched_folder or self._kubelet_socket.parent) as watch:
            self.behaviour.devices = _listed(self.behaviour, devices)
            await self.start_server()
            if self.behaviour.registers in (Registers.ALWAYS, Registers.ONCE):
                await self.register()
            tasks = [asyncio.create_task(self._act()), asyncio.create_task(self._follow_kubelets(watch))]
            if self.behaviour.files and self.behaviour.looks is Looks.ALWAYS:
                tasks.append(asyncio.create_task(self._follow_files(devices)))
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
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
            if cause is _Cause.NEW_KUBELET and self.behaviour.registers is Registers.ALWAYS:
                # The new kubelet has removed the socket.
                await self.stop_server()
                await self.register()
            elif cause is _Cause.LOST_STREAM and self.behaviour.on_lost_stream is OnLostStream.EXIT:
                return
            elif cause is _Cause.LOST_STREAM and self.behaviour.on_lost_stream is OnLostStream.HANG:
                await asyncio.Event().wait()

    async def start_server(self) -> None:
        """Serve on the socket, in the place of whatever has its name; nothing happens where the stub serves already.

        A socket that a new kubelet has removed is made again, with another server.

        Raises:
            HostError: the socket cannot be made.
        """
        if self._server is not None and self._socket.exists():
            return
        await self.stop_server()
        server = GrpcServer({**self._service.methods(), **self._methods_for_a_kubelet_that_finds_it()})
        try:
            self._socket.unlink(missing_ok=True)
            server.listen(self._socket)
        except OSError as error:
            reason = error.strerror
            raise HostError(f"cannot make the socket {self._socket}: {reason}; check its permissions") from error
        self._server = server

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
    ) -> None:
        """Call Register, by default with the stub's own resource and socket; serve first."""
        await self.start_server()
        registration = Registration(
            resource or self.behaviour.resource_name, endpoint or self.behaviour.socket_name, version, service
        )
        request = api.RegisterRequest(
            version=registration.version, endpoint=registration.endpoint, resource_name=registration.resource
        )
        for _ in range(times):
            try:
                await send(request, self._kubelet_socket, service)
            except RegistrationError as error:
                self._reports.registered(registration, str(error))
            else:
                self._reports.registered(registration, "")

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
        if self.behaviour.registers is not Registers.FOUND:
            return {}
        return {
            "/pluginregistration.Registration/GetInfo": UnaryMethod(InfoRequest.FromString, self._info),
            "/pluginregistration.Registration/NotifyRegistrationStatus": UnaryMethod(
                RegistrationStatus.FromString, self._found
            ),
        }

    async def _info(self, request: InfoRequest) -> PluginInfo:
        return PluginInfo(type=DEVICE_PLUGIN_TYPE, name=self.behaviour.resource_name, supported_versions=[api.VERSION])

    async def _found(self, request: RegistrationStatus) -> RegistrationStatusResponse:
        registration = Registration(self.behaviour.resource_name, self.behaviour.socket_name)
        self._reports.registered(registration, "" if request.plugin_registered else request.error)
        return RegistrationStatusResponse()
