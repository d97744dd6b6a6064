"""A server's side of a connection."""

from __future__ import annotations

import asyncio

from simkubelet.apis.grpc_wire.end import End
from simkubelet.apis.grpc_wire.frames import Frame, Type

__all__ = ["ServerEnd"]


class ServerEnd(End):
    """A connection that greets whoever comes, and sends together what is said in one turn of the event loop."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pieces: list[bytes] = []
        self.send_frame(Frame(Type.SETTINGS, 0, 0, b""))

    def write(self, data: bytes) -> None:
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pieces.append(data)

    def close(self) -> None:
        self.flush()
        super().close()

    def flush(self) -> None:
        """Send what was written in this turn already."""
        if self._pieces:
            super().write(b"".join(self._pieces))
            self._pieces.clear()
