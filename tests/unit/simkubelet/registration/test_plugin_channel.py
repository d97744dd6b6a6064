"""Calls to a server written out by hand: how they end in the words of Go's client, and which connection they take.

The texts are those of google.golang.org/grpc v1.72.1, clientconn.go and internal/transport/http2_client.go.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from simkubelet.apis.deviceplugin import AllocateRequest, AllocateResponse, ContainerAllocateResponse, Empty
from simkubelet.apis.grpcwire.client import WINDOW, ConnectionClosedError, RpcError
from simkubelet.apis.grpcwire.frames import PREFACE, Flag, Frame, FrameReader, Headers, Type, header_block
from simkubelet.apis.grpcwire.messages import ANSWER_BEGINS, framed, trailers
from simkubelet.model.version import version
from simkubelet.registration import plugin_client
from simkubelet.registration.plugin_client import PluginChannel
from tests.support.patience import LIMIT_S

ALLOCATE = "/v1beta1.DevicePlugin/Allocate"
SETTINGS = Frame(Type.SETTINGS, 0, 0, b"")
ANSWER = AllocateResponse(container_responses=[ContainerAllocateResponse(envs={"A": "1"})])


def headers(stream: int, values: Headers, *, is_last: bool = False) -> Frame:
    return Frame(Type.HEADERS, Flag.END_HEADERS | (Flag.END_STREAM if is_last else 0), stream, header_block(values))


def data(stream: int, content: bytes, *, is_last: bool = False) -> Frame:
    return Frame(Type.DATA, Flag.END_STREAM if is_last else 0, stream, content)


def reset(stream: int, code: int) -> Frame:
    return Frame(Type.RST_STREAM, 0, stream, code.to_bytes(4))


def goaway(last: int) -> Frame:
    return Frame(Type.GOAWAY, 0, 0, last.to_bytes(4) + bytes(4))


def answered(stream: int, code: int = 0, text: str = "") -> list[Frame]:
    """A whole answer to Allocate."""
    return [
        headers(stream, ANSWER_BEGINS),
        data(stream, framed(ANSWER.SerializeToString())),
        headers(stream, trailers(code, text), is_last=True),
    ]


class GoneError(Exception):
    """The client has closed the connection."""


class Peer:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.frames: list[Frame] = []
        self.credited = {0: 0, 1: 0}
        self.writer = writer
        self._reader = reader
        self._split = FrameReader()

    async def greet(self) -> None:
        await self.preface()
        self.say([SETTINGS])

    async def preface(self) -> None:
        assert await self._reader.readexactly(len(PREFACE)) == PREFACE

    def say(self, frames: Sequence[Frame]) -> None:
        self.writer.write(b"".join(frame.encoded() for frame in frames))

    async def until(self, condition: Callable[[Frame], bool]) -> Frame:
        """The next frame of that kind; those before it are read too."""
        while True:
            while self.frames:
                if condition(frame := self.frames.pop(0)):
                    return frame
            received = await self._reader.read(1 << 16)
            if not received:
                raise GoneError
            self._split.feed(received)
            for frame in self._split.frames():
                self.frames.append(frame)
                if frame.type == Type.WINDOW_UPDATE:
                    self.credited[frame.stream] += int.from_bytes(frame.payload)

    async def asked(self) -> int:
        """The stream of the next whole request."""
        return (await self.until(lambda frame: frame.type == Type.DATA and frame.has(Flag.END_STREAM))).stream


Talk = Callable[[Peer], Awaitable[object]]


@asynccontextmanager
async def serving(path: Path, *talks: Talk) -> AsyncIterator[PluginChannel]:
    """A channel to a server that talks so on its first connection, its second, and so on."""
    left, talking = list(talks), []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await left.pop(0)(Peer(reader, writer))
        except GoneError:
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talking.append(asyncio.create_task(talk(reader, writer)))

    channel = PluginChannel(path, version("1.34"))
    async with asyncio.timeout(LIMIT_S), await asyncio.start_unix_server(accept, path):
        try:
            yield channel
        finally:
            await channel.close()
            await asyncio.gather(*talking)


def answering(frames: Callable[[int], Sequence[Frame]], *, then_waits: bool = True) -> Talk:
    """Answers the first call with frames."""

    async def talk(peer: Peer) -> None:
        await peer.greet()
        peer.say(frames(await peer.asked()))
        if then_waits:
            await peer.until(lambda frame: frame.type == Type.PING)

    return talk


async def allocate(channel: PluginChannel, timeout_s: float | None = None) -> AllocateResponse:
    return await channel.call(ALLOCATE, AllocateRequest(), AllocateResponse, timeout_s=timeout_s)


HTML: Headers = [(b":status", b"502"), (b"content-type", b"text/html")]
TWICE = framed(ANSWER.SerializeToString()) * 2

ENDS: dict[str, tuple[Callable[[int], Sequence[Frame]], str]] = {
    "error-of-the-plugin": (lambda s: answered(s, 9, "no: 50% ä"), "code = FailedPrecondition desc = no: 50% ä"),
    "error-at-once": (
        lambda s: [headers(s, [*ANSWER_BEGINS, *trailers(14, "later")], is_last=True)],
        "code = Unavailable desc = later",
    ),
    "code-nobody-knows": (lambda s: answered(s, 99, "x"), "code = Code(99) desc = x"),
    "no-status": (
        lambda s: [headers(s, ANSWER_BEGINS), headers(s, [(b"x", b"y")], is_last=True)],
        "code = Unknown desc = ",
    ),
    "status-that-is-no-number": (
        lambda s: [headers(s, ANSWER_BEGINS), headers(s, [(b"grpc-status", b"no")], is_last=True)],
        'code = Internal desc = transport: malformed grpc-status: strconv.ParseInt: parsing "no": invalid syntax',
    ),
    "no-trailers": (
        lambda s: [headers(s, ANSWER_BEGINS), data(s, framed(b""), is_last=True)],
        "code = Internal desc = server closed the stream without sending trailers",
    ),
    "two-messages": (
        lambda s: [headers(s, ANSWER_BEGINS), data(s, TWICE), headers(s, trailers(0), is_last=True)],
        "code = Unknown desc = grpc: client streaming protocol violation: get <nil>, want <EOF>",
    ),
    "half-a-message": (
        lambda s: [headers(s, ANSWER_BEGINS), data(s, TWICE[:7]), headers(s, trailers(0), is_last=True)],
        "code = Internal desc = unexpected EOF",
    ),
    "compressed": (
        lambda s: [headers(s, [*ANSWER_BEGINS, (b"grpc-encoding", b"gzip")]), data(s, b"\1\0\0\0\0")],
        'code = Internal desc = grpc: Decompressor is not installed for grpc-encoding "gzip"',
    ),
    "compressed-with-nothing": (
        lambda s: [headers(s, ANSWER_BEGINS), data(s, b"\1\0\0\0\0")],
        "code = Internal desc = grpc: compressed flag set with identity or empty encoding",
    ),
    "headers-in-the-middle": (
        lambda s: [headers(s, ANSWER_BEGINS), headers(s, ANSWER_BEGINS)],
        "code = Internal desc = a HEADERS frame cannot appear in the middle of a stream",
    ),
    "web-server": (
        lambda s: [headers(s, HTML)],
        "code = Unavailable desc = unexpected HTTP status code received from server: 502 (Bad Gateway); "
        'transport: received unexpected content-type "text/html"',
    ),
    "no-http": (
        lambda s: [headers(s, [(b"x", b"y")])],
        "code = Internal desc = malformed header: missing HTTP status; malformed header: missing HTTP content-type",
    ),
    "reset": (
        lambda s: [reset(s, 2)],
        "code = Internal desc = stream terminated by RST_STREAM with error code: INTERNAL_ERROR",
    ),
    "cancelled": (
        lambda s: [reset(s, 8)],
        "code = Canceled desc = stream terminated by RST_STREAM with error code: CANCEL",
    ),
}


@pytest.mark.parametrize("end", ENDS)
async def test_call_ends_in_the_words_of_go(short_folder: Path, end: str) -> None:
    frames, expected = ENDS[end]
    async with serving(short_folder / "s", answering(frames)) as channel:
        with pytest.raises(RpcError) as error:
            await allocate(channel)

    assert str(error.value) == f"rpc error: {expected}"


async def test_answer_without_a_message_is_the_end_of_the_stream(short_folder: Path) -> None:
    async with serving(
        short_folder / "s", answering(lambda s: [headers(s, ANSWER_BEGINS), headers(s, trailers(0), is_last=True)])
    ) as channel:
        with pytest.raises(RpcError, match=r"^EOF$"):
            await allocate(channel)


async def test_connection_that_ends_in_a_call_is_an_end_of_file(short_folder: Path) -> None:
    async with serving(short_folder / "s", answering(lambda s: [], then_waits=False)) as channel:
        with pytest.raises(RpcError) as error:
            await allocate(channel)

    assert str(error.value) == "rpc error: code = Unavailable desc = error reading from server: EOF"


async def test_connection_that_is_reset_in_a_call_says_so(short_folder: Path) -> None:
    channel, loop = PluginChannel(short_folder / "s", version("1.34")), asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        listener.bind(str(short_folder / "s"))
        listener.listen()
        call = asyncio.create_task(allocate(channel))
        connection, _ = await loop.sock_accept(listener)
        await loop.sock_sendall(connection, SETTINGS.encoded())
        heard = b""
        while ALLOCATE.encode() not in heard:
            heard += await loop.sock_recv(connection, 1)
        # A socket that is closed with unread bytes is reset.
        connection.close()

    with pytest.raises(RpcError) as error:
        await call
    await channel.close()
    assert str(error.value) == (
        "rpc error: code = Unavailable desc = error reading from server: "
        f"read unix @->{short_folder}/s: read: connection reset by peer"
    )


async def test_call_that_was_not_looked_at_is_made_again_on_the_next_connection(short_folder: Path) -> None:
    talks = [
        answering(lambda s: [goaway(0)]),
        answering(answered),
    ]
    async with serving(short_folder / "s", *talks) as channel:
        assert await allocate(channel) == ANSWER


async def test_call_that_is_refused_unseen_is_made_again_once(short_folder: Path) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        for frames in (lambda s: [reset(s, 7)], answered, lambda s: [reset(s, 7)], lambda s: [reset(s, 7)]):
            peer.say(frames(await peer.asked()))
        await peer.until(lambda frame: frame.type == Type.PING)

    async with serving(short_folder / "s", talk) as channel:
        assert await allocate(channel) == ANSWER
        with pytest.raises(RpcError, match=r"code = Unavailable .* error code: REFUSED_STREAM$"):
            await allocate(channel)


async def test_call_under_way_is_answered_by_a_server_that_takes_no_more(short_folder: Path) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        stream = await peer.asked()
        peer.say([goaway(stream)])
        next_connection.set()
        await answers.wait()
        peer.say(answered(stream))
        with pytest.raises(GoneError):
            await peer.asked()
        gone.set()

    next_connection, answers, gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with serving(short_folder / "s", talk, answering(answered)) as channel:
        first = asyncio.create_task(allocate(channel))
        await next_connection.wait()
        await asyncio.sleep(0.01)
        assert await allocate(channel) == ANSWER
        answers.set()
        assert await first == ANSWER
        await gone.wait()


async def test_error_names_the_socket_as_a_driver_on_the_node_does(short_folder: Path) -> None:
    channel = PluginChannel(short_folder / "s", version("1.34"), address="/var/lib/kubelet/plugins/d/dra.sock")

    with pytest.raises(RpcError, match=r"dial unix /var/lib/kubelet/plugins/d/dra\.sock: connect: no such file"):
        await allocate(channel)


async def test_call_to_nobody_fails_at_once_until_the_pause_is_over(short_folder: Path) -> None:
    refused = (
        'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
        f'dial unix {short_folder}/s: connect: {{}}"'
    )
    channel = PluginChannel(short_folder / "s", version("1.34"))
    errors = []
    for make in (lambda: None, lambda: leave_a_socket(short_folder / "s")):
        make()
        # As if the pause were over.
        channel._retry_at = 0.0
        for _ in range(2):
            with pytest.raises(RpcError) as error:
                await allocate(channel)
            errors.append(str(error.value))

    nobody = refused.format("no such file or directory")
    assert errors == [nobody, nobody, *[refused.format("connection refused")] * 2]


def leave_a_socket(path: Path) -> None:
    """A socket that nobody listens on any more."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "http2: frame too large"),
        (b"", "EOF"),
    ],
    ids=["another-protocol", "closes"],
)
async def test_call_to_who_speaks_no_grpc_says_why(short_folder: Path, said: bytes, reason: str) -> None:
    async def talk(peer: Peer) -> None:
        await peer.preface()
        await peer.until(lambda frame: frame.type == Type.WINDOW_UPDATE)
        peer.writer.write(said)

    async with serving(short_folder / "s", talk) as channel:
        with pytest.raises(RpcError) as error:
            await allocate(channel)

    text = f'connection error: desc = "error reading server preface: {reason}"'
    assert str(error.value) == f"rpc error: code = Unavailable desc = {text}"


