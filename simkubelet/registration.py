"""The kubelet's side of a plugin's life: Register, the ListAndWatch stream, the end of it.

One `RegistrationServer` serves ``kubelet.sock`` for one kubelet instance. It keeps the newest client of each resource,
and it keeps the kubelet's races: a Register that fails removes whatever client had the name, and the end of an old
stream disconnects the newest client of the resource.

Source: devicemanager/plugin/v1beta1/server.go, handler.go, client.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypeVar

import grpc

from .apis.deviceplugin import (
    KUBELET_SOCKET_NAME,
    VERSION,
    Device,
    DevicePluginOptions,
    DevicePluginStub,
    Empty,
    RegisterRequest,
    RegistrationServicer,
    add_RegistrationServicer_to_server,
)
from .errors import HostError
from .resources import ResourceName, is_extended_resource
from .rpc_error import ConnectionClosedError, answer_to, go_text

if TYPE_CHECKING:
    from .apis.deviceplugin import DevicePluginAsyncStub

__all__ = ["PluginClient", "RefusedError", "RegistrationHandler", "RegistrationServer"]

T = TypeVar("T")

_DIAL_TIMEOUT_S: Final = 10.0
# A plugin that restarts listens on the path of the last one: a connection shared by path would wait out the back-off
# of the dead one.
_CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))


class RegistrationHandler(Protocol):
    """Who is told of plugins and their devices; called in the event loop, must not wait."""

    def plugin_connected(self, client: PluginClient, options: DevicePluginOptions) -> None: ...

    def plugin_listed(self, resource: ResourceName, devices: Sequence[Device]) -> None: ...

    def plugin_disconnected(self, resource: ResourceName) -> None: ...

    def registration_refused(self, resource: ResourceName, endpoint: str, message: str) -> None: ...


class RefusedError(Exception):
    """A Register call that is answered with an error; the message is the kubelet's."""


class PluginClient:
    """A connection to one registered plugin."""

    def __init__(self, resource: ResourceName, socket: Path, handler: RegistrationHandler) -> None:
        self.resource = resource
        self.socket = socket
        self._handler = handler
        self._is_dialled = False
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)
        self.stub: DevicePluginAsyncStub = DevicePluginStub(self._channel)

    async def connect(self) -> None:
        """Dial the plugin, for 10 s at most, and ask its options, without limit.

        Raises:
            RefusedError: either failed.
        """
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT_S):
                await self._channel.channel_ready()
        except TimeoutError:
            raise RefusedError("failed to dial device plugin: context deadline exceeded") from None
        self._is_dialled = True
        try:
            options = await answer_to(lambda: self.stub.GetDevicePluginOptions(Empty()))
        except (grpc.aio.AioRpcError, ConnectionClosedError) as error:
            raise RefusedError(f"failed to get device plugin options: {go_text(error)}") from None
        self._handler.plugin_connected(self, options)

    async def run(self) -> None:
        """Pass on the plugin's lists until the stream ends, for whatever reason."""
        with contextlib.suppress(grpc.aio.AioRpcError, ConnectionClosedError):
            await answer_to(self._pass_on)

    async def _pass_on(self) -> None:
        async for response in self.stub.ListAndWatch(Empty()):
            self._handler.plugin_listed(self.resource, response.devices)

    async def disconnect(self) -> None:
        """Report the plugin as gone and close the connection, which cancels the plugin's stream.

        A connection that is still being made goes on, as in the kubelet: it is no longer this resource's then.
        """
        self._handler.plugin_disconnected(self.resource)
        if self._is_dialled:
            await self.close()

    async def close(self) -> None:
        await self._channel.close(None)


