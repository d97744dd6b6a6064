"""One connection that speaks HTTP/2, seen from one side: frames in, frames out, and what the other side can take.

What a peer makes the other side keep is bounded. A peer that does not read is sent no more data; when `_MOST_ANSWERS`
answers to its frames wait, its next frames are not read; a connection on which `_MOST_FRAMES` wait is ended.

Source: google.golang.org/grpc v1.72.1, internal/transport/controlbuf.go, ``maxQueuedTransportResponseFrames``, and
http_util.go, ``newFramer``; golang.org/x/net v0.38.0, http2/server.go, ``maxQueuedControlFrames``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from hpack import Decoder, HPACKError, OversizedHeaderListError

from .frames import (
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    PREFACE,
    Flag,
    Frame,
    FrameReader,
    FrameTooLargeError,
    Headers,
    Type,
    plain_headers,
)
from .outbox import OnSent, Outbox

__all__ = [
    "BatchingEnd",
    "ConnectionListener",
    "End",
]

_SHORT_BLOCK: Final = 512
_MOST_ANSWERS: Final = 50
_MOST_FRAMES: Final = 10_000
_MOST_SETTINGS: Final = 100
"""That wait to be acknowledged, on a connection whose frames go to another one."""
_MOST_HEADERS_BYTES: Final = 2 << 20
"""Of one header list, packed or not. A short block can name one long header of the table ten thousand times.

Go's limit is 16 MiB, which takes a decoder in Python fifteen seconds, in which nothing else is done.
"""
_MOST_FRAME_BYTES: Final = (1 << 24) - 1


class ConnectionListener(Protocol):
    """Gets what arrives on a connection; called in the event loop."""

    def raw(self, data: bytes) -> None:
        """What is to be passed on as it is: the preface, and all of a connection that does not speak HTTP/2."""

    def headers(self, stream: int, headers: Headers, is_last: bool) -> None:
        """Headers, the first or the last of a stream's side."""

    def data(self, stream: int, data: bytes, size: int, is_last: bool) -> None:
        """Data; `size` is what it takes of the windows, to be given back with `End.credit`."""

    def reset(self, stream: int, code: int) -> None:
        """A stream was broken off."""

    def frame(self, frame: Frame) -> None:
        """A frame that concerns the whole connection."""

    def lost(self) -> None:
        """It has ended."""