async def test_call_whose_time_is_over_is_given_up_at_the_plugin(short_folder: Path) -> None:
    async def talk(peer: Peer) -> None:
        await peer.greet()
        asked.append(await peer.until(lambda frame: frame.type == Type.HEADERS))
        asked.append(await peer.until(lambda frame: frame.type == Type.RST_STREAM))
        given_up.set()

    asked: list[Frame] = []
    given_up = asyncio.Event()
    async with serving(short_folder / "s", talk) as channel:
        with pytest.raises(RpcError) as error:
            await allocate(channel, timeout_s=0.05)
        await given_up.wait()

    assert str(error.value) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
    assert b"grpc-timeout\x0950000000n" in asked[0].payload
    assert b"user-agent\x0egrpc-go/1.72.1" in asked[0].payload
    assert asked[1] == reset(1, 8)


async def test_closed_channel_fails_calls_dials_and_streams(short_folder: Path) -> None:
    async def silent(peer: Peer) -> None:
        await peer.greet()
        await peer.until(lambda frame: frame.type == Type.PING)

    async with serving(short_folder / "s", silent) as channel:
        await channel.dial()
        under_way = [asyncio.create_task(allocate(channel)), asyncio.create_task(first_of(channel))]
        await asyncio.sleep(0.01)
        await channel.close()
        errors = await asyncio.gather(*under_way, allocate(channel), channel.dial(), return_exceptions=True)

    assert [type(error) for error in errors] == [ConnectionClosedError] * 4
    closing = "rpc error: code = Canceled desc = grpc: the client connection is closing"
    assert {str(error) for error in errors} == {closing}


