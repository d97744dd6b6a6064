"""What one peer makes the other keep of its headers."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from simkubelet.apis.grpcwire.end import ConnectionListener, End
from simkubelet.apis.grpcwire.frames import FRAME_BYTES, HEADER_TABLE_SIZE, Flag, Frame, Type

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
    send_headers(end, 1, LITERAL + integer(4000, 7) + b"x" * 4000)

    send_headers(end, 3, NEWEST * 20_000)

    assert listener.headers.call_count == 1
    transport.close.assert_called_once_with()


def test_block_without_an_end_ends_the_connection() -> None:
    end, listener, transport = connected()
    end.data_received(Frame(Type.HEADERS, 0, 1, b"").encoded())
    continuation = Frame(Type.CONTINUATION, 0, 1, b"x" * FRAME_BYTES).encoded()

    for _ in range(2 * 1024 * 1024 // FRAME_BYTES):
        end.data_received(continuation)
    transport.close.assert_not_called()
    end.data_received(continuation)

    listener.headers.assert_not_called()
    transport.close.assert_called_once_with()


@pytest.mark.parametrize(
    ("announced", "size", "is_taken"),
    [
        pytest.param(None, 4096, True, id="as by default"),
        pytest.param(None, 4097, False, id="more than by default"),
        pytest.param(65536, 65536, True, id="as announced"),
        pytest.param(65536, 65537, False, id="more than announced"),
        pytest.param(1024, 4096, True, id="less announced and not read yet"),
        pytest.param((1 << 32) - 1, (1 << 32) - 1, False, id="anything announced"),
    ],
)
def test_table_is_as_large_as_it_was_announced(announced: int | None, size: int, is_taken: bool) -> None:
    end, listener, transport = connected()
    if announced is not None:
        end.send_frame(Frame(Type.SETTINGS, 0, 0, HEADER_TABLE_SIZE.to_bytes(2) + announced.to_bytes(4)))

    send_headers(end, 1, integer(size, 5, 0x20) + LITERAL + b"\0")

    assert (listener.headers.call_count, transport.close.call_count) == (is_taken, not is_taken)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b"\x82" * 200_000, id="names of the table"),
        pytest.param(b"\0\x01a\x01b" * 70_000, id="short headers"),
        pytest.param(b"\0\x01a" + integer(2_200_000, 7, 0x80) + bytes(2_200_000), id="packed text"),
    ],
)
def test_block_that_takes_long_to_decode_ends_the_connection(block: bytes) -> None:
    end, listener, transport = connected()
    pieces = [block[at : at + FRAME_BYTES] for at in range(0, len(block), FRAME_BYTES)]

    for number, piece in enumerate(pieces):
        flags = Flag.END_HEADERS if number == len(pieces) - 1 else 0
        end.data_received(Frame(Type.CONTINUATION if number else Type.HEADERS, flags, 1, piece).encoded())

    listener.headers.assert_not_called()
    transport.close.assert_called()
