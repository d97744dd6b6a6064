"""A device plugin made of bytes: HTTP/2 by hand, so that it sends what no gRPC library would, and as fast as it goes.

It answers each call with the frames that a test gives for its method, in DATA frames as large as the kubelet's flow
control lets them be.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 0x1, 0x4, 0x1
_INITIAL_WINDOW = 0x4
_FRAME_LIMIT = 16384
# HPACK: `:status: 200` of the static table, then a content type as a literal.
_RESPONSE = b"\x88\x0f\x10\x10application/grpc"
_METHODS = ("GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate", "PreStartContainer")


def message(content: bytes) -> bytes:
    """One message as gRPC frames it."""
    return b"\0" + len(content).to_bytes(4, "big") + content


def trailers(status: int = 0, text: str = "") -> bytes:
    """The end of a call, in HPACK's literals."""
    fields = [(b"grpc-status", str(status).encode()), (b"grpc-message", text.encode())]
    return b"".join(
        b"\0" + bytes([len(name)]) + name + _hpack_length(len(value)) + value for name, value in fields if value
    )


def _hpack_length(length: int) -> bytes:
    if length < 127:
        return bytes([length])
    rest, encoded = length - 127, bytearray([127])
    while rest >= 128:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*encoded, rest])


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


class WirePlugin:
    """Serves one socket.

    Attributes:
        sent: messages' bytes that the kubelet's flow control has let through, by method.

    Args:
        answers: method -> what to send, in pieces; a method without answer is never answered.
        stays_open: methods whose stream is not ended after the last piece.
    """

    def __init__(
        self, socket: Path, answers: Mapping[str, Iterable[bytes]], stays_open: Iterable[str] = ("ListAndWatch",)
    ) -> None:
        self._socket = socket
        self._answers = answers
        self._stays_open = frozenset(stays_open)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.sent: dict[str, int] = {}
        self.has_ended = asyncio.Event()
        """The kubelet has gone, or has cut the stream."""

    async def serve(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self._socket)

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(_Connection(self, reader, writer).run())
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)


class _Connection:
    def __init__(self, plugin: WirePlugin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._plugin = plugin
        self._reader = reader
        self._writer = writer
        self._initial_window = 65535
        self._windows = {0: 65535}
        self._window_grew = asyncio.Condition()
        self._calls: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            await self._reader.readexactly(len(_PREFACE))
            self._writer.write(_frame(_SETTINGS, 0, 0))
            while True:
                await self._take_frame()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._plugin.has_ended.set()
            for call in self._calls.values():
                call.cancel()
            await asyncio.gather(*self._calls.values(), return_exceptions=True)
            self._writer.close()
            with contextlib.suppress(ConnectionError):
                await self._writer.wait_closed()

    async def _take_frame(self) -> None:
        head = await self._reader.readexactly(9)
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
        content = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
        if kind == _SETTINGS and not flags & _ACK:
            await self._set(content)
        elif kind == _PING and not flags & _ACK:
            self._writer.write(_frame(_PING, _ACK, 0, content))
        elif kind == _WINDOW_UPDATE:
            await self._widen(stream, int.from_bytes(content, "big"))
        elif kind == _HEADERS:
            method = next(name for name in _METHODS if name.encode() in content)
            self._windows.setdefault(stream, self._initial_window)
            self._calls[stream] = asyncio.create_task(self._answer(stream, method))
        elif kind in (_RST_STREAM, _GOAWAY):
            self._plugin.has_ended.set()

    async def _set(self, content: bytes) -> None:
        for at in range(0, len(content), 6):
            if int.from_bytes(content[at : at + 2], "big") == _INITIAL_WINDOW:
                window = int.from_bytes(content[at + 2 : at + 6], "big")
                for stream in self._windows.keys() - {0}:
                    await self._widen(stream, window - self._initial_window)
                self._initial_window = window
        self._writer.write(_frame(_SETTINGS, _ACK, 0))

    async def _widen(self, stream: int, increment: int) -> None:
        async with self._window_grew:
            self._windows[stream] = self._windows.get(stream, self._initial_window) + increment
            self._window_grew.notify_all()

    async def _answer(self, stream: int, method: str) -> None:
        pieces = self._plugin._answers.get(method)
        if pieces is None:
            return
        self._writer.write(_frame(_HEADERS, _END_HEADERS, stream, _RESPONSE))
        for piece in pieces:
            await self._send(stream, method, piece)
        if method not in self._plugin._stays_open:
            self._writer.write(_frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, trailers()))

    async def _send(self, stream: int, method: str, piece: bytes) -> None:
        rest = memoryview(piece)
        while rest:
            async with self._window_grew:
                await self._window_grew.wait_for(lambda: min(self._windows[0], self._windows[stream]) > 0)
                size = min(len(rest), _FRAME_LIMIT, self._windows[0], self._windows[stream])
                for each in (0, stream):
                    self._windows[each] -= size
            self._writer.write(_frame(_DATA, 0, stream, bytes(rest[:size])))
            await self._writer.drain()
            self._plugin.sent[method] = self._plugin.sent.get(method, 0) + size
            rest = rest[size:]
