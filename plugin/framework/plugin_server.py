"""One plugin at work: its socket, its gRPC server, its device source."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from simkubelet.apis.grpcwire.server import GrpcServer

from ..errors import HostError, UsageError
from .device_plugin import DevicePlugin
from .service import DeviceFeed, DevicePluginService

__all__ = ["MAX_SOCKET_PATH_BYTES", "plugin_socket", "serving"]

_log = logging.getLogger(__name__)

MAX_SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket on Linux, without its final NUL."""

_LAST_LIST_S: Final = 1.0
"""How long a last list may take to reach the kubelet."""


def plugin_socket(kubelet_dir: Path, socket_name: str) -> Path:
    """The path of a socket in the plugins' folder.

    Raises:
        UsageError: the path is too long for a socket.
    """
    path = kubelet_dir / socket_name
    length = len(bytes(path))
    if length > MAX_SOCKET_PATH_BYTES:
        raise UsageError(
            f"--kubelet-dir: the socket path {path} has {length} bytes, a Unix socket takes {MAX_SOCKET_PATH_BYTES}; "
            "use a shorter folder"
        )
    return path


@asynccontextmanager
async def serving(plugin: DevicePlugin, kubelet_dir: Path) -> AsyncGenerator[asyncio.Task[None], None]:
    """Serve `plugin` on its socket, which is removed at the end; streams break off then, or end after its last list.

    Yields:
        The task that follows the device source, once there is a first list. It ends when the source does; its error
        is the source's.

    Raises:
        HostError: the socket cannot be made.
    """
    socket = plugin_socket(kubelet_dir, plugin.socket_name)
    feed = DeviceFeed()
    server = GrpcServer(DevicePluginService(plugin, feed).methods())
    _listen(server, socket)
    source = asyncio.create_task(_publish(plugin, feed), name=f"devices of {plugin.resource_name}")
    try:
        _log.info("Starting to serve '%s' on %s", plugin.resource_name, socket)
        await _first_list(source, feed)
        yield source
    finally:
        _log.info("Stopping to serve '%s' on %s", plugin.resource_name, socket)
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
