"""Fed in: frames written out; observed: what the server sends back."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hpack import Decoder, Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin.framework.client import call_once
from simkubelet.apis.grpcwire.frames import INITIAL_WINDOW_SIZE, PREFACE, WINDOW_BYTES, Flag, Frame, FrameReader, Type
from simkubelet.apis.grpcwire.messages import framed
from tests.support.patience import LIMIT_S

from .conftest import SETTINGS, Served, request_for, serving


class RawClient:
    """Frames to a server, and what comes back, with its headers read."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.encoder = Encoder()
        self._decoder = Decoder()
        self._stream = reader
        self._frames = FrameReader()

    def headers(self, path: str, **more: str) -> bytes:
        named = {":method": "POST", ":path": path, "content-type": "application/grpc", **more}
        return bytes(self.encoder.encode({name.replace("_", "-"): value for name, value in named.items()}))

    async def frame(self, *kinds: Type) -> Frame:
        """The next frame of these kinds."""
        while True:
            for frame in self._frames.frames():
                if frame.type in kinds:
                    return frame
            received = await self._stream.read(1 << 16)
            if not received:
                raise EOFError
            self._frames.feed(received)

    async def call_ends(self) -> tuple[bytes, dict[str, str]]:
        """All data of the one call, and its trailers."""
        data = b""
        while True:
            frame = await self.frame(Type.DATA, Type.HEADERS)
            if frame.type == Type.DATA:
                data += frame.content()
                continue
            headers = {str(name): str(value) for name, value in self._decoder.decode(frame.content())}
            if frame.has(Flag.END_STREAM):
                return data, headers


@asynccontextmanager
async def _raw(folder: Path, settings_frame: bytes = SETTINGS) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_unix_connection(str(folder / "s"))
    writer.write(PREFACE + settings_frame)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


async def test_ping_is_answered_and_settings_are_acknowledged(served: Served, folder: Path) -> None:
    async with _raw(folder) as client:
        assert await client.frame(Type.SETTINGS) == Frame(Type.SETTINGS, 0, 0, b"")
        assert (await client.frame(Type.SETTINGS)).has(Flag.ACK)
        client.writer.write(Frame(Type.PING, 0, 0, b"12345678").encoded())
        assert await client.frame(Type.PING) == Frame(Type.PING, Flag.ACK, 0, b"12345678")


async def test_padding_priority_continuation_and_frames_of_no_known_kind(served: Served, folder: Path) -> None:
    request = framed(request_for("a"))
    async with _raw(folder) as client:
        block = client.headers("/test.Echo/Echo", x_more="z" * 100)
        client.writer.write(Frame(0xEE, 0xFF, 0, b"grease").encoded())
        client.writer.write(Frame(Type.PRIORITY, 0, 1, b"\0\0\0\0\1").encoded())
        first = b"\3" + b"\0\0\0\0\1" + block[:10] + b"\0\0\0"
        client.writer.write(Frame(Type.HEADERS, Flag.PADDED | Flag.PRIORITY, 1, first).encoded())
        client.writer.write(Frame(Type.CONTINUATION, 0, 1, block[10:20]).encoded())
        client.writer.write(Frame(Type.CONTINUATION, Flag.END_HEADERS, 1, block[20:]).encoded())
        client.writer.write(Frame(Type.DATA, Flag.PADDED, 1, b"\2" + request[:3] + b"\0\0").encoded())
        client.writer.write(Frame(Type.DATA, 0, 1, b"").encoded())
        client.writer.write(Frame(Type.DATA, Flag.END_STREAM, 1, request[3:]).encoded())
        client.writer.write(Frame(Type.GOAWAY, 0, 0, bytes(8)).encoded())

        data, ends = await client.call_ends()

    assert data == request
    assert ends["grpc-status"] == "0"


