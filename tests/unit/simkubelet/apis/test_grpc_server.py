"""Fed in: gRPC's own client, and frames written out; observed: answers, errors, and what the server sends back."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from hpack import Decoder, Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin.framework.client import DialError, RpcError, call_once
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.frames import INITIAL_WINDOW_SIZE, PREFACE, WINDOW_BYTES, Flag, Frame, FrameReader, Type
from simkubelet.apis.grpcwire.messages import Code, framed
from simkubelet.apis.grpcwire.served_call import CallError, StreamMethod, UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer
from tests.support.patience import LIMIT_S, until

_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_CHANNEL = [("grpc.use_local_subchannel_pool", 1), *_UNLIMITED]
_SETTINGS = Frame(Type.SETTINGS, 0, 0, b"").encoded()


class Served:
    """A service: each method does with its request what its name says."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.waits = asyncio.Event()

    def server(self) -> GrpcServer:
        return GrpcServer(
            {
                "/test.Echo/Echo": UnaryMethod(api.AllocateRequest.FromString, self._echo),
                "/test.Echo/Refuse": UnaryMethod(api.Empty.FromString, self._refuse),
                "/test.Echo/Break": UnaryMethod(api.Empty.FromString, self._break),
                "/test.Echo/Long": UnaryMethod(api.Empty.FromString, self._long),
                "/test.Echo/Wait": UnaryMethod(api.Empty.FromString, self._wait),
                "/test.Echo/Each": StreamMethod(api.ContainerAllocateRequest.FromString, self._each),
                "/test.Echo/Never": StreamMethod(api.Empty.FromString, self._never),
            }
        )

    async def _echo(self, request: api.AllocateRequest) -> api.AllocateRequest:
        return request

    async def _refuse(self, request: api.Empty) -> api.Empty:
        raise CallError(Code.NOT_FOUND, "näh: 100%\n")

    async def _break(self, request: api.Empty) -> api.Empty:
        raise KeyError("a mistake")

    async def _long(self, request: api.Empty) -> api.CDIDevice:
        return api.CDIDevice(name="x" * (5 << 20))

    async def _wait(self, request: api.Empty) -> api.Empty:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("Wait")
        return request

    async def _each(self, request: api.ContainerAllocateRequest) -> AsyncGenerator[api.CDIDevice, None]:
        for device in request.devices_ids:
            yield api.CDIDevice(name=device)

    async def _never(self, request: api.Empty) -> AsyncGenerator[api.Empty, None]:
        yield api.Empty()
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("Never")


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="grpc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def _serving(folder: Path) -> AsyncIterator[Served]:
    served = Served()
    server = served.server()
    server.listen(folder / "s")
    try:
        async with asyncio.timeout(LIMIT_S):
            yield served
    finally:
        await server.stop()
        (folder / "s").unlink()


@pytest.fixture
async def served(folder: Path) -> AsyncIterator[Served]:
    async with _serving(folder) as serving:
        yield serving


@pytest.fixture
async def channel(served: Served, folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix:{folder}/s", options=_CHANNEL) as connected:
        yield connected


def _unary(channel: grpc.aio.Channel, name: str, **options: Any) -> Any:
    return channel.unary_unary(f"/test.Echo/{name}", bytes, bytes, **options)


def _request(*ids: str) -> bytes:
    return api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)]).SerializeToString()


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_535, 65_536, 4_194_280])
async def test_messages_of_any_size_go_both_ways(channel: grpc.aio.Channel, size: int) -> None:
    request = _request("x" * size)

    assert await _unary(channel, "Echo")(request) == request


async def test_stream_of_many_messages_arrives_whole_and_in_order(channel: grpc.aio.Channel) -> None:
    ids = [f"{number}-" + "x" * 10_000 for number in range(400)]
    request = api.ContainerAllocateRequest(devices_ids=ids).SerializeToString()

    call = channel.unary_stream("/test.Echo/Each", bytes, api.CDIDevice.FromString)(request)

    assert [answer.name async for answer in call] == ids


async def test_answer_may_be_longer_than_a_request(channel: grpc.aio.Channel) -> None:
    answer = api.CDIDevice.FromString(await _unary(channel, "Long")(b""))

    assert len(answer.name) == 5 << 20


async def test_many_calls_at_once_on_one_connection(channel: grpc.aio.Channel) -> None:
    requests = [_request(str(number), "y" * number * 100) for number in range(200)]

    assert await asyncio.gather(*(_unary(channel, "Echo")(request) for request in requests)) == requests