async def first_of(channel: PluginChannel) -> bytes:
    return await anext(channel.listen("/v1beta1.DevicePlugin/ListAndWatch", Empty()))


async def test_stream_that_nobody_reads_is_held_up_and_no_other_call(short_folder: Path) -> None:
    message = bytes((1 << 14) - 5)
    count = WINDOW // len(framed(message))

    async def talk(peer: Peer) -> None:
        await peer.greet()
        stream, before = await peer.asked(), dict(peer.credited)
        peer.say([headers(stream, ANSWER_BEGINS), *[data(stream, framed(message))] * count])
        while peer.credited[0] < before[0] + WINDOW:
            await peer.until(lambda frame: frame.type == Type.WINDOW_UPDATE)
        taken.set()
        peer.say(answered(await peer.asked()))
        assert peer.credited == {0: before[0] + WINDOW, stream: 0}
        await peer.until(lambda frame: frame.type == Type.WINDOW_UPDATE and frame.stream == stream)
        peer.say([data(stream, framed(b"last"))])
        await peer.until(lambda frame: frame.type == Type.RST_STREAM and frame.stream == stream)
        given_up.set()

    taken, given_up = asyncio.Event(), asyncio.Event()
    async with serving(short_folder / "s", talk) as channel:
        lists = channel.listen("/v1beta1.DevicePlugin/ListAndWatch", Empty())
        assert await anext(lists) == message
        await taken.wait()
        assert await allocate(channel) == ANSWER
        for _ in range(count - 1):
            assert await anext(lists) == message
        assert await anext(lists) == b"last"
        await lists.aclose()
        await given_up.wait()


async def test_plugin_that_comes_late_is_dialled_again(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_client, "_FIRST_PAUSE_S", 0.01)
    channel = PluginChannel(short_folder / "s", version("1.34"))
    dialling = asyncio.create_task(channel.dial())
    await asyncio.sleep(0.03)
    assert not dialling.done()

    async def talk(peer: Peer) -> None:
        await peer.greet()
        peer.say(answered(await peer.asked()))
        await peer.until(lambda frame: frame.type == Type.PING)

    async with serving(short_folder / "s", talk):
        await asyncio.wait_for(dialling, LIMIT_S)
        assert await allocate(channel) == ANSWER
        await channel.close()