async def test_answer_waits_for_the_windows_of_stream_and_connection(served: Served, folder: Path) -> None:
    request = framed(request_for("x" * 100_000))
    small = Frame(Type.SETTINGS, 0, 0, INITIAL_WINDOW_SIZE.to_bytes(2) + (1000).to_bytes(4)).encoded()
    async with _raw(folder, small) as client:
        client.writer.write(Frame(Type.HEADERS, Flag.END_HEADERS, 1, client.headers("/test.Echo/Echo")).encoded())
        for at in range(0, len(request), 10_000):
            last = Flag.END_STREAM if at + 10_000 >= len(request) else 0
            client.writer.write(Frame(Type.DATA, last, 1, request[at : at + 10_000]).encoded())
        assert len((await client.frame(Type.DATA)).payload) == 1000
        client.writer.write(Frame(Type.PING, 0, 0, bytes(8)).encoded())
        assert (await client.frame(Type.PING, Type.DATA)).type == Type.PING
        client.writer.write(Frame(Type.WINDOW_UPDATE, 0, 1, (1 << 20).to_bytes(4)).encoded())
        got = 1000
        while got < WINDOW_BYTES:
            got += len((await client.frame(Type.DATA)).payload)
        assert got == WINDOW_BYTES
        client.writer.write(Frame(Type.WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4)).encoded())
        data, _ = await client.call_ends()

    assert got + len(data) == len(request)


async def test_client_is_let_send_more_than_the_first_window(served: Served, folder: Path) -> None:
    async with _raw(folder) as client:
        client.writer.write(Frame(Type.HEADERS, Flag.END_HEADERS, 1, client.headers("/test.Echo/Echo")).encoded())
        client.writer.write(Frame(Type.DATA, 0, 1, framed(bytes(50_000))[:16_384]).encoded())
        updates = [await client.frame(Type.WINDOW_UPDATE) for _ in range(2)]

    assert {(frame.stream, int.from_bytes(frame.payload)) for frame in updates} == {(0, 16_384), (1, 16_384)}


@pytest.mark.parametrize(
    ("encoding", "code", "text"),
    [
        ("gzip", "12", 'grpc: Decompressor is not installed for grpc-encoding "gzip"'),
        ("identity", "13", "grpc: compressed flag set with identity or empty encoding"),
    ],
)
async def test_compressed_message_is_refused(served: Served, folder: Path, encoding: str, code: str, text: str) -> None:
    packed = gzip.compress(b"")
    async with _raw(folder) as client:
        headers = client.headers("/test.Echo/Echo", grpc_encoding=encoding)
        client.writer.write(Frame(Type.HEADERS, Flag.END_HEADERS, 1, headers).encoded())
        body = b"\1" + len(packed).to_bytes(4) + packed
        client.writer.write(Frame(Type.DATA, Flag.END_STREAM, 1, body).encoded())
        _, ends = await client.call_ends()

    assert (ends["grpc-status"], ends["grpc-message"]) == (code, text)


async def test_request_that_ends_without_a_message_is_an_error(served: Served, folder: Path) -> None:
    async with _raw(folder) as client:
        flags = Flag.END_HEADERS | Flag.END_STREAM
        client.writer.write(Frame(Type.HEADERS, flags, 1, client.headers("/test.Echo/Echo")).encoded())
        _, ends = await client.call_ends()

    assert ends["grpc-status"] == "13"


async def test_what_is_no_grpc_gets_415(served: Served, folder: Path) -> None:
    async with _raw(folder) as client:
        flags = Flag.END_HEADERS | Flag.END_STREAM
        block = bytes(client.encoder.encode([(":method", "GET"), (":path", "/"), ("content-type", "text/html")]))
        client.writer.write(Frame(Type.HEADERS, flags, 1, block).encoded())
        _, ends = await client.call_ends()

    assert ends == {":status": "415"}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 400), max_size=30), st.integers(0, 40))
async def test_bytes_may_be_cut_anywhere(folder: Path, cuts: list[int], size: int) -> None:
    request = framed(request_for("x" * size))
    async with serving(folder), _raw(folder, b"") as client:
        sent = SETTINGS + b"".join(
            Frame(Type.HEADERS, Flag.END_HEADERS, stream, client.headers("/test.Echo/Echo")).encoded()
            + Frame(Type.DATA, Flag.END_STREAM, stream, request).encoded()
            for stream in (1, 3)
        )
        for cut in cuts:
            client.writer.write(sent[:cut])
            sent = sent[cut:]
            await asyncio.sleep(0)
        client.writer.write(sent)

        for _ in range(2):
            data, ends = await client.call_ends()
            assert (data, ends["grpc-status"]) == (request, "0")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(Frame, st.integers(0, 10), st.integers(0, 255), st.integers(0, 5), st.binary(max_size=40)), max_size=8
    )
)
async def test_no_frames_harm_the_server(folder: Path, frames: list[Frame]) -> None:
    async with serving(folder):
        async with _raw(folder) as client:
            client.writer.write(b"".join(frame.encoded() for frame in frames))
        assert await call_once(folder / "s", "/test.Echo/Echo", request_for("a"), LIMIT_S) == request_for("a")