@pytest.mark.parametrize(
    ("path", "request_bytes", "code", "text"),
    [
        ("/test.Echo/Refuse", b"", "NOT_FOUND", "näh: 100%\n"),
        ("/test.Echo/Nothing", b"", "UNIMPLEMENTED", "unknown method Nothing for service test.Echo"),
        ("/no.Service/Echo", b"", "UNIMPLEMENTED", "unknown service no.Service"),
        ("/Echo", b"", "UNIMPLEMENTED", 'malformed method name: "/Echo"'),
        (
            "/test.Echo/Echo",
            _request("x" * (4 << 20)),
            "RESOURCE_EXHAUSTED",
            "grpc: received message larger than max (4194314 vs. 4194304)",
        ),
        ("/test.Echo/Echo", b"\xff", "INTERNAL", "grpc: error unmarshalling request: Error parsing message"),
    ],
)
async def test_errors_are_those_of_a_server_in_go(
    channel: grpc.aio.Channel, path: str, request_bytes: bytes, code: str, text: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary(path, bytes, bytes)(request_bytes)

    details = refused.value.details() or ""
    assert (refused.value.code().name, details[: len(text)]) == (code, text)


async def test_mistake_in_a_method_fails_the_call_and_is_logged(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _unary(channel, "Break")(b"")

    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNKNOWN, "'a mistake'")
    assert "/test.Echo/Break failed: Traceback" in caplog.text
    assert await _unary(channel, "Echo")(b"") == b""


async def test_deadline_ends_a_call_on_both_sides(channel: grpc.aio.Channel, served: Served) -> None:
    timeout_s = 0.1
    # On a busy machine its time may be over before it comes to the server.
    while not served.waits.is_set():
        timeout_s *= 2
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _unary(channel, "Wait")(b"", timeout=timeout_s)

    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: "Wait" in served.ended)


async def test_call_that_the_client_gives_up_is_broken_off(channel: grpc.aio.Channel, served: Served) -> None:
    call = channel.unary_stream("/test.Echo/Never", bytes, bytes)(b"")
    assert await call.read() == b""
    await served.waits.wait()
    call.cancel()

    await until(lambda: "Never" in served.ended)


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_stop_closes_a_connection_of_that_moment(folder: Path, turns: int, is_cancelled: bool) -> None:
    server = GrpcServer({})
    server.listen(folder / "s.sock")
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        client.connect(str(folder / "s.sock"))
        for _ in range(turns):
            await asyncio.sleep(0)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        if is_cancelled:
            stopping.cancel()
        await asyncio.wait([stopping])

        async with asyncio.timeout(LIMIT_S):
            with suppress(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(client, 100):
                    pass


async def test_stop_breaks_calls_off(folder: Path) -> None:
    served = Served()
    server = served.server()
    server.listen(folder / "s")
    async with grpc.aio.insecure_channel(f"unix:{folder}/s", options=_CHANNEL) as channel:
        call = asyncio.ensure_future(_unary(channel, "Wait")(b""))
        await served.waits.wait()
        await server.stop()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call

    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert served.ended == ["Wait"]


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
async def _raw(folder: Path, settings_frame: bytes = _SETTINGS) -> AsyncIterator[RawClient]:
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
    request = framed(_request("a"))
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
    request = framed(_request("x" * 100_000))
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
    request = framed(_request("x" * size))
    async with _serving(folder), _raw(folder, b"") as client:
        sent = _SETTINGS + b"".join(
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
    async with _serving(folder):
        async with _raw(folder) as client:
            client.writer.write(b"".join(frame.encoded() for frame in frames))
        assert await call_once(folder / "s", "/test.Echo/Echo", _request("a"), LIMIT_S) == _request("a")


async def test_call_reaches_a_server_of_grpcs_own(folder: Path) -> None:
    async def answer(request: bytes, context: Any) -> bytes:
        return request * 1000

    async def refuse(request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.ALREADY_EXISTS, "no: 50% ä")
        return b""

    server = grpc.aio.server()
    handlers = {
        "Answer": grpc.unary_unary_rpc_method_handler(answer),
        "Refuse": grpc.unary_unary_rpc_method_handler(refuse),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.S", handlers),))
    server.add_insecure_port(f"unix:{folder}/g")
    await server.start()
    try:
        assert await call_once(folder / "g", "/test.S/Answer", b"x" * 1000, LIMIT_S) == b"x" * 1_000_000
        with pytest.raises(RpcError) as refused:
            await call_once(folder / "g", "/test.S/Refuse", b"", LIMIT_S)
        with pytest.raises(RpcError) as unknown:
            await call_once(folder / "g", "/test.S/Nothing", b"", LIMIT_S)
    finally:
        await server.stop(None)

    assert str(refused.value) == "rpc error: code = AlreadyExists desc = no: 50% ä"
    assert str(unknown.value).startswith("rpc error: code = Unimplemented desc = ")


async def test_call_without_a_server_ends_after_its_time(folder: Path) -> None:
    with pytest.raises(DialError):
        await call_once(folder / "nobody", "/test.S/Answer", b"", 0.01)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", "code = Unavailable desc = error reading from server: EOF"),
        (Frame(Type.RST_STREAM, 0, 1, (7).to_bytes(4)).encoded(), "code = Unavailable desc = stream terminated by"),
        (Frame(Type.RST_STREAM, 0, 1, (2).to_bytes(4)).encoded(), "code = Internal desc = stream terminated by"),
        (
            Frame(Type.DATA, Flag.END_STREAM, 1, b"").encoded(),
            "code = Internal desc = server closed the stream without",
        ),
    ],
)
async def test_call_that_breaks_off_says_so_in_gos_words(folder: Path, answer: bytes, error: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_SETTINGS)
        frames = FrameReader()
        await reader.readexactly(len(PREFACE))
        while not any(frame.type == Type.DATA for frame in frames.frames()):
            frames.feed(await reader.read(1000))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_unix_server(serve, str(folder / "s"))
    try:
        with pytest.raises(RpcError) as failed:
            await call_once(folder / "s", "/test.S/Answer", b"", LIMIT_S)
    finally:
        server.close()

    assert str(failed.value).startswith(f"rpc error: {error}")
