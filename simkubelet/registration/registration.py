"""The kubelet's side of a plugin's life: Register, the ListAndWatch stream, the end of it.

One `RegistrationServer` serves ``kubelet.sock`` for one kubelet instance. It keeps the kubelet's races: a Register that
fails removes the current connection of that resource, and so does the end of a stream, see `plugin_clients`.

Source: devicemanager/plugin/v1beta1/server.go, handler.go (kubernetes v1.34.4, v1.35.4, v1.37.0).
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from .._internal.doors import Door
from .._internal.file_tree import FileTree
from ..apis.deviceplugin import KUBELET_SOCKET_NAME, VERSION, Empty, RegisterRequest
from ..apis.grpcwire.messages import MOST_MESSAGE_BYTES, Code
from ..apis.grpcwire.served_call import CallError
from ..apis.grpcwire.server import GrpcServer
from ..golang.message import served_method
from ..golang.text import quoted
from ..model.errors import HostError
from ..model.resources import ResourceName, is_extended_resource
from ..model.version import Difference, Version
from .plugin_client import PluginClient, PluginClients, PluginHandler, RefusedError, plugin_clients

__all__ = ["RegistrationHandler", "RegistrationServer"]

_REPORTS_REGISTRATION_FAILURE: Final = Difference(
    "the check ``device-plugin`` of /healthz has the reason why no plugin can register",
    {"1.26": False, "1.32.11": True, "1.33": False, "1.33.7": True, "1.34": False, "1.34.3": True},
    "devicemanager/plugin/v1beta1/server.go, ``setUnhealthy`` (kubernetes/kubernetes#135153, v1.32.11, v1.33.7, "
    "v1.34.3, v1.35.0)",
)
_STOPS_DIALLING_WITH_CALLER: Final = Difference(
    "when its caller cancels Register, the kubelet stops dialling the plugin and asking for its options; before, "
    "both go on",
    {"1.26": False, "1.35": True},
    "plugin/v1beta1/server.go, ``Register`` (kubernetes v1.34.4, v1.35.4)",
)

T = TypeVar("T")

_CONNECTION: Final = Door("connection to a device plugin", RefusedError)
_STREAM: Final = Door("stream of a device plugin")
_MOST_CONNECTIONS: Final = 1000
"""To plugins, with those that are being made. A kubelet has no bound but that of open files."""
_REGISTER: Final = "/v1beta1.Registration/Register"
_FAILED: Final = "device plugin registration gRPC server failed and no device plugins can register"


class RegistrationHandler(PluginHandler, Protocol):
    """Gets what happens to plugins, refused ones too; called in the event loop."""

    def register_called(self, resource: ResourceName) -> None:
        """A plugin called Register, whatever will be answered; must not wait."""

    def registration_refused(self, resource: ResourceName, endpoint: str, message: str) -> None:
        """A plugin could not register; must not wait."""


class RegistrationServer:
    """Serves ``kubelet.sock`` in a plugin folder until it is stopped.

    Args:
        largest_bytes: of a plugin's message, see `KubeletConfig.max_message_bytes`.

    Attributes:
        failure: why no plugin can register any more, as /healthz reports it; None while the server is healthy.
    """

    def __init__(
        self,
        directory: Path,
        handler: RegistrationHandler,
        tasks: asyncio.TaskGroup,
        version: Version,
        largest_bytes: int = MOST_MESSAGE_BYTES,
    ) -> None:
        self.failure: str | None = None
        self._directory = directory
        self._within = directory.resolve().parent
        self._tree, self._path = FileTree(directory.parent), f"/{directory.name}"
        self._handler = handler
        self._group = tasks
        self._version = version
        self._largest_bytes = largest_bytes
        self._clients: PluginClients[PluginClient] = plugin_clients(version)
        self._opened: set[PluginClient] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._server: GrpcServer | None = None

    @property
    def socket(self) -> Path:
        return self._directory / KUBELET_SOCKET_NAME

    def connected(self) -> list[ResourceName]:
        """The resource of each connection that counts; one that has been replaced does not."""
        return [client.resource for client in self._clients]

    def start(self) -> None:
        """Listen, in the place of a socket that somebody left.

        Raises:
            HostError: the socket cannot be made.
        """
        server = GrpcServer({_REGISTER: served_method(RegisterRequest, self._register, self._version)})
        try:
            with self._tree.folder(self._path) as folder:
                with suppress(FileNotFoundError):
                    if stat.S_ISSOCK(os.stat(KUBELET_SOCKET_NAME, dir_fd=folder, follow_symlinks=False).st_mode):
                        os.unlink(KUBELET_SOCKET_NAME, dir_fd=folder)
                server.listen(Path(f"/proc/self/fd/{folder}", KUBELET_SOCKET_NAME))
        except OSError:
            raise HostError(f"{self.socket}: cannot listen; remove that file, or choose another folder") from None
        self._server = server

    async def stop(self) -> None:
        """Disconnect every plugin and stop listening; may be called twice and from any state."""
        self._remove_socket()
        await self.abandon()

    def cut(self) -> None:
        """Take nothing more of what plugins send, as a process that is gone; `abandon` has to follow."""
        for task in self._tasks:
            task.cancel()

    async def abandon(self) -> None:
        """End as the server of a killed kubelet: connections break, the socket's file stays."""
        await self._stop_listening()
        self.failure = None
        # Before connections are closed under them: a kubelet that ends finds no plugin at fault.
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients:
            await self._disconnect(client)
        for client in list(self._opened):
            await self._close(client)

    async def fail(self) -> None:
        """Lose the socket for good, as a kubelet whose serving ends by an error; its plugins stay connected."""
        self._remove_socket()
        await self._stop_listening()
        self.failure = _FAILED
        if _REPORTS_REGISTRATION_FAILURE.at(self._version):
            reason = f"accept unix {self.socket}: use of closed network connection"
            self.failure = f"device registration error: {_FAILED}: {reason}"

    async def _stop_listening(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    def _remove_socket(self) -> None:
        if self._server is not None:
            with suppress(OSError):
                self._tree.unlink(f"{self._path}/{KUBELET_SOCKET_NAME}")

    # Plugins that call Register

    async def _register(self, request: RegisterRequest) -> Empty:
        """Accept a plugin, or answer as the kubelet does, with the code Unknown for all that it refuses itself."""
        self._handler.register_called(ResourceName(request.resource_name))
        refusal = refusal_of(request)
        if refusal is None:
            resource, socket = ResourceName(request.resource_name), self._socket_of(request.endpoint)
            refusal = await self._connected(
                resource, socket, ends_with_caller=_STOPS_DIALLING_WITH_CALLER.at(self._version)
            )
        if refusal is not None:
            self._handler.registration_refused(ResourceName(request.resource_name), request.endpoint, refusal)
            raise CallError(Code.UNKNOWN, refusal)
        return Empty()

    # Plugins that the plugin watcher found

    def validate_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        """Why the kubelet refuses a plugin found below ``plugins_registry/``, None when it does not.

        Source: devicemanager/plugin/v1beta1/handler.go, ``ValidatePlugin`` (kubernetes v1.34.4).
        """
        refusal = watched_refusal_of(name, versions)
        if refusal is not None:
            self._handler.registration_refused(ResourceName(name), endpoint, refusal)
        return refusal

    async def register_plugin(self, name: str, endpoint: str) -> str | None:
        """Connect to a plugin that was found valid; the text of the refusal when it cannot be reached.

        Args:
            name: the resource.
            endpoint: path of the plugin's socket; the plugin folder has no part in it.
        """
        refusal = await self._connected(ResourceName(name), endpoint, ends_with_caller=False)
        if refusal is not None:
            self._handler.registration_refused(ResourceName(name), endpoint, refusal)
        return refusal

    async def deregister_plugin(self, name: str, endpoint: str) -> None:
        """Disconnect a plugin; up to 1.36 the newest of the resource, on whatever socket.

        Source: devicemanager/plugin/v1beta1/handler.go, ``DeRegisterPlugin`` (kubernetes v1.34.4, v1.37.0).
        """
        client = self._clients.find(ResourceName(name), endpoint)
        if client is not None:
            await self._disconnect(client)

    # All plugins

    def _socket_of(self, endpoint: str) -> str:
        # An absolute endpoint is a path below the folder too, and ".." leaves it: this is Go's filepath.Join.
        return os.path.normpath(f"{self._directory}/{endpoint}")

    async def _connected(self, resource: ResourceName, socket: str, *, ends_with_caller: bool) -> str | None:
        """Connect to a plugin; a cancelled caller cancels the attempt only with `ends_with_caller`; see `_connect`.

        Where the kubelet is ending this never returns, until it is cancelled.
        """
        if len(self._opened) >= _MOST_CONNECTIONS:
            return f"failed to dial device plugin: there are {_MOST_CONNECTIONS} connections to plugins already"
        connecting = self._start(self._connect(resource, socket))
        if connecting is None:
            # A kubelet that ends says nothing: its caller loses the connection.
            return await asyncio.Future[str | None]()
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if ends_with_caller:
                connecting.cancel()
            raise

    async def _connect(self, resource: ResourceName, socket: str) -> str | None:
        """Connect to a plugin and start to listen to it; the text of the refusal when it cannot be reached."""
        client = PluginClient(resource, socket, self._handler, self._version, self._largest_bytes, self._within)
        self._opened.add(client)
        self._clients.add(client)
        try:
            with _CONNECTION(f"{resource} {socket}") as passage:
                await client.connect()
            if passage.error is not None:
                raise RefusedError(f"failed to dial device plugin: {passage.error}") from passage.error
        except (RefusedError, asyncio.CancelledError) as refusal:
            # By name: a client that registered meanwhile loses its place, as in the kubelet.
            self._clients.remove(resource, socket)
            # The kubelet forgets a connection that is there, and never closes it.
            if not client.is_dialled:
                await self._close(client)
            if isinstance(refusal, RefusedError):
                return str(refusal)
            raise
        self._start(self._run(client))
        return None

    async def _run(self, client: PluginClient) -> None:
        reason = ""
        with _STREAM(f"{client.resource} {client.socket}"):
            reason = await client.run()
        # The one that is meant now, which need not be the one whose stream ended.
        meant = self._clients.find(client.resource, client.socket)
        if meant is None:
            # Its endpoint is still called, so this connection reaches the next process that serves the socket.
            return
        # So another one than this may be closed, and this one left open for ever.
        await self._disconnect(meant, reason)

    async def _disconnect(self, client: PluginClient, reason: str = "") -> None:
        self._clients.remove(client.resource, client.socket)
        self._handler.plugin_disconnected(client.resource, client.socket, reason)
        # An attempt to connect continues, as in the kubelet: its connection then no longer belongs to this resource.
        if client.is_dialled:
            await self._close(client)

    async def _close(self, client: PluginClient) -> None:
        self._opened.discard(client)
        await client.close()

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


def refusal_of(request: RegisterRequest) -> str | None:
    """Why the kubelet refuses a Register call without looking at the plugin, None when it does not."""
    if request.version != VERSION:
        version = quoted(request.version)
        return f'requested API version {version} is not supported by kubelet. Supported version is ["{VERSION}"]'
    if not is_extended_resource(request.resource_name):
        return f"the ResourceName {quoted(request.resource_name)} is invalid"
    return None


def watched_refusal_of(name: str, versions: Sequence[str]) -> str | None:
    """Why the kubelet refuses what a plugin answered to GetInfo, None when it does not."""
    if VERSION not in versions:
        return f"manager version, {VERSION}, is not among plugin supported versions [{' '.join(versions)}]"
    if not is_extended_resource(name):
        return f"invalid name of device plugin socket: the ResourceName {quoted(name)} is invalid"
    return None
