"""The kubelet's connection to one plugin (dialling it, asking it, reading its lists), and which connection is meant.

Up to 1.36 the registration server keeps one connection a resource, the newest: what concerns another one of the
resource hits that. From 1.37 on a connection is found by resource and socket path; two on one path are one to it.

Source: devicemanager/plugin/v1beta1/client.go (kubernetes v1.34.4); handler.go, ``registerClient``,
``deregisterClient``, ``getClient`` (kubernetes v1.36.3, v1.37.0).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

from google.protobuf.message import Message

from ..apis.deviceplugin import DevicePluginOptions, Empty, ListAndWatchResponse
from ..apis.grpcwire.client import RpcError
from ..devices.device_list import DeviceList, read_devices
from ..devices.endpoint import KEYS_ENDPOINTS_BY_SOCKET
from ..golang.message import UnreadableMessageError, read_message
from ..model.resources import ResourceName
from ..model.version import Version
from .plugin_channel import PluginChannel, UnreadableAnswerError

__all__ = ["PluginClient", "PluginClients", "PluginHandler", "RefusedError", "plugin_clients", "read_list"]

M = TypeVar("M", bound=Message)

_SERVICE: Final = "/v1beta1.DevicePlugin"

_log = logging.getLogger(__name__)


class PluginHandler(Protocol):
    """Gets what happens to plugins and their devices; called in the event loop."""

    def plugin_connected(self, client: PluginClient, options: DevicePluginOptions) -> None:
        """Raises RefusedError where the plugin cannot be taken."""

    async def plugin_listed(self, resource: ResourceName, devices: DeviceList) -> None:
        """The next list is read when this returns."""

    def plugin_disconnected(self, resource: ResourceName, socket: str) -> None: ...


class RefusedError(Exception):
    """A Register call that is answered with an error; the message is the kubelet's."""


class PluginClient:
    """A connection to one registered plugin.

    Attributes:
        resource: what the plugin serves.
        socket: the path of its socket.
        is_dialled: whether the plugin was ever reached.
    """

    def __init__(self, resource: ResourceName, socket: str, handler: PluginHandler, version: Version) -> None:
        self.resource = resource
        self.socket = socket
        self._handler = handler
        self.is_dialled = False
        self._version = version
        self._channel = PluginChannel(socket, version)

    async def connect(self) -> None:
        """Dial the plugin, for 10 s at most, and ask its options, without limit.

        Raises:
            RefusedError: either failed, or the plugin is not taken.
        """
        try:
            await self._channel.dial()
        except TimeoutError:
            raise RefusedError("failed to dial device plugin: context deadline exceeded") from None
        self.is_dialled = True
        try:
            options = await self.call("GetDevicePluginOptions", Empty(), DevicePluginOptions)
        except RpcError as error:
            raise RefusedError(f"failed to get device plugin options: {error}") from None
        self._handler.plugin_connected(self, options)

    async def run(self) -> None:
        """Pass on the plugin's lists until the stream ends, for whatever reason, which is logged."""
        reason = "EOF"
        try:
            await self._pass_on()
        except UnreadableMessageError as error:
            reason = str(UnreadableAnswerError(error))
        except RpcError as error:
            reason = str(error)
        _log.error("ListAndWatch ended unexpectedly for device plugin %s: %s", self.resource, reason)

    async def _pass_on(self) -> None:
        async with aclosing(self._channel.listen(f"{_SERVICE}/ListAndWatch", Empty())) as messages:
            async for message in messages:
                await self._handler.plugin_listed(self.resource, read_list(message, self._version))

    async def call(self, method: str, request: Message, answer: type[M], *, timeout_s: float | None = None) -> M:
        """Ask the plugin; raises what `PluginChannel.call` raises."""
        return await self._channel.call(f"{_SERVICE}/{method}", request, answer, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the connection, which cancels the plugin's stream and fails the calls that are under way."""
        await self._channel.close()


def read_list(content: bytes, version: Version) -> DeviceList:
    """Read a ListAndWatchResponse, which may be long.

    Raises:
        UnreadableMessageError: it is none.
    """
    return read_devices(content, lambda message: read_message(ListAndWatchResponse, message, version))


class _Connection(Protocol):
    @property
    def resource(self) -> ResourceName: ...

    @property
    def socket(self) -> str: ...


C = TypeVar("C", bound=_Connection)


class PluginClients(Generic[C]):
    """The newest connection of each resource."""

    def __init__(self) -> None:
        self._clients: dict[ResourceName, list[C]] = {}

    def __iter__(self) -> Iterator[C]:
        return iter([client for clients in self._clients.values() for client in clients])

    def add(self, client: C) -> None:
        self._clients[client.resource] = [client]

    def find(self, resource: ResourceName, socket: str) -> C | None:
        """The connection that is meant, which need not be on that socket."""
        return next(iter(self._clients.get(resource, ())), None)

    def remove(self, resource: ResourceName, socket: str) -> None:
        """Forget the connection that is meant, whichever it is."""
        self._clients.pop(resource, None)


class _ClientsBySocket(PluginClients[C]):
    """All connections of each resource, in the order in which they were made."""

    def add(self, client: C) -> None:
        self._clients.setdefault(client.resource, []).append(client)

    def find(self, resource: ResourceName, socket: str) -> C | None:
        return next((client for client in self._clients.get(resource, ()) if client.socket == socket), None)

    def remove(self, resource: ResourceName, socket: str) -> None:
        others = [client for client in self._clients.get(resource, ()) if client.socket != socket]
        if others:
            self._clients[resource] = others
        else:
            self._clients.pop(resource, None)


def plugin_clients(version: Version) -> PluginClients[C]:
    """The connections of a new registration server."""
    return _ClientsBySocket() if KEYS_ENDPOINTS_BY_SOCKET.at(version) else PluginClients()
