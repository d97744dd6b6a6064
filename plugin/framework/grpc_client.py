"""One gRPC call to a server on a Unix socket, as a client in Go makes it that waits for its connection."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from simkubelet.apis.grpcwire.client import ClientConnection, RpcError

__all__ = ["DialError", "RpcError", "call_once"]

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
