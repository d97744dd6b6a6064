"""HTTP/2 on the wire, as far as gRPC uses it: frames, and headers in the plainest form.

Source: RFC 9113, sections 3.4, 4.1, 6 and 7; RFC 7541, sections 5 and 6.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "CANCEL",
    "ENHANCE_YOUR_CALM",
    "FLOW_CONTROL_ERROR",
    "FRAME_BYTES",
    "HEADER_TABLE_SIZE",
    "INITIAL_WINDOW_SIZE",
    "MAX_FRAME_SIZE",
    "PREFACE",
    "REFUSED_STREAM",
    "WINDOW_BYTES",
    "Flag",
    "Frame",
    "FrameReader",
    "FrameTooLargeError",
    "Headers",
    "Type",
    "header_block",
    "plain_headers",
]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client begins with."""
FLOW_CONTROL_ERROR: Final = 3
"""The code of a stream on which more comes than its window lets through."""
REFUSED_STREAM: Final = 7
"""The code of a stream about which nothing is done."""
CANCEL: Final = 8
"""The code of a stream that nobody needs any more."""
ENHANCE_YOUR_CALM: Final = 11
"""The code of a connection that costs too much."""
WINDOW_BYTES: Final = 65535
"""What a receiver takes of a stream, and of a connection, before it says otherwise."""
FRAME_BYTES: Final = 16384
"""The longest payload that every receiver takes."""
HEADER_TABLE_SIZE: Final = 1
"""The setting that says how many bytes of headers its sender remembers."""
MAX_FRAME_SIZE: Final = 5
"""The setting that says how long a payload its sender takes."""
INITIAL_WINDOW_SIZE: Final = 4
"""The setting that says how much its sender takes of each stream."""
_HEADER_BYTES: Final = 9
_KNOWN_BLOCKS: Final = 256
_LONG_TEXT: Final = 127
"""A length that has more than one digit, or whose text is Huffman's."""

Headers: TypeAlias = list[tuple[bytes, bytes]]


class Type(IntEnum):
    """The kinds of frames that are not just passed on."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(IntEnum):
    """Bits of a frame; ACK is of settings and pings."""

    END_STREAM = 0x1
    ACK = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20


class Frame(NamedTuple):
    """One frame; `stream` 0 is the connection."""

    type: int
    flags: int
    stream: int
    payload: bytes

    def encoded(self) -> bytes:
        """Its bytes."""
        head = len(self.payload).to_bytes(3) + bytes((self.type, self.flags)) + self.stream.to_bytes(4)
        return head + self.payload

    def has(self, flag: Flag) -> bool:
        """Whether a bit is set."""
        return bool(self.flags & flag)

    def content(self) -> bytes:
        """The payload of DATA or HEADERS without padding and priority."""
        begin, end = 0, len(self.payload)
        if self.has(Flag.PADDED):
            begin, end = 1, end - self.payload[0]
        if self.type == Type.HEADERS and self.has(Flag.PRIORITY):
            begin += 5
        return self.payload[begin:end]

    def settings(self) -> Iterator[tuple[int, int]]:
        """Number and value of each setting."""
        for at in range(0, len(self.payload) - 5, 6):
            yield int.from_bytes(self.payload[at : at + 2]), int.from_bytes(self.payload[at + 2 : at + 6])


class FrameTooLargeError(Exception):
    """A frame is longer than its receiver takes."""

    def __init__(self) -> None:
        super().__init__("http2: frame too large")


class FrameReader:
    """Cuts what comes on a connection into frames.

    Attributes:
        largest_bytes: Of a frame's payload.
    """

    def __init__(self) -> None:
        self.largest_bytes = FRAME_BYTES
        self._received = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what has come."""
        self._received += data

    def peek(self, count: int) -> bytes:
        """The next bytes, so many at most, which stay."""
        return bytes(self._received[:count])

    def take(self, count: int) -> bytes:
        """The next bytes as they are, so many at most."""
        taken = self.peek(count)
        del self._received[:count]
        return taken

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._received))

    def next_type(self) -> int | None:
        """The kind of the next frame; None while it is not known."""
        return self._received[3] if len(self._received) >= _HEADER_BYTES else None

    def frames(self) -> Iterator[Frame]:
        """All frames that are complete.

        Raises:
            FrameTooLargeError: The next one is too long; it need not be complete.
        """
        while len(self._received) >= _HEADER_BYTES:
            length = int.from_bytes(self._received[:3])
            if length > self.largest_bytes:
                raise FrameTooLargeError
            if len(self._received) < _HEADER_BYTES + length:
                return
            head = bytes(self._received[:_HEADER_BYTES])
            payload = bytes(self._received[_HEADER_BYTES : _HEADER_BYTES + length])
            del self._received[: _HEADER_BYTES + length]
            yield Frame(head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF, payload)


def header_block(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Headers as literals that no table remembers, so that blocks can be left out and put in."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in headers)


@lru_cache(_KNOWN_BLOCKS)
def plain_headers(block: bytes) -> tuple[tuple[bytes, bytes], ...] | None:
    """The headers of a short block that is written as `header_block` writes it; None for any other.

    A decoder need not see such a block, since no table changes by it. Most blocks of a connection are equal, so the
    latest ones are remembered.
    """
    headers: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(block):
        if block[at]:
            return None
        name, after_name = _plain_text(block, at + 1)
        value, at = _plain_text(block, after_name)
        if name is None or value is None:
            return None
        headers.append((name, value))
    return tuple(headers)


def _plain_text(block: bytes, at: int) -> tuple[bytes | None, int]:
    """A text that begins at a place, and where it ends; None for one that is not short and plain, or not whole."""
    size = block[at] if at < len(block) else _LONG_TEXT
    end = at + 1 + size
    return (None if size >= _LONG_TEXT or end > len(block) else block[at + 1 : end]), end


def _text(text: bytes) -> bytes:
    return _integer(len(text)) + text


def _integer(value: int) -> bytes:
    """A number with a prefix of seven bits."""
    if value < 127:
        return bytes((value,))
    rest, digits = value - 127, bytearray((127,))
    while rest >= 128:
        digits.append(rest % 128 + 128)
        rest //= 128
    return bytes((*digits, rest))
