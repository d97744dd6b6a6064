"""One plugin at work: its socket, its gRPC server, its device source.

The service DevicePlugin turns the kubelet's calls into calls of a `DevicePlugin`, and sends its latest device list.
Each follower of the lists keeps its own place, so that one stream can never take a change away from another: with
the kubelet's old stream still open beside the new one, both see each change. A follower that is slow misses lists that
a newer one has replaced, never the newest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, Method, StreamMethod, UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer

from ..errors import HostError, UsageError
from .device_plugin import AllocationRefusedError, DeviceID, DeviceList, DevicePlugin

__all__ = ["DeviceFeed", "Streams", "methods_of", "own_socket_name", "plugin_socket", "serving"]

_log = logging.getLogger(__name__)


class DeviceFeed:
    """One writer, any number of followers, all in one event loop."""

    def __init__(self) -> None:
        self._latest: DeviceList = ()
        self._version = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    def publish(self, devices: DeviceList) -> None:
        """Make `devices` the latest list and wake every follower, also when it equals the list before."""
        self._latest = devices
        self._version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self, last: DeviceList) -> None:
        """Make `last` the latest list and end every follower after it."""
        self._is_closed = True
        self.publish(last)

    async def first(self) -> None:
        """Wait until there is a list."""
        if self._version == 0:
            await self._changed.wait()

    async def follow(self) -> AsyncGenerator[DeviceList, None]:
        """The latest list, as soon as there is one, then each newer one, until the feed is closed."""
        seen = 0
        while not (self._is_closed and self._version == seen):
            if self._version == seen:
                await self._changed.wait()
            seen = self._version
            yield self._latest


class Streams:
    """The open streams of one plugin; `on_lost` is called when no other follows the last one in `_STREAM_GRACE_S`."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._open = 0
        self._lost: asyncio.TimerHandle | None = None
        self._is_closed = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """One stream, from its begin to its end."""
        self._open += 1
        self._wait_no_longer()
        try:
            yield
        finally:
            self._open -= 1
            if not self._open and not self._is_closed:
                self._lost = asyncio.get_running_loop().call_later(_STREAM_GRACE_S, self._on_lost)

    def close(self) -> None:
        """Count no end as a loss: the plugin stops."""
        self._is_closed = True
        self._wait_no_longer()

    def _wait_no_longer(self) -> None:
        if self._lost is not None:
            self._lost.cancel()


_SERVICE: Final = "v1beta1.DevicePlugin"


class _Service:
    """Answers for one plugin; its device lists come from `feed`, and `streams` follows who reads them."""

    def __init__(self, plugin: DevicePlugin, feed: DeviceFeed, streams: Streams) -> None:
        self._plugin = plugin
        self._feed = feed
        self._streams = streams

    def methods(self) -> Mapping[str, Method]:
        """What is served, by path."""
        return methods_of(self._options, self._lists, self._allocate, self._preferred, self._pre_start)

    async def _options(self, request: api.Empty) -> api.DevicePluginOptions:
        return self._plugin.options.to_message()

    async def _lists(self, request: api.Empty) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """The device list, then each newer one, until the kubelet or the plugin ends the stream."""
        try:
            with self._streams.opened():
                async for devices in self._feed.follow():
                    _log.debug("sending %d devices of %s", len(devices), self._plugin.resource_name)
                    yield api.ListAndWatchResponse(devices=[device.to_message() for device in devices])
        finally:
            self._plugin.stream_ended()

    async def _allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:
        """One answer for each container, in order, or a refusal of the whole call."""
        requests = [_device_ids(container.devices_ids) for container in request.container_requests]
        with _refusals():
            answers = await self._plugin.allocate_all(requests)
        return api.AllocateResponse(container_responses=answers)

    async def _preferred(self, request: api.PreferredAllocationRequest) -> api.PreferredAllocationResponse:
        """One answer for each container, in order, or none at all.

        Asked in a thread: finding a good answer may take long, and health must get through meanwhile.
        """
        response = api.PreferredAllocationResponse()
        with _refusals():
            for container in request.container_requests:
                device_ids = await asyncio.to_thread(
                    self._plugin.preferred,
                    _device_ids(container.available_deviceIDs),
                    _device_ids(container.must_include_deviceIDs),
                    container.allocation_size,
                )
                if device_ids is not None:
                    response.container_responses.add(deviceIDs=device_ids)
        return response

    async def _pre_start(self, request: api.PreStartContainerRequest) -> api.PreStartContainerResponse:
        """Let the plugin get the devices ready."""
        with _refusals():
            await self._plugin.pre_start(_device_ids(request.devices_ids))
        return api.PreStartContainerResponse()


