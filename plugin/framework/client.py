"""What a plugin calls: the kubelet, to register, and any other gRPC server on a Unix socket.

A call is made as by a client in Go that waits for its connection.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import ClientConnection, RpcError

from .device_plugin import DevicePlugin, StartError

__all__ = [
    "REGISTRATION",
    "DialError",
    "RegistrationError",
    "RpcError",
    "call_once",
    "is_listening",
    "register",
    "send",
]

_PAUSE_S: Final = 0.1
"""Between two tries to connect: a socket may be seen a moment before it accepts."""


class DialError(Exception):
    """Nobody accepted a connection in time."""


async def call_once(server_socket: Path, path: str, request: bytes, dial_timeout_s: float) -> bytes:
    """Call a method, given as in ``/v1beta1.Registration/Register``; the call itself has no time limit.

    Raises:
        DialError: No connection in time.
        RpcError: The server refused, or was lost; the message is as Go prints it.
    """
    connection = None
    try:
        async with asyncio.timeout(dial_timeout_s):
            while connection is None or not connection.is_usable:
                connection = await _opened(ClientConnection(str(server_socket)))
        return await connection.call(path, request)
    except TimeoutError:
        raise DialError(f"{server_socket}: nobody accepts a connection") from None
    finally:
        if connection is not None:
            connection.close()
        # The socket is closed in the next turn of the event loop.
        await asyncio.sleep(0)


def is_listening(server_socket: Path) -> bool:
    """Whether a server takes connections: the socket of one that was killed is still there, and refuses them."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(server_socket))
        except BlockingIOError:
            # So many wait already that there is no place in its queue.
            return True
        except OSError:
            return False
    return True


async def _opened(connection: ClientConnection) -> ClientConnection:
    """A connection that is open, or, after a pause, one that could not be opened."""
    try:
        await connection.open()
    except RpcError:
        await asyncio.sleep(_PAUSE_S)
    except asyncio.CancelledError:
        connection.close()
        raise
    return connection


REGISTRATION: Final = "v1beta1.Registration"
"""The kubelet's gRPC service."""
_DIAL_TIMEOUT_S: Final = 5.0


class RegistrationError(StartError):
    """The kubelet was not reached or refused; the message reads as a Go plugin would log it."""


async def register(plugin: DevicePlugin, kubelet_socket: Path) -> None:
    """Register a plugin that already serves with the kubelet.

    Raises:
        RegistrationError: no kubelet, or it refused.
    """
    request = api.RegisterRequest(
        version=api.VERSION, endpoint=plugin.socket_name, resource_name=str(plugin.resource_name)
    )
    if plugin.options.in_registration:
        request.options.CopyFrom(plugin.options.to_message())
    await send(request, kubelet_socket)


async def send(request: api.RegisterRequest, kubelet_socket: Path, service: str = REGISTRATION) -> None:
    """Make one Register call of a service; wait 5 s at most until the kubelet accepts a connection.

    The call itself has no time limit: the kubelet dials back before it answers.

    Raises:
        RegistrationError: no kubelet, or it refused.
    """
    try:
        await call_once(kubelet_socket, f"/{service}/Register", request.SerializeToString(), _DIAL_TIMEOUT_S)
    except DialError:
        raise RegistrationError("context deadline exceeded") from None
    except RpcError as error:
        raise RegistrationError(str(error)) from None
