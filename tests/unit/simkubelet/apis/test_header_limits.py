"""What one peer makes the other keep of its headers."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

from simkubelet.apis.grpcwire.end import ConnectionListener, End
from simkubelet.apis.grpcwire.frames import Flag, Frame, Type

MEBIBYTE = 1 << 20
LITERAL = b"\x40\x01a"
"""A header ``a`` that enters the table; the length of its value follows."""
NEWEST = b"\xbe"
"""The newest header of the table."""


def integer(value: int, bits: int, first: int = 0) -> bytes:
    """A number in HPACK's form, after the `first` bits of a byte."""
    largest = (1 << bits) - 1
    encoded = bytearray([first | largest])
    value -= largest
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def connected() -> tuple[End, Mock, Mock]:
    listener, transport = Mock(spec=ConnectionListener), Mock(spec=asyncio.Transport)
    end = End(listener, begins=False)
    end.connection_made(transport)
    end.data_received(Frame(Type.SETTINGS, 0, 0, b"").encoded())
    return end, listener, transport


def send_headers(end: End, stream: int, block: bytes) -> None:
    end.data_received(Frame(Type.HEADERS, Flag.END_HEADERS, stream, block).encoded())


def test_short_block_that_repeats_a_long_header_ends_the_connection() -> None:
    end, listener, transport = connected()
    resized = integer(2 * MEBIBYTE, 5, 0x20)
    send_headers(end, 1, resized + LITERAL + integer(MEBIBYTE, 7) + b"x" * MEBIBYTE)

    send_headers(end, 3, NEWEST * 20_000)

    assert listener.headers.call_count == 1
    transport.close.assert_called_once_with()


def test_block_without_an_end_ends_the_connection() -> None:
    end, listener, transport = connected()
    end.data_received(Frame(Type.HEADERS, 0, 1, b"").encoded())
    continuation = Frame(Type.CONTINUATION, 0, 1, b"x" * MEBIBYTE).encoded()

    for _ in range(17):
        end.data_received(continuation)

    listener.headers.assert_not_called()
    transport.close.assert_called_once_with()
