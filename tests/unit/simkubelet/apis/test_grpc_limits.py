"""What a peer can make the other side of a connection keep, and how it is ended when it asks for too much."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire import server as grpc_server
from simkubelet.apis.grpcwire.client_call import WINDOW, Call, RpcError
from simkubelet.apis.grpcwire.end import BatchingEnd, ConnectionListener, End
from simkubelet.apis.grpcwire.frames import (
    FRAME_BYTES,
    INITIAL_WINDOW_SIZE,
    MAX_FRAME_SIZE,
    PREFACE,
    Flag,
    Frame,
    FrameReader,
    Type,
    header_block,
    plain_headers,
)
from simkubelet.apis.grpcwire.messages import framed, status_in
from simkubelet.apis.grpcwire.outbox import Outbox
from simkubelet.apis.grpcwire.served_call import StreamMethod, UnaryMethod

from .conftest import SETTINGS, Served

PING = Frame(Type.PING, 0, 0, bytes(8)).encoded()
HEADERS = [(b":method", b"POST"), (b":path", b"/test/Wait"), (b"content-type", b"application/grpc")]
MEBIBYTE = 1 << 20


class Peer:
    """The client of a server's connection: what it sends, and what is written for it.

    Attributes:
        transport: of the server; a test says what the client reads by `BatchingEnd.pause_writing`.
    """

    def __init__(self, path: bytes = b"/test/Wait", held: grpc_server._Held | None = None) -> None:
        methods = {
            "/test/Wait": UnaryMethod(api.Empty.FromString, self._wait),
            "/test/All": StreamMethod(api.Empty.FromString, self._all),
            "/test/Long": UnaryMethod(api.Empty.FromString, self._long),
        }
        self.held = grpc_server._Held() if held is None else held
        self.is_lost = False
        self.transport = Mock(spec=asyncio.Transport)
        self.transport.is_closing.return_value = False
        self.transport.get_write_buffer_size.return_value = 0
        self.connection = grpc_server._Connection(methods, self._lost, self.held)
        self.end = self.connection.end
        self.end.connection_made(self.transport)
        self._path = path
        self._reader = FrameReader()
        self._taken = 0
        self.sent = 0
        self.send(PREFACE + SETTINGS)

    def send(self, data: bytes) -> None:
        self.end.data_received(data)
        self.end.flush()

    def begin(self, stream: int, *more: tuple[bytes, bytes]) -> None:
        headers = [(name, self._path if name == b":path" else value) for name, value in HEADERS]
        self.send(Frame(Type.HEADERS, Flag.END_HEADERS, stream, header_block([*headers, *more])).encoded())

    def frames(self) -> list[Frame]:
        """What has been written since the last time."""
        calls = self.transport.write.call_args_list
        for call in calls[self._taken :]:
            self._reader.feed(call.args[0])
        self._taken = len(calls)
        return list(self._reader.frames())

    async def _wait(self, request: api.Empty) -> api.Empty:
        await asyncio.Event().wait()
        return request

    async def _all(self, request: api.Empty) -> AsyncGenerator[api.CDIDevice, None]:
        while True:
            self.sent += 1
            yield api.CDIDevice(name="x" * 10_000)

    async def _long(self, request: api.Empty) -> api.CDIDevice:
        return api.CDIDevice(name="x" * 100_000)

    def _lost(self, connection: object) -> None:
        self.is_lost = True


@pytest.fixture
async def peer() -> Peer:
    peer = Peer()
    peer.frames()
    return peer


def test_frame_that_is_too_long_ends_the_connection_at_its_head() -> None:
    for size, announced, is_taken in ((FRAME_BYTES, 0, True), (FRAME_BYTES + 1, 0, False), (MEBIBYTE, MEBIBYTE, True)):
        transport = Mock(spec=asyncio.Transport)
        end = End(Mock(spec=ConnectionListener), begins=False)
        end.connection_made(transport)
        if announced:
            end.send_frame(Frame(Type.SETTINGS, 0, 0, MAX_FRAME_SIZE.to_bytes(2) + announced.to_bytes(4)))

        end.data_received(SETTINGS + Frame(Type.DATA, 0, 1, bytes(size)).encoded()[:20])

        assert transport.close.call_count == (not is_taken), size


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(SETTINGS, id="settings"),
        pytest.param(Frame(Type.DATA, 0, 1, b"x").encoded(), id="data"),
        pytest.param(Frame(Type.HEADERS, Flag.END_HEADERS, 5, b"").encoded(), id="refused streams"),
    ],
)
async def test_frames_of_a_peer_that_does_not_read_are_not_read(
    peer: Peer, frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_server, "_MOST_STREAMS", 1)
    peer.begin(1)

    peer.send(frame * 100)
    peer.transport.pause_reading.assert_not_called()
    peer.end.pause_writing()
    peer.send(frame * 49)
    peer.transport.pause_reading.assert_not_called()
    peer.send(frame)
    peer.transport.pause_reading.assert_called_once_with()

    peer.end.resume_writing()
    peer.transport.resume_reading.assert_called_once_with()


async def test_connection_on_which_too_many_frames_wait_is_ended() -> None:
    end, transport = BatchingEnd(Mock(spec=ConnectionListener), begins=False), Mock(spec=asyncio.Transport)
    end.connection_made(transport)
    end.send_frame(Frame(Type.SETTINGS, 0, 0, b""))
    end.pause_writing()

    for _ in range(10_000):
        end.send_frame(Frame(Type.PING, 0, 0, bytes(8)))
    transport.abort.assert_not_called()
    end.send_frame(Frame(Type.PING, 0, 0, bytes(8)))

    transport.abort.assert_called()


async def test_settings_that_nobody_acknowledges_end_the_connection() -> None:
    transport = Mock(spec=asyncio.Transport)
    end = End(Mock(spec=ConnectionListener), begins=False)
    end.connection_made(transport)

    end.data_received(SETTINGS * 100)
    transport.abort.assert_not_called()
    end.data_received(SETTINGS)

    transport.abort.assert_called_once_with()


async def test_stream_of_a_peer_that_does_not_read_goes_no_further() -> None:
    peer = Peer(b"/test/All")
    window = INITIAL_WINDOW_SIZE.to_bytes(2) + (2**31 - 1).to_bytes(4)
    peer.send(Frame(Type.SETTINGS, 0, 0, window).encoded())
    peer.send(Frame(Type.WINDOW_UPDATE, 0, 0, (2**31 - 65536).to_bytes(4)).encoded())
    peer.begin(1)
    peer.transport.write.side_effect = lambda data: len(data) > 1000 and peer.end.pause_writing()

    peer.send(Frame(Type.DATA, 0, 1, framed(b"")).encoded())
    for _ in range(100):
        await asyncio.sleep(0)
    sent = peer.sent
    assert sent <= 3
    peer.end.resume_writing()
    for _ in range(100):
        await asyncio.sleep(0)
    assert sent < peer.sent <= sent + 2

    peer.connection.close()


@pytest.mark.parametrize("widening", ["connection", "settings", "one frame of settings"])
async def test_many_frames_about_windows_are_one_look_at_all_streams(
    widening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer(b"/test/Long")
    for stream in (1, 3, 5):
        peer.begin(stream)
        peer.send(Frame(Type.DATA, Flag.END_STREAM, stream, framed(b"")).encoded())
        await asyncio.sleep(0)
    flushed: list[int] = []
    flush = Outbox._flush
    monkeypatch.setattr(Outbox, "_flush", lambda self, stream: flushed.append(stream) or flush(self, stream))
    setting = INITIAL_WINDOW_SIZE.to_bytes(2) + (200_000).to_bytes(4)
    peer.frames()

    if widening == "connection":
        peer.send(b"".join(Frame(Type.WINDOW_UPDATE, 0, 0, (2000).to_bytes(4)).encoded() for _ in range(50)))
    elif widening == "settings":
        peer.send(Frame(Type.SETTINGS, 0, 0, setting).encoded() * 50)
    else:
        peer.send(Frame(Type.SETTINGS, 0, 0, setting * 50).encoded())

    assert flushed == [1, 3, 5]
    if widening == "connection":
        assert sum(len(frame.payload) for frame in peer.frames() if frame.type == Type.DATA) == 100_000
    monkeypatch.undo()
    peer.connection.close()


async def test_client_that_pings_too_often_is_sent_away(peer: Peer) -> None:
    peer.begin(1)
    peer.send(PING * 3)
    assert [frame.type for frame in peer.frames()] == [Type.PING] * 3

    peer.send(PING)

    assert peer.frames()[-1] == Frame(Type.GOAWAY, 0, 0, bytes((0, 0, 0, 1, 0, 0, 0, 11)) + b"too_many_pings")
    peer.transport.close.assert_called_once_with()


async def test_pings_after_answers_are_welcome(peer: Peer) -> None:
    for number in range(20):
        peer.begin(2 * number + 1, (b"grpc-timeout", b"x"))
        peer.send(PING)

    peer.transport.close.assert_not_called()


async def test_pings_between_the_frames_of_one_answer_are_welcome() -> None:
    peer = Peer(b"/test/Long")
    peer.begin(1)
    peer.send(Frame(Type.DATA, Flag.END_STREAM, 1, framed(b"")).encoded())
    await asyncio.sleep(0)
    widen = b"".join(Frame(Type.WINDOW_UPDATE, 0, stream, (5000).to_bytes(4)).encoded() for stream in (0, 1))
    peer.frames()

    # A client in Go pings in each round trip to measure the bandwidth. On a busy machine that makes many round trips.
    for _ in range(6):
        peer.send(widen + PING)
        assert Type.DATA in [frame.type for frame in peer.frames()]

    peer.transport.close.assert_not_called()


async def test_streams_beyond_the_most_are_refused(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_MOST_STREAMS", 3)

    for stream in (1, 3, 5, 7):
        peer.begin(stream)
    assert peer.frames() == [Frame(Type.RST_STREAM, 0, 7, (7).to_bytes(4))]

    peer.send(Frame(Type.RST_STREAM, 0, 3, (8).to_bytes(4)).encoded())
    peer.begin(9)
    assert peer.frames() == []


async def test_requests_that_are_not_complete_are_bounded(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_MOST_HELD_BYTES", 40_000)
    part = b"\0" + (MEBIBYTE).to_bytes(4) + bytes(10_000)
    for stream in (1, 3, 5):
        peer.begin(stream)
        peer.send(Frame(Type.DATA, 0, stream, part).encoded())
    peer.frames()

    peer.begin(7)
    peer.send(Frame(Type.DATA, 0, 7, part).encoded())

    [answer] = [frame for frame in peer.frames() if frame.type == Type.HEADERS]
    assert answer.stream == 7
    assert status_in(dict(plain_headers(answer.payload) or ())) == (8, "too many requests that are not complete")
    assert 30_000 < peer.held.size < 40_000
    peer.send(Frame(Type.RST_STREAM, 0, 1, (8).to_bytes(4)).encoded())
    peer.connection.lost()
    assert peer.held.size == 0


@pytest.mark.parametrize("path", [b"/test/Long", b"/test/All"])
@pytest.mark.parametrize("where", ["windows", "buffer"])
async def test_answers_that_nobody_reads_are_bounded(path: bytes, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_MOST_UNREAD_BYTES", MEBIBYTE)
    held = grpc_server._Held()
    slow, reading = Peer(path, held), Peer(path, held)
    if where == "windows":
        slow.send(Frame(Type.SETTINGS, 0, 0, INITIAL_WINDOW_SIZE.to_bytes(2) + bytes(4)).encoded())
    else:
        slow.transport.get_write_buffer_size.return_value = MEBIBYTE - 200_000

    for stream in range(1, 300, 2):
        slow.begin(stream)
        slow.send(Frame(Type.DATA, Flag.END_STREAM, stream, framed(b"")).encoded())
        await asyncio.sleep(0)
        if slow.transport.abort.called:
            break
        assert slow.end.unread_bytes <= MEBIBYTE
    else:
        pytest.fail("the client is not sent away")
    reading.begin(1)
    reading.send(Frame(Type.DATA, Flag.END_STREAM, 1, framed(b"")).encoded())
    await asyncio.sleep(0)
    reading.transport.abort.assert_not_called()

    slow.end.connection_lost(None)
    assert (slow.end.unread_bytes, held.ends) == (0, {reading.end})
    reading.connection.close()


async def test_complete_requests_do_not_count(peer: Peer) -> None:
    for stream in range(1, 40, 2):
        peer.begin(stream)
        peer.send(Frame(Type.DATA, Flag.END_STREAM, stream, framed(b"")).encoded())

    assert peer.held.size == 0
    peer.connection.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1" * 400 + "S", f'transport: timeout string is too long: "{"1" * 400}S"'),
        ("123456789S", 'transport: timeout string is too long: "123456789S"'),
        ("S", 'transport: timeout string is too short: "S"'),
        ("1s", 'transport: timeout unit is not recognized: "1s"'),
        ("1_0S", 'strconv.ParseInt: parsing "1_0": invalid syntax'),
        (" 1S", 'strconv.ParseInt: parsing " 1": invalid syntax'),
        ("\N{ARABIC-INDIC DIGIT ONE}S", 'strconv.ParseInt: parsing "\N{ARABIC-INDIC DIGIT ONE}": invalid syntax'),
    ],
)
async def test_malformed_timeout_is_refused(peer: Peer, value: str, text: str) -> None:
    peer.begin(1, (b"grpc-timeout", value.encode()))

    [answer] = peer.frames()
    decoder: Any = grpc_server.BatchingEnd(Mock(spec=ConnectionListener), begins=False)
    headers = dict(decoder._decoded(answer.payload))
    assert headers[b":status"] == b"400"
    assert status_in(headers) == (13, f"malformed grpc-timeout: {text}")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({b"grpc-status": b"-1"}, (2**32 - 1, "")),
        ({b"grpc-status": b"1_0"}, (13, 'strconv.ParseInt: parsing "1_0": invalid syntax')),
        (
            {b"grpc-status": "\N{ARABIC-INDIC DIGIT ONE}".encode()},
            (13, 'strconv.ParseInt: parsing "\N{ARABIC-INDIC DIGIT ONE}": invalid syntax'),
        ),
        ({b"grpc-status": b"9" * 5000}, (13, f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range')),
        ({b"grpc-status": b"2147483648"}, (13, 'strconv.ParseInt: parsing "2147483648": value out of range')),
    ],
    ids=["negative", "underscore", "other digits", "5000 digits", "33 bits"],
)
def test_status_is_read_as_by_go(headers: dict[bytes, bytes], status: tuple[int, str]) -> None:
    code, text = status_in(headers)

    assert (code, text.removeprefix("transport: malformed grpc-status: ")) == status


@pytest.mark.parametrize("status", ["²", "2_00", "9" * 5000, " 200"])
def test_malformed_http_status_fails_the_call(status: str) -> None:
    call = Call(Mock(spec=BatchingEnd), 1, MEBIBYTE)

    call.headers([(b":status", status.encode()), (b"content-type", b"application/grpc")], is_last=False)

    with pytest.raises(RpcError, match="malformed http-status: strconv"):
        call.answer()


def test_server_that_sends_more_than_the_window_fails_the_call() -> None:
    end = Mock(spec=BatchingEnd)
    call = Call(end, 1, 16 * MEBIBYTE)
    call.headers([(b":status", b"200"), (b"content-type", b"application/grpc")], is_last=False)
    message = framed(bytes(FRAME_BYTES - 5))

    for _ in range(WINDOW // FRAME_BYTES):
        call.data(message, len(message), is_last=False)
    assert not call.is_over
    call.data(message, len(message), is_last=False)

    end.send_reset.assert_called_once_with(1, 3)
    with pytest.raises(RpcError, match="received 4210688-bytes data exceeding the limit 4194304 bytes"):
        call.raise_error()


async def test_flood_of_a_client_that_does_not_read_stops(served: Served, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    sent = 0
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        await loop.sock_connect(client, str(folder / "s"))
        await loop.sock_sendall(client, PREFACE + SETTINGS)
        # The server reads no more, or ends the connection.
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(0.5):
                while sent < 100 * MEBIBYTE:
                    await loop.sock_sendall(client, SETTINGS * 10_000)
                    sent += 10_000 * len(SETTINGS)

    assert sent < 10 * MEBIBYTE


async def test_connections_beyond_the_most_wait(served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "_MOST_CONNECTIONS", 2)
    greeted = []
    for _ in range(2):
        reader, writer = await asyncio.open_unix_connection(folder / "s")
        assert await reader.readexactly(9) == SETTINGS
        greeted.append(writer)

    reader, third = await asyncio.open_unix_connection(folder / "s")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(9), 0.1)
    greeted[0].close()

    assert await reader.readexactly(9) == SETTINGS
    third.close()
    greeted[1].close()
