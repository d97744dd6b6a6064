"""Calls to a server written out by hand: how they end in the words of Go's client.

The texts are those of google.golang.org/grpc v1.72.1, clientconn.go and internal/transport/http2_client.go.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.frames import Frame, Headers, Type
from simkubelet.apis.grpcwire.messages import ANSWER_BEGINS, framed, trailers
from simkubelet.model.version import version
from simkubelet.registration.plugin_client import PluginChannel

from .frame_server import (
    ALLOCATE,
    ANSWER,
    SETTINGS,
    Peer,
    allocate,
    answered,
    answering,
    data,
    headers,
    reset,
    serving,
)

HTML: Headers = [(b":status", b"502"), (b"content-type", b"text/html")]
TWICE = framed(ANSWER.SerializeToString()) * 2


def zipped(stream: int, content: bytes) -> list[Frame]:
    """An answer to Allocate of which the message is said to be gzip."""
    return [
        headers(stream, [*ANSWER_BEGINS, (b"grpc-encoding", b"gzip")]),
        data(stream, b"\1" + len(content).to_bytes(4) + content),
        headers(stream, trailers(0), is_last=True),
    ]


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
    "compressed-by-others": (
        lambda s: [headers(s, [*ANSWER_BEGINS, (b"grpc-encoding", b"snappy")]), data(s, b"\1\0\0\0\0")],
        'code = Internal desc = grpc: Decompressor is not installed for grpc-encoding "snappy"',
    ),
    "compressed-without-content": (
        lambda s: zipped(s, b""),
        "code = Internal desc = grpc: failed to decompress the message: EOF",
    ),
    "compressed-badly": (
        lambda s: zipped(s, b"no gzip at all"),
        "code = Internal desc = grpc: failed to decompress the message: gzip: invalid header",
    ),
    "compressed-and-cut": (
        lambda s: zipped(s, gzip.compress(b"x" * 100)[:-9]),
        "code = Internal desc = grpc: failed to read decompressed data: unexpected EOF",
    ),
    "compressed-to-nothing": (
        lambda s: zipped(s, gzip.compress(bytes(5 << 20))),
        "code = ResourceExhausted desc = grpc: received message after decompression larger than max 4194304",
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


async def test_compressed_answer_is_read(short_folder: Path) -> None:
    content = gzip.compress(ANSWER.SerializeToString())
    async with serving(short_folder / "s", answering(lambda s: zipped(s, content))) as channel:
        assert await allocate(channel) == ANSWER


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
