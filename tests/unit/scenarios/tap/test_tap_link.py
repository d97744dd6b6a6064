"""Frames in at either end of a link, frames out at the other: what no gRPC library lets a test do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scenarios.tap.answer import Answer
from scenarios.tap.link import Link
from scenarios.trace.snapshot import Rpc
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.frames import PREFACE, Flag, Frame, FrameReader, Type, header_block
from simkubelet.apis.grpcwire.messages import framed

SETTINGS = Frame(Type.SETTINGS, 0, 0, b"")
PING = Frame(Type.PING, 0, 0, b"12345678")
PONG = Frame(Type.PING, Flag.ACK, 0, b"12345678")
LIST = framed(api.ListAndWatchResponse(devices=[api.Device(ID="a")]).SerializeToString())
OTHER = [{"id": "b", "health": "Healthy", "numa": []}]


class Wire(asyncio.Transport):
    """What an end has written, as frames."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = FrameReader()

    def write(self, data: Any) -> None:
        self._reader.feed(bytes(data).removeprefix(PREFACE))

    def is_closing(self) -> bool:
        return False

    def taken(self, kind: Type) -> list[Frame]:
        """The frames of a kind since the last look."""
        return [frame for frame in self._reader.frames() if frame.type == kind]


class Between:
    """A link with frames at both ends, and a supervisor with set answers."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.link = Link(self)
        self.to_caller, self.to_server = Wire(), Wire()
        self.link.caller.connection_made(self.to_caller)
        self.link.server.connection_made(self.to_server)
        self.link.caller.data_received(PREFACE + SETTINGS.encoded())
        self.link.server.data_received(SETTINGS.encoded())

    def asked(self, rpc: Rpc, request: bytes) -> Answer:
        return self.answer

    def answered(self, rpc: Rpc, request: bytes, error: str) -> None:
        pass

    def replied(self, rpc: Rpc, request: bytes, message: bytes, before: bytes | None) -> None:
        pass

    def refused(self, rpc: Rpc, error: str) -> None:
        pass

    async def call(self, stream: int, rpc: str) -> None:
        path = [(b":method", b"POST"), (b":path", f"/v1beta1.DevicePlugin/{rpc}".encode())]
        self.link.caller.data_received(
            Frame(Type.HEADERS, Flag.END_HEADERS, stream, header_block(path)).encoded()
            + Frame(Type.DATA, Flag.END_STREAM, stream, framed(b"")).encoded()
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def begin_answer(self, stream: int) -> None:
        begins = header_block([(b":status", b"200")])
        self.link.server.data_received(Frame(Type.HEADERS, Flag.END_HEADERS, stream, begins).encoded())

    def bring(self, stream: int, data: bytes) -> None:
        self.link.server.data_received(Frame(Type.DATA, 0, stream, data).encoded())


@pytest.fixture
async def between() -> Between:
    return Between()


async def test_pings_and_settings_are_answered_by_the_one_who_is_meant(between: Between) -> None:
    assert between.to_server.taken(Type.SETTINGS) == [SETTINGS]
    between.link.caller.data_received(PING.encoded())
    assert between.to_server.taken(Type.PING) == [PING]
    assert between.to_caller.taken(Type.PING) == []
    between.link.server.data_received(PONG.encoded())
    assert between.to_caller.taken(Type.PING) == [PONG]


async def test_pings_about_data_that_the_server_never_sent_do_not_reach_it(between: Between) -> None:
    between.answer = Answer(bytes=1000)
    await between.call(1, "ListAndWatch")
    between.begin_answer(1)
    between.bring(1, LIST)
    between.link.caller.data_received(PING.encoded())

    assert between.to_server.taken(Type.PING) == []
    assert between.to_caller.taken(Type.PING) == [PONG]


async def test_server_is_let_send_as_much_as_the_caller_has_taken(between: Between) -> None:
    await between.call(1, "ListAndWatch")
    between.begin_answer(1)
    between.to_server.taken(Type.DATA)
    long = framed(bytes(200_000))
    for at in range(0, len(long), 16_384):
        between.bring(1, long[at : at + 16_384])

    sent = between.to_caller.taken(Type.DATA)
    assert sum(len(frame.payload) for frame in sent) == 65_535
    updates = between.to_server.taken(Type.WINDOW_UPDATE)
    given = sum(int.from_bytes(frame.payload) for frame in updates if frame.stream == 0)
    assert given == 65_535 // 16_384 * 16_384


async def test_list_waits_for_the_end_of_the_message_that_is_under_way(between: Between) -> None:
    await between.call(1, "ListAndWatch")
    between.begin_answer(1)
    (call,) = between.link.known_calls
    between.bring(1, LIST[:7])
    call.send_list(OTHER)
    between.bring(1, LIST[7:] + LIST[:3])
    between.bring(1, LIST[3:])
    call.send_list(OTHER)

    received = b"".join(frame.payload for frame in between.to_caller.taken(Type.DATA))
    other = framed(_listed("b"))
    assert received == LIST + other + LIST + other


def _listed(device: str) -> bytes:
    return api.ListAndWatchResponse(devices=[api.Device(ID=device, health="Healthy")]).SerializeToString()


async def test_last_stream_that_is_served_is_reported_in_the_callers_numbers(between: Between) -> None:
    between.answer = Answer(never=True)
    await between.call(1, "Allocate")
    between.answer = Answer()
    await between.call(3, "Allocate")
    await between.call(5, "Allocate")

    assert {frame.stream for frame in between.to_server.taken(Type.DATA)} == {1, 3}
    goaway = Frame(Type.GOAWAY, 0, 0, (1).to_bytes(4) + bytes(4) + b"bye")
    between.link.server.data_received(goaway.encoded())
    (told,) = between.to_caller.taken(Type.GOAWAY)
    assert (int.from_bytes(told.payload[:4]), told.payload[8:]) == (3, b"bye")


async def test_nonsense_on_a_connection_ends_it(between: Between) -> None:
    closed = []
    between.to_caller.close = lambda: closed.append("caller")  # type: ignore[method-assign]
    between.link.caller.data_received(Frame(Type.HEADERS, Flag.END_HEADERS, 1, b"\xff\xff\xff").encoded())

    assert closed == ["caller"]