def methods_of(
    options: Callable[[api.Empty], Awaitable[api.DevicePluginOptions]],
    lists: Callable[[api.Empty], AsyncGenerator[api.ListAndWatchResponse, None]],
    allocate: Callable[[api.AllocateRequest], Awaitable[api.AllocateResponse]],
    preferred: Callable[[api.PreferredAllocationRequest], Awaitable[api.PreferredAllocationResponse]],
    pre_start: Callable[[api.PreStartContainerRequest], Awaitable[api.PreStartContainerResponse]],
) -> Mapping[str, Method]:
    """Return the methods of the service DevicePlugin by path, as a `GrpcServer` takes them."""
    methods: dict[str, Method] = {
        "GetDevicePluginOptions": UnaryMethod(api.Empty.FromString, options),
        "ListAndWatch": StreamMethod(api.Empty.FromString, lists),
        "Allocate": UnaryMethod(api.AllocateRequest.FromString, allocate),
        "GetPreferredAllocation": UnaryMethod(api.PreferredAllocationRequest.FromString, preferred),
        "PreStartContainer": UnaryMethod(api.PreStartContainerRequest.FromString, pre_start),
    }
    return {f"/{_SERVICE}/{name}": method for name, method in methods.items()}


@contextmanager
def _refusals() -> Iterator[None]:
    """A refusal, or a file that cannot be used, as the kubelet gets it from a Go plugin."""
    try:
        yield
    except AllocationRefusedError as refusal:
        raise CallError(Code.UNKNOWN, str(refusal)) from refusal
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _log.error("A call failed: %s", reason)
        raise CallError(Code.UNKNOWN, reason) from error


def _device_ids(ids: Sequence[str]) -> list[DeviceID]:
    return [DeviceID(device_id) for device_id in ids]


_MAX_SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket on Linux, without its final NUL."""

_LAST_LIST_S: Final = 1.0
"""How long a last list may take to reach the kubelet."""

_STREAM_GRACE_S: Final = 2.0
"""How long a kubelet may take to open another stream; after a registration it does so at once."""

_SOCKET_WORDS: Final = 40
"""Characters of a resource's name in that of its socket, whose whole path has few."""


def own_socket_name(resource_name: str) -> str:
    """Return a name for the socket of one start of a plugin, which no other instance has."""
    return f"{resource_name.rpartition('/')[2][:_SOCKET_WORDS]}-{secrets.token_hex(4)}.sock"


def plugin_socket(kubelet_dir: Path, socket_name: str) -> Path:
    """The path of a socket in the plugins' folder.

    Raises:
        UsageError: the path is too long for a socket.
    """
    path = kubelet_dir / socket_name
    length = len(bytes(path))
    if length > _MAX_SOCKET_PATH_BYTES:
        raise UsageError(
            f"--kubelet-dir: the socket path {path} has {length} bytes, a Unix socket takes {_MAX_SOCKET_PATH_BYTES}; "
            "use a shorter folder"
        )
    return path


@asynccontextmanager
async def serving(
    plugin: DevicePlugin, kubelet_dir: Path, on_lost_stream: Callable[[], None]
) -> AsyncGenerator[asyncio.Task[None], None]:
    """Serve `plugin` on its socket, which is removed at the end; streams break off then, or end after its last list.

    Args:
        plugin: With the name of its socket.
        kubelet_dir: Where that is made.
        on_lost_stream: Called when the kubelet has ended its stream and opens no other.

    Yields:
        The task that follows the device source, once there is a first list. It ends when the source does; its error
        is the source's.

    Raises:
        HostError: the socket cannot be made.
    """
    socket = plugin_socket(kubelet_dir, plugin.socket_name)
    feed, streams = DeviceFeed(), Streams(on_lost_stream)
    server = GrpcServer(_Service(plugin, feed, streams).methods())
    _listen(server, socket)
    source = asyncio.create_task(_publish(plugin, feed), name=f"devices of {plugin.resource_name}")
    try:
        _log.info("Starting to serve '%s' on %s", plugin.resource_name, socket)
        await _first_list(source, feed)
        yield source
    finally:
        _log.info("Stopping to serve '%s' on %s", plugin.resource_name, socket)
        streams.close()
        source.cancel()
        try:
            await _to_its_end(_stop(plugin, feed, server, source))
        finally:
            socket.unlink(missing_ok=True)


async def _stop(plugin: DevicePlugin, feed: DeviceFeed, server: GrpcServer, source: asyncio.Task[None]) -> None:
    await asyncio.gather(source, return_exceptions=True)
    if plugin.last_list is None:
        await server.stop()
    else:
        feed.close(plugin.last_list)
        await server.stop(_LAST_LIST_S)


async def _to_its_end(ending: Coroutine[Any, Any, None]) -> None:
    """Await what a second cancellation must not interrupt."""
    task = asyncio.create_task(ending)
    cancelled = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _publish(plugin: DevicePlugin, feed: DeviceFeed) -> None:
    async with aclosing(plugin.devices()) as lists:
        async for devices in lists:
            feed.publish(devices)


async def _first_list(source: asyncio.Task[None], feed: DeviceFeed) -> None:
    first = asyncio.create_task(feed.first())
    try:
        await asyncio.wait([first, source], return_when=asyncio.FIRST_COMPLETED)
    finally:
        first.cancel()
    if source.done():
        source.result()


def _listen(server: GrpcServer, socket: Path) -> None:
    if not os.access(socket.parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot make the socket {socket}: no permission to write there; make the folder writable")
    try:
        socket.unlink(missing_ok=True)
        server.listen(socket)
    except OSError as error:
        raise HostError(
            f"cannot make the socket {socket}: {error.strerror}; see that nothing else has this name"
        ) from error
