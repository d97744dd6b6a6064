"""What is sent on one connection that speaks HTTP/2: as much as its other side can take, in order on each stream.

Source: RFC 9113, sections 5.2 and 6.9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .frames import FRAME_BYTES, WINDOW_BYTES, Flag, Frame, Headers, Type, header_block

OnSent = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Data:
    """Data that waits to be sent, and what is to be done when it is gone."""

    left: memoryview
    is_last: bool
    on_sent: OnSent | None


@dataclass(slots=True, eq=False)
class _Stream:
    """What waits to be sent on one stream: data, and frames with headers as bytes.

    Attributes:
        widened: How much wider its window is than at its begin; below 0 by what was sent.
    """

    widened: int = 0
    waiting: deque[_Data | bytes] = field(default_factory=deque)
    is_over: bool = False


class Outbox:
    """The streams of one connection, and how much the other side takes.

    Args:
        write: Sends bytes.
        takes_data: Whether the other side reads, so that data can be sent.

    Attributes:
        waiting_bytes: Of the data of all streams that waits.
    """

    def __init__(self, write: Callable[[bytes], None], takes_data: Callable[[], bool]) -> None:
        self._write = write
        self._takes_data = takes_data
        self._window = self._initial_window = WINDOW_BYTES
        self._is_wider = False
        self._streams: dict[int, _Stream] = {}
        self.waiting_bytes = 0

    def __len__(self) -> int:
        return len(self._streams)

    def __contains__(self, stream: int) -> bool:
        return stream in self._streams

    def open(self, stream: int) -> None:
        """A stream begins, from whichever side."""
        self._streams[stream] = _Stream()

    def finish(self, stream: int) -> None:
        """Nothing more will be sent on a stream than what waits."""
        if one := self._streams.get(stream):
            one.is_over = True
            self._flush(stream)

    def drop(self, stream: int) -> None:
        """End a stream with all that waits on it."""
        one = self._streams.pop(stream, None)
        for item in one.waiting if one else ():
            if isinstance(item, _Data):
                self.waiting_bytes -= len(item.left)
            _tell_sent(item)

    def drop_all(self) -> None:
        """End all streams."""
        for stream in list(self._streams):
            self.drop(stream)

    def headers(self, stream: int, headers: Headers | bytes, is_last: bool) -> None:
        """Send headers, or a block of them, after what waits."""
        block, size = headers if isinstance(headers, bytes) else header_block(headers), FRAME_BYTES
        pieces = [block[at : at + size] for at in range(0, len(block), size)] or [b""]
        encoded = b""
        for number, piece in enumerate(pieces):
            kind, flags = (Type.CONTINUATION, 0) if number else (Type.HEADERS, Flag.END_STREAM * is_last)
            last = Flag.END_HEADERS if number == len(pieces) - 1 else 0
            encoded += Frame(kind, flags | last, stream, piece).encoded()
        self._queue(stream, encoded)

    def data(self, stream: int, data: bytes, is_last: bool, on_sent: OnSent | None) -> None:
        """Send data when the windows let it; `on_sent` is called when it is gone, or will never go."""
        self._queue(stream, _Data(memoryview(data), is_last, on_sent))

    def widen(self, stream: int, count: int) -> None:
        """The other side takes so much more; of the connection, for which `flush_wider` follows, where it is 0."""
        if stream == 0:
            self._window += count
            self._is_wider = True
        elif stream in self._streams:
            self._streams[stream].widened += count
            self._flush(stream)

    def resize(self, initial_window: int) -> None:
        """The other side takes so much of each stream before it says otherwise; `flush_wider` follows."""
        self._initial_window = initial_window
        self._is_wider = True

    def flush_wider(self) -> None:
        """Send what the connection's new windows let through.

        That is a look at all streams, so once for any number of frames about windows, which are short.
        """
        if self._is_wider:
            self.flush()

    def _queue(self, stream: int, item: _Data | bytes) -> None:
        if one := self._streams.get(stream):
            if isinstance(item, _Data):
                self.waiting_bytes += len(item.left)
            one.waiting.append(item)
            self._flush(stream)
        else:
            _tell_sent(item)

    def flush(self) -> None:
        """Send what the windows let through, of all streams."""
        self._is_wider = False
        for stream in list(self._streams):
            self._flush(stream)

    def _flush(self, stream: int) -> None:
        """Send what the windows let through."""
        one = self._streams[stream]
        while one.waiting:
            item = one.waiting[0]
            if isinstance(item, bytes):
                self._write(item)
            elif not self._send_some(stream, one, item):
                return
            _tell_sent(one.waiting.popleft())
        if one.is_over:
            self._streams.pop(stream, None)

    def _send_some(self, stream: int, one: _Stream, item: _Data) -> bool:
        """Send of some data what the windows let through; whether that was all."""
        while True:
            count = min(len(item.left), FRAME_BYTES, self._window, self._initial_window + one.widened)
            if item.left and (count <= 0 or not self._takes_data()):
                return False
            piece, item.left = bytes(item.left[:count]), item.left[count:]
            self._window -= count
            one.widened -= count
            self.waiting_bytes -= count
            flags = Flag.END_STREAM if item.is_last and not item.left else 0
            self._write(Frame(Type.DATA, flags, stream, piece).encoded())
            if not item.left:
                return True


def _tell_sent(item: _Data | bytes) -> None:
    if isinstance(item, _Data) and item.on_sent is not None:
        item.on_sent()
