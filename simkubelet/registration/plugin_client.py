"""The kubelet's connection to one plugin: dialling it, calling it, reading its lists; and which connection is meant.

Up to 1.36 the registration server keeps one connection a resource, the newest: what concerns another one of the
resource hits that. From 1.37 on a connection is found by resource and socket path; two on one path are one to it.

Source: devicemanager/plugin/v1beta1/client.go (kubernetes v1.34.4); handler.go, ``registerClient``,
``deregisterClient``, ``getClient`` (kubernetes v1.36.3, v1.37.0).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote

from google.protobuf.message import Message

from ..apis.deviceplugin import DevicePluginOptions, Empty, ListAndWatchResponse
from ..apis.grpcwire.client import ClientConnection, ClientName, ConnectionClosedError, RpcError, UnprocessedError
from ..apis.grpcwire.messages import MOST_MESSAGE_BYTES, Code
from ..devices.device_list import DeviceList, read_devices
from ..devices.endpoint import KEYS_ENDPOINTS_BY_SOCKET
from ..golang.message import UnreadableMessageError, read_message
from ..model.resources import ResourceName
from ..model.version import Difference, Version

__all__ = [
    "Locate",
    "PluginChannel",
    "PluginClient",
    "PluginClients",
    "PluginHandler",
    "RefusedError",
    "as_it_is",
    "path_authority",
    "plugin_clients",
    "read_list",
]

M = TypeVar("M", bound=Message)

_log = logging.getLogger(__name__)

_GRPC_VERSION: Final = Difference(
    "the version of Go's gRPC in the header `user-agent` of calls to plugins",
    {
        "1.26": "1.49.0",
        "1.26.11": "1.56.3",
        "1.27": "1.51.0",
        "1.27.8": "1.56.3",
        "1.28": "1.54.0",
        "1.28.4": "1.56.3",
        "1.29": "1.58.3",
        "1.31": "1.65.0",
        "1.33": "1.68.1",
        "1.34": "1.72.1",
        "1.35": "1.72.2",
        "1.36": "1.79.3",
        "1.37": "1.82.1",
    },
    "go.mod (kubernetes v1.26.10 to v1.37.2)",
)

_ESCAPES_AUTHORITY: Final = Difference(
    "a path as `:authority` is escaped: `%2Fvar%2Flib…`",
    {"1.26": False, "1.29": True},
    "google.golang.org/grpc, clientconn.go, ``determineAuthority`` (v1.49.0, v1.51.0, v1.56.3), ``encodeAuthority`` "
    "(v1.58.3)",
)

_SAYS_THAT_IT_TAKES_GZIP: Final = Difference(
    "calls to plugins say that answers may be compressed by gzip, which they may in any case",
    {"1.26": False, "1.26.11": True},
    "google.golang.org/grpc, internal/transport/http2_client.go, ``createHeaderFields`` (v1.49.0, v1.51.0)",
)

_SERVICE: Final = "/v1beta1.DevicePlugin"
_LARGE_LIST_BYTES: Final = 1 << 20
_DIAL_TIMEOUT_S: Final = 10.0
_CONNECT_TIMEOUT_S: Final = 20.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 120.0
_PAUSE_FACTOR: Final = 1.6
_PAUSE_JITTER: Final = 0.2


class _UnreadableAnswerError(RpcError):
    """A plugin answered with bytes that are not the message they should be."""

    def __init__(self, reason: UnreadableMessageError) -> None:
        super().__init__(Code.INTERNAL, f"grpc: failed to unmarshal the received message: {reason}")


Locate = Callable[[str], str]
"""Path of a socket as a plugin names it -> where it is on this host."""


def as_it_is(path: str) -> str:
    """Where a socket is that plugins name as it is on this host."""
    return path


def path_authority(path: str, release: Version) -> str:
    """The header ``:authority`` of calls to a socket that is dialled by its path alone.

    Source: google.golang.org/grpc v1.72.1, clientconn.go, ``encodeAuthority``.
    """
    return quote(os.fsencode(path), safe="!$&'()*+,;=:[]@~") if _ESCAPES_AUTHORITY.at(release) else path


class PluginChannel:
    """Makes the calls of a kubelet of some version to the server on a socket.

    Nothing outside of the folder `within` is reached: to a kubelet, what is not on its node is not there. `address` is
    what errors call the socket, by default its path. `authority` is the header of that name; `path_authority` makes
    that of a kubelet which chooses none.

    Limits are real seconds, as plugins are real processes. A connection that breaks is made again by the next call; one
    that cannot be made fails the calls until the back-off is over.

    Source: devicemanager/plugin/v1beta1/client.go, ``dial``; pluginmanager/operationexecutor/operation_generator.go,
    ``dial`` (kubernetes v1.34.4); google.golang.org/grpc v1.72.1, clientconn.go, ``resetTransportAndUnlock``;
    internal/backoff/backoff.go.
    """

    def __init__(
        self,
        socket: str | Path,
        version: Version,
        largest_bytes: int = MOST_MESSAGE_BYTES,
        within: Path | None = None,
        address: str = "",
        authority: str = "localhost",
    ) -> None:
        self._socket = str(socket)
        self._address = address
        self._name = ClientName(authority, _GRPC_VERSION.at(version), _SAYS_THAT_IT_TAKES_GZIP.at(version))
        self._within = within
        self._version = version
        self._largest_bytes = largest_bytes
        self._connection: ClientConnection | None = None
        self._connecting = asyncio.Lock()
        self._is_closed = False
        self._failures = 0
        self._error: RpcError | None = None
        self._retry_at = 0.0

    async def dial(self) -> None:
        """Wait until somebody speaks gRPC there.

        Raises:
            TimeoutError: nobody did for 10 s.
            ConnectionClosedError: the connection was closed meanwhile.
        """
        async with asyncio.timeout(_DIAL_TIMEOUT_S):
            while True:
                try:
                    await self._connected()
                except ConnectionClosedError:
                    raise
                except RpcError:
                    await asyncio.sleep(self._retry_at - asyncio.get_running_loop().time())
                else:
                    return

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection that takes calls."""
        return self._connection is not None and self._connection.is_usable

    async def connect(self) -> None:
        """Connect, unless there is a connection; raises as `call`."""
        await self._connected()

    async def keep_connected(self, on_change: Callable[[bool], None]) -> None:
        """Connect now, and again after each end of the connection and each pause that follows a failure, until `close`.

        Args:
            on_change: called with whether there is a connection, when that changes.

        Source: google.golang.org/grpc v1.72.1, clientconn.go, ``Connect``, ``resetTransportAndUnlock``;
        balancer/pickfirst/pickfirst.go.
        """
        while True:
            try:
                connection = await self._connected()
            except ConnectionClosedError:
                return
            except RpcError:
                await asyncio.sleep(self._retry_at - asyncio.get_running_loop().time())
                continue
            on_change(True)
            await connection.wait_end()
            on_change(False)

    async def call(self, method: str, request: Message, answer: type[M], *, timeout_s: float | None = None) -> M:
        """Ask the plugin; `method` is the full name, ``/service/method``.

        Raises:
            RpcError: it refused, died, or the time is over; a ConnectionClosedError where the connection was closed
                meanwhile, an UnreadableAnswerError where the answer is no message of this kind.
        """
        content = request.SerializeToString()
        try:
            received = await (await self._connected()).call(method, content, timeout_s)
        except UnprocessedError:
            # Once, as in Go.
            received = await (await self._connected()).call(method, content, timeout_s)
        try:
            return read_message(answer, received, self._version)
        except UnreadableMessageError as error:
            raise _UnreadableAnswerError(error) from None

    async def listen(self, method: str, request: Message) -> AsyncGenerator[bytes, None]:
        """Ask for a stream of messages, which come unread; raises as `call`."""
        connection = await self._connected()
        async with aclosing(connection.stream(method, request.SerializeToString())) as messages:
            async for message in messages:
                yield message

    async def close(self) -> None:
        """Close the connection, which cancels streams and fails the calls that are under way."""
        self._is_closed = True
        await self.disconnect()

    async def disconnect(self) -> None:
        """End the connection as `close`, but a call makes another one."""
        if self._connection is not None:
            self._connection.close()
            # The socket is closed in the next turn of the event loop.
            await asyncio.sleep(0)

    async def _connected(self) -> ClientConnection:
        """The connection, made where there is none that can be used; one caller makes it, the others wait."""
        async with self._connecting:
            if self._is_closed:
                raise ConnectionClosedError
            if self._connection is not None and self._connection.is_usable:
                return self._connection
            return await self._connect()

    async def _connect(self) -> ClientConnection:
        now = asyncio.get_running_loop().time
        if self._error is not None and now() < self._retry_at:
            raise self._error
        parts = self._largest_bytes, self._within, self._address, self._name
        connection = self._connection = ClientConnection(self._socket, *parts)
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await connection.open()
        except (RpcError, TimeoutError, asyncio.CancelledError) as error:
            connection.close()
            if isinstance(error, asyncio.CancelledError | ConnectionClosedError):
                raise
            self._retry_at = now() + self._pause_s()
            self._failures += 1
            self._error = _silent(self._socket) if isinstance(error, TimeoutError) else error
            raise self._error from None
        self._failures = 0
        return connection

    def _pause_s(self) -> float:
        if not self._failures:
            return _FIRST_PAUSE_S
        pause_s = min(_FIRST_PAUSE_S * _PAUSE_FACTOR**self._failures, _LONGEST_PAUSE_S)
        return pause_s * random.uniform(1 - _PAUSE_JITTER, 1 + _PAUSE_JITTER)  # noqa: S311  # no secret