class RegistrationServer(RegistrationServicer):
    """Serves ``kubelet.sock`` in a plugin folder until it is stopped."""

    def __init__(self, directory: Path, handler: RegistrationHandler, tasks: asyncio.TaskGroup) -> None:
        self._directory = directory
        self._handler = handler
        self._group = tasks
        self._clients: dict[ResourceName, PluginClient] = {}
        self._opened: set[PluginClient] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: grpc.aio.Server | None = None

    @property
    def socket(self) -> Path:
        return self._directory / KUBELET_SOCKET_NAME

    async def start(self) -> None:
        """Listen.

        Raises:
            HostError: the socket cannot be made.
        """
        server = grpc.aio.server()
        add_RegistrationServicer_to_server(self, server)
        server.add_generic_rpc_handlers((_UnknownService(),))
        try:
            server.add_insecure_port(f"unix:{self.socket}")
        except RuntimeError as error:
            raise HostError(f"{self.socket}: cannot listen: {error}") from None
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Disconnect every plugin and stop listening; may be called twice and from any state."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)
        for resource in list(self._clients):
            await self._clients.pop(resource).disconnect()
        for client in list(self._opened):
            await client.close()
        self._opened.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def Register(
        self, request: RegisterRequest, context: grpc.aio.ServicerContext[RegisterRequest, Empty]
    ) -> Empty:
        """Accept a plugin, or answer as the kubelet does, always with the code Unknown."""
        resource = ResourceName(request.resource_name)
        refusal = refusal_of(request)
        if refusal is None:
            # The kubelet does not look at the caller's deadline: a caller that gives up is registered all the same.
            connecting = self._start(self._connect(resource, self._socket_of(request.endpoint)))
            if connecting is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the kubelet is stopping")
            refusal = await asyncio.shield(connecting)
        if refusal is not None:
            self._handler.registration_refused(resource, request.endpoint, refusal)
            await context.abort(grpc.StatusCode.UNKNOWN, refusal)
        return Empty()

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Run work as a task of the group; None where the group is ending and takes no more."""
        try:
            task = self._group.create_task(work)
        except RuntimeError:
            work.close()
            return None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _socket_of(self, endpoint: str) -> Path:
        # An absolute endpoint lies below the folder too, and ".." leaves it: this is Go's filepath.Join.
        return Path(os.path.normpath(f"{self._directory}/{endpoint}"))

    async def _connect(self, resource: ResourceName, socket: Path) -> str | None:
        """Connect to a plugin and start to listen to it; the text of the refusal when it cannot be reached."""
        client = PluginClient(resource, socket, self._handler)
        self._opened.add(client)
        self._clients[resource] = client
        try:
            await client.connect()
        except RefusedError as refusal:
            # By name: a client that registered meanwhile loses its place, as in the kubelet.
            self._clients.pop(resource, None)
            self._opened.discard(client)
            await client.close()
            return str(refusal)
        self._start(self._run(client))
        return None

    async def _run(self, client: PluginClient) -> None:
        await client.run()
        # The newest client of the resource, which need not be the one whose stream ended.
        newest = self._clients.pop(client.resource, None)
        if newest is not None:
            await newest.disconnect()


class _UnknownService(grpc.GenericRpcHandler):
    """Answers calls of services that are not served here in the words of a Go server."""

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        service = call.method.strip("/").partition("/")[0]

        async def refuse(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> NoReturn:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown service {service}")

        return grpc.unary_unary_rpc_method_handler(refuse)


def refusal_of(request: RegisterRequest) -> str | None:
    """Why the kubelet refuses a Register call without looking at the plugin, None when it does not."""
    if request.version != VERSION:
        version = _go_quoted(request.version)
        return f'requested API version {version} is not supported by kubelet. Supported version is ["{VERSION}"]'
    if not is_extended_resource(request.resource_name):
        return f"the ResourceName {_go_quoted(request.resource_name)} is invalid"
    return None


def _go_quoted(text: str) -> str:
    """Text in quotes as Go's ``%q`` prints it."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c) or (c if c.isprintable() else _go_escaped(c)) for c in text) + '"'


def _go_escaped(character: str) -> str:
    number = ord(character)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
