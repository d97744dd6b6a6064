"""A connection to a plugin that costs next to nothing and can be cut anywhere.

gRPC for Python takes 0.3 ms for a call and closes when it likes. Here calls are made over a blocking socket, with
frames written out.
"""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from google.protobuf.message import Message
from hpack import Encoder

from simkubelet.apis.grpcwire.frames import INITIAL_WINDOW_SIZE, PREFACE, Flag, Frame, FrameReader, Type
from tests.support.patience import LIMIT_S

__all__ = ["BareConnection"]

_WINDOW: Final = (1 << 31) - 1
_PREFIX_BYTES: Final = 5
"""Before each message: a byte for its compression, four for its length."""


class BareConnection:
    """Calls to one plugin, one after the other; a ListAndWatch stream may be open beside them."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(path))
        self._reader = FrameReader()
        self._frames = self._reader.frames()
        self._data: dict[int, bytearray] = {}
        self._ended: set[int] = set()
        self._next_stream = 1
        self._encoder = Encoder()
        self._methods: set[str] = set()
        self._blocks: dict[str, bytes] = {}
        settings = Frame(Type.SETTINGS, 0, 0, INITIAL_WINDOW_SIZE.to_bytes(2) + _WINDOW.to_bytes(4))
        widen = Frame(Type.WINDOW_UPDATE, 0, 0, (_WINDOW - 65535).to_bytes(4))
        self._socket.sendall(PREFACE + settings.encoded() + widen.encoded())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def begin(self, method: str, request: Message) -> int:
        """Send a request to the DevicePlugin service; returns its stream."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        self._data[stream] = bytearray()
        headers = self._header_block(method)
        message = request.SerializeToString()
        body = b"\0" + len(message).to_bytes(4) + message
        head = Frame(Type.HEADERS, Flag.END_HEADERS, stream, headers)
        self._socket.sendall(head.encoded() + Frame(Type.DATA, Flag.END_STREAM, stream, body).encoded())
        return stream

    def _header_block(self, method: str) -> bytes:
        """The headers of a call; from the third call on they are indices in the table alone, as those of any client."""
        if method in self._blocks:
            return self._blocks[method]
        block = bytes(
            self._encoder.encode(
                [
                    (":method", "POST"),
                    (":scheme", "http"),
                    (":path", f"/v1beta1.DevicePlugin/{method}"),
                    (":authority", "localhost"),
                    ("content-type", "application/grpc"),
                    ("te", "trailers"),
                ]
            )
        )
        if method in self._methods:
            self._blocks[method] = block
        else:
            # What is new in the table moves all that is in it.
            self._methods.add(method)
            self._blocks.clear()
        return block

    def message(self, stream: int) -> bytes:
        """The next message of a stream.

        Raises:
            EOFError: the stream or the connection has ended without one.
        """
        data = self._data[stream]
        while len(data) < _PREFIX_BYTES or len(data) < _PREFIX_BYTES + int.from_bytes(data[1:_PREFIX_BYTES]):
            if stream in self._ended:
                raise EOFError(f"stream {stream} has ended")
            self._take_frame()
        end = _PREFIX_BYTES + int.from_bytes(data[1:_PREFIX_BYTES])
        found = bytes(data[_PREFIX_BYTES:end])
        del data[:end]
        return found

    def call(self, method: str, request: Message) -> bytes:
        """Make a call and wait for its end.

        Raises:
            EOFError: it was refused.
        """
        stream = self.begin(method, request)
        answer = self.message(stream)
        while stream not in self._ended:
            self._take_frame()
        return answer

    def _take_frame(self) -> None:
        frame = next(self._frames, None)
        if frame is None:
            received = self._socket.recv(1 << 16)
            if not received:
                raise EOFError("the plugin has closed the connection")
            self._reader.feed(received)
            self._frames = self._reader.frames()
            return
        if frame.type == Type.DATA:
            self._data[frame.stream] += frame.content()
        if frame.type in (Type.SETTINGS, Type.PING) and not frame.has(Flag.ACK):
            payload = frame.payload if frame.type == Type.PING else b""
            self._socket.sendall(Frame(frame.type, Flag.ACK, 0, payload).encoded())
        if frame.type == Type.RST_STREAM or (frame.type in (Type.DATA, Type.HEADERS) and frame.has(Flag.END_STREAM)):
            self._ended.add(frame.stream)