def _silent(socket: str) -> RpcError:
    reason = f"error reading server preface: read unix @->{socket}: use of closed network connection"
    return RpcError(Code.UNAVAILABLE, f'connection error: desc = "{reason}"')


class PluginHandler(Protocol):
    """Gets what happens to plugins and their devices; called in the event loop."""

    def plugin_connected(self, client: PluginClient, options: DevicePluginOptions) -> None:
        """Raises RefusedError where the plugin cannot be taken."""

    async def plugin_listed(self, resource: ResourceName, devices: DeviceList) -> None:
        """The next list is read when this returns."""

    def plugin_disconnected(self, resource: ResourceName, socket: str, reason: str) -> None:
        """The stream of lists has ended, with `reason`."""


class RefusedError(Exception):
    """A Register call that is answered with an error; the message is the kubelet's."""


class PluginClient:
    """A connection to one registered plugin.

    Args:
        handler: gets what happens.
        version: the minor that the kubelet behaves as.
        largest_bytes: see `KubeletConfig.max_message_bytes`.

    Attributes:
        resource: what the plugin serves.
        socket: the path of its socket.
        is_dialled: whether the plugin was ever reached.
    """

    def __init__(
        self,
        resource: ResourceName,
        socket: str,
        handler: PluginHandler,
        version: Version,
        largest_bytes: int,
        within: Path | None = None,
    ) -> None:
        self.resource = resource
        self.socket = socket
        self._handler = handler
        self.is_dialled = False
        self._version = version
        self._channel = PluginChannel(socket, version, largest_bytes, within)

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

    async def run(self) -> str:
        """Pass on the plugin's lists until the stream ends, for whatever reason, which is logged and returned."""
        reason = "EOF"
        try:
            await self._pass_on()
        except UnreadableMessageError as error:
            reason = str(_UnreadableAnswerError(error))
        except RpcError as error:
            reason = str(error)
        _log.error("ListAndWatch ended unexpectedly for device plugin %s: %s", self.resource, reason)
        return reason

    async def _pass_on(self) -> None:
        async with aclosing(self._channel.listen(f"{_SERVICE}/ListAndWatch", Empty())) as messages:
            async for message in messages:
                if len(message) < _LARGE_LIST_BYTES:
                    devices = read_list(message, self._version)
                else:
                    # A million devices take a second, in which others are to be served.
                    devices = await asyncio.to_thread(read_list, message, self._version)
                await self._handler.plugin_listed(self.resource, devices)

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
    return read_devices(content, lambda message: read_message(ListAndWatchResponse, message, version, None))


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
