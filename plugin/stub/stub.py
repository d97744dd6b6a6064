"""The stub at work: at most one server, on one socket, and as many registrations as its commands ask for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.server import GrpcServer

from ..errors import HostError
from ..framework import DeviceList
from ..framework.client import RegistrationError, send
from ..framework.server import plugin_socket
from ..framework.socket_watch import SocketWatch
from .behaviour import Behaviour, Registers, Rpc
from .service import StubService

__all__ = ["Registration", "Reports", "Stub"]


@dataclass(frozen=True, slots=True)
class Registration:
    """The arguments of a Register call."""

    resource: str
    endpoint: str
    version: str = api.VERSION


class Reports(Protocol):
    """Gets what the stub sees; called in the event loop."""

    def called(self, rpc: Rpc, device_ids: Sequence[str]) -> None:
        """The kubelet made a call."""

    def registered(self, registration: Registration, error: str) -> None:
        """A Register call was answered; `error` is empty where it was accepted."""


class Stub:
    """A device plugin that serves and registers; `run` gives it the manners that its behaviour asks for.

    Raises:
        UsageError: the socket's path is too long.
    """

    def __init__(self, behaviour: Behaviour, kubelet_dir: Path, reports: Reports) -> None:
        self.behaviour = behaviour
        self._kubelet_socket = plugin_socket(kubelet_dir, api.KUBELET_SOCKET_NAME)
        self._socket = plugin_socket(kubelet_dir, behaviour.socket_name)
        self._reports = reports
        self._service = StubService(behaviour, reports.called)
        self._server: GrpcServer | None = None

    async def run(self) -> None:
        """Serve, register if that is wanted, and again for each new kubelet if that is wanted; until cancelled."""
        with SocketWatch(self._kubelet_socket.parent) as watch:
            await self.start_server()
            if self.behaviour.registers is not Registers.NEVER:
                await self.register()
            async with aclosing(watch.created()) as kubelets:
                async for _ in kubelets:
                    if self.behaviour.registers is Registers.ALWAYS:
                        # The new kubelet has removed the socket.
                        await self.stop_server()
                        await self.register()

    async def start_server(self) -> None:
        """Serve on the socket, in the place of whatever has its name; nothing happens where the stub serves already.

        A socket that a new kubelet has removed is made again, with another server.

        Raises:
            HostError: the socket cannot be made.
        """
        if self._server is not None and self._socket.exists():
            return
        await self.stop_server()
        server = GrpcServer(self._service.methods())
        try:
            self._socket.unlink(missing_ok=True)
            server.listen(self._socket)
        except OSError as error:
            reason = error.strerror
            raise HostError(f"cannot make the socket {self._socket}: {reason}; see who may write there") from error
        self._server = server

    async def stop_server(self) -> None:
        """Stop serving: streams break off, the socket goes; may be called in any state."""
        server, self._server = self._server, None
        if server is not None:
            self._service.end_streams()
            await server.stop()
            if self._socket.is_socket():
                self._socket.unlink()

    async def register(
        self, resource: str | None = None, endpoint: str | None = None, version: str = api.VERSION, times: int = 1
    ) -> None:
        """Call Register, by default with the stub's own resource and socket; serve first."""
        await self.start_server()
        registration = Registration(
            resource or self.behaviour.resource_name, endpoint or self.behaviour.socket_name, version
        )
        request = api.RegisterRequest(
            version=registration.version, endpoint=registration.endpoint, resource_name=registration.resource
        )
        for _ in range(times):
            try:
                await send(request, self._kubelet_socket)
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