class End(asyncio.Protocol):
    """A connection to a kubelet or a plugin.

    The first frame that it sends is SETTINGS: all others wait until its owner sends that, as a peer ends a connection
    that begins otherwise. Frames of a stream may be ready before: a client need not wait for its server.

    Source: RFC 9113, section 3.4.

    Args:
        listener: Gets what arrives.
        begins: Whether the other side began the connection; then a preface comes first.

    Attributes:
        error: What broke the connection; None where it ended in order, or has not.
        has_sent: Whether a frame with headers or data was sent since its owner has set it to False.
    """

    def __init__(self, listener: ConnectionListener, *, begins: bool) -> None:
        self._listener = listener
        self._reader = FrameReader()
        self._awaits_preface = begins
        self._is_first = True
        self._is_raw = self._is_reading = False
        self._decoder = Decoder(max_header_list_size=_MOST_HEADERS_BYTES)
        self._block: tuple[Frame, bytearray] | None = None
        self._transport: asyncio.Transport | None = None
        self.error: Exception | None = None
        self.has_sent = False
        self._early: list[bytes] | None = []
        # Frames that wait for SETTINGS; of a connection that turns out not to speak HTTP/2 they are never sent.
        self._held: list[bytes] | None = []
        self._outbox = Outbox(self._send_of_stream, lambda: not self._is_behind)
        self._unacknowledged = deque[Frame]()
        self._is_behind = False
        self._answers = self._waiting = 0

    # What comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a stream socket
        self._transport = transport
        early, self._early = self._early, None
        for data in early or ():
            transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.error = error
        if self._is_first:
            self._listener.raw(self._reader.rest())
        self._outbox.drop_all()
        self._listener.lost()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        if not self._is_raw and not self._has_begun():
            return
        if self._is_raw:
            self._listener.raw(self._reader.rest())
            return
        self._is_reading = True
        try:
            for frame in self._reader.frames():
                self._take(frame)
        except (HPACKError, IndexError, FrameTooLargeError):
            # Malformed HPACK closes the connection, on either side.
            self.close()
        finally:
            self._is_reading = False
        self._outbox.flush_wider()

    def pause_writing(self) -> None:
        """The other side does not read what has been sent."""
        self._is_behind = True

    def resume_writing(self) -> None:
        """It has read most of it."""
        self._is_behind = False
        self._answers = self._waiting = 0
        if self._transport is not None:
            self._transport.resume_reading()
        self._outbox.flush()

    def be_raw(self) -> None:
        """Pass on all that comes from here on, and what has come of a frame."""
        if not self._is_raw:
            self._is_raw = True
            self._listener.raw(self._reader.rest())

    def _has_begun(self) -> bool:
        """Whether it is known what is spoken; what is no HTTP/2 is passed on as it is."""
        if self._awaits_preface:
            begins = self._reader.peek(len(PREFACE))
            self._is_raw = not PREFACE.startswith(begins)
            if not self._is_raw and begins != PREFACE:
                return False
            self._awaits_preface = False
            self._listener.raw(self._reader.take(len(begins)))
        if self._is_first and not self._is_raw:
            kind = self._reader.next_type()
            if kind is None:
                return False
            self._is_first = False
            self._is_raw = kind != Type.SETTINGS
        return True

    def _take(self, frame: Frame) -> None:
        match frame.type:
            case Type.HEADERS | Type.CONTINUATION:
                self._take_headers(frame)
            case Type.DATA:
                self._listener.data(frame.stream, frame.content(), len(frame.payload), frame.has(Flag.END_STREAM))
            case Type.RST_STREAM:
                self._outbox.drop(frame.stream)
                self._listener.reset(frame.stream, int.from_bytes(frame.payload))
            case Type.WINDOW_UPDATE:
                self._outbox.widen(frame.stream, int.from_bytes(frame.payload) & 0x7FFFFFFF)
            case Type.SETTINGS:
                if not frame.has(Flag.ACK):
                    self._unacknowledged.append(frame)
                    if len(self._unacknowledged) > _MOST_SETTINGS:
                        self.abort()
                        return
                self._listener.frame(frame)
            case _ if frame.stream == 0:
                self._listener.frame(frame)

    def _take_headers(self, frame: Frame) -> None:
        if frame.type == Type.HEADERS:
            self._block = frame, bytearray(frame.content())
        elif self._block is not None:
            self._block[1].extend(frame.payload)
            if len(self._block[1]) > _MOST_HEADERS_BYTES:
                raise OversizedHeaderListError
        if frame.has(Flag.END_HEADERS) and self._block is not None:
            first, block = self._block
            self._block = None
            self._listener.headers(first.stream, self._decoded(bytes(block)), first.has(Flag.END_STREAM))

    def _decoded(self, block: bytes) -> Headers:
        if len(block) <= _SHORT_BLOCK and (plain := plain_headers(block)) is not None:
            return list(plain)
        return [(bytes(one[0]), bytes(one[1])) for one in self._decoder.decode(block, raw=True)]

    # What goes

    @property
    def streams(self) -> int:
        """How many are open, or have something to be sent."""
        return len(self._outbox)

    @property
    def unread_bytes(self) -> int:
        """How much of what was sent waits for the other side to read."""
        written = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._outbox.waiting_bytes + written

    def open(self, stream: int) -> None:
        """A stream begins, from whichever side."""
        self._outbox.open(stream)

    def finish(self, stream: int) -> None:
        """Nothing more will be sent on a stream than what waits."""
        self._outbox.finish(stream)

    def send_headers(self, stream: int, headers: Headers | bytes, is_last: bool) -> None:
        """Send headers, or a block of them (`header_block`), after what waits."""
        self._outbox.headers(stream, headers, is_last)

    def send_data(self, stream: int, data: bytes, is_last: bool, on_sent: OnSent | None = None) -> None:
        """Send data when the other side can take it; `on_sent` is called when it is gone, or will never go."""
        self._outbox.data(stream, data, is_last, on_sent)

    def send_reset(self, stream: int, code: int) -> None:
        """Break off a stream; what waits is dropped."""
        if stream in self._outbox:
            self._outbox.drop(stream)
            self._answer(Frame(Type.RST_STREAM, 0, stream, code.to_bytes(4)).encoded())

    def refuse(self, stream: int, code: int) -> None:
        """Break off a stream that the other side has begun and that was not opened here."""
        self._answer(Frame(Type.RST_STREAM, 0, stream, code.to_bytes(4)).encoded())

    def credit(self, stream: int, size: int) -> None:
        """Let the other side send so much more, on a stream and on the connection."""
        if size:
            number = size.to_bytes(4)
            of_stream = Frame(Type.WINDOW_UPDATE, 0, stream, number).encoded() if stream in self._outbox else b""
            self._answer(of_stream + Frame(Type.WINDOW_UPDATE, 0, 0, number).encoded())

    def credit_stream(self, stream: int, size: int) -> None:
        """Let the other side send so much more on a stream, where the connection has been given it."""
        if stream in self._outbox:
            self._answer(Frame(Type.WINDOW_UPDATE, 0, stream, size.to_bytes(4)).encoded())

    def send_frame(self, frame: Frame) -> None:
        """Send a frame that concerns the whole connection."""
        if frame.type != Type.SETTINGS:
            self._answer(frame.encoded())
            return
        held, self._held = self._held, None
        if held:
            self.write(frame.encoded() + b"".join(held))
        else:
            self._answer(frame.encoded())
        if not frame.has(Flag.ACK):
            self._announce(frame)
        elif self._unacknowledged:
            # The other side does not keep to its settings before it has this.
            self._apply(self._unacknowledged.popleft())

    def write(self, data: bytes) -> None:
        """Send bytes as they are, once there is a connection."""
        if self._early is not None:
            self._early.append(data)
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _send_of_stream(self, frame: bytes) -> None:
        self.has_sent = True
        self._send(frame)

    def _send(self, frames: bytes) -> None:
        if self._held is None:
            self.write(frames)
        else:
            self._held.append(frames)
        if self._is_behind or self._held is not None:
            self._waiting += 1
            if self._waiting > _MOST_FRAMES:
                self.abort()

    def _answer(self, frames: bytes) -> None:
        """Send frames of which the other side brings about any number."""
        self._send(frames)
        if self._is_behind and self._transport is not None:
            self._answers += 1
            if self._answers == _MOST_ANSWERS:
                self._transport.pause_reading()

    def close(self) -> None:
        """End the connection when what was written is gone; may be called twice."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection at once; may be called twice."""
        if self._transport is not None:
            self._transport.abort()

    def _announce(self, settings: Frame) -> None:
        """Take what the other side is allowed now; less than before only when it has read that, so never."""
        for number, value in settings.settings():
            if number == HEADER_TABLE_SIZE:
                allowed = max(self._decoder.max_allowed_table_size, min(value, _MOST_HEADERS_BYTES))
                self._decoder.max_allowed_table_size = allowed
            elif number == MAX_FRAME_SIZE:
                self._reader.largest_bytes = max(self._reader.largest_bytes, min(value, _MOST_FRAME_BYTES))

    def _apply(self, settings: Frame) -> None:
        for number, value in settings.settings():
            if number == INITIAL_WINDOW_SIZE:
                self._outbox.resize(value)
        if not self._is_reading:
            # Of a connection whose frames go to another one, that has acknowledged them.
            self._outbox.flush_wider()


class BatchingEnd(End):
    """A connection that batches the writes of one loop iteration."""

    def __init__(self, listener: ConnectionListener, *, begins: bool) -> None:
        self._pieces: list[bytes] = []
        super().__init__(listener, begins=begins)

    def write(self, data: bytes) -> None:
        if not self._pieces:
            # Behind what this turn wakes: who waits for an answer does not wait for acknowledgements.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self.flush)
        self._pieces.append(data)

    @property
    def unread_bytes(self) -> int:
        return super().unread_bytes + sum(map(len, self._pieces))

    def close(self) -> None:
        self.flush()
        super().close()

    def flush(self) -> None:
        """Send what was written in this turn already."""
        if self._pieces:
            super().write(b"".join(self._pieces))
            self._pieces.clear()
