"""Each connection of a tap begins with SETTINGS, whichever side sends first: else a peer ends it with PROTOCOL_ERROR.

A client of grpc-go before 1.19 sends its first call before it has heard of the server.

Source: RFC 9113, section 3.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.tap.answer import Answer
from scenarios.tap.link import Link
from simkubelet.apis.grpcwire.frames import PREFACE, Flag, Frame, FrameReader, Type, header_block
from simkubelet.apis.grpcwire.messages import framed
from tests.support.patience import LIMIT_S, until
from tests.support.tapped import PLUGIN, REGISTER, Between

SETTINGS = Frame(Type.SETTINGS, 0, 0, b"")
ACK = Frame(Type.SETTINGS, Flag.ACK, 0, b"")
PING = Frame(Type.PING, 0, 0, b"12345678")
WIDER = Frame(Type.WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4))
BEGINS = header_block([(b":status", b"200"), (b"content-type", b"application/grpc")])


def call(path: str) -> list[Frame]:
    """The frames of a whole request."""
    head = header_block([(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode())])
    return [
        Frame(Type.HEADERS, Flag.END_HEADERS, 1, head),
        Frame(Type.DATA, 0, 1, framed(b"request")),
        Frame(Type.DATA, Flag.END_STREAM, 1, b""),
    ]


def answer(stream: int) -> list[Frame]:
    """The frames of a whole answer."""
    return [
        Frame(Type.HEADERS, Flag.END_HEADERS, stream, BEGINS),
        Frame(Type.DATA, 0, stream, framed(b"answer")),
        Frame(Type.HEADERS, Flag.END_STREAM | Flag.END_HEADERS, stream, header_block([(b"grpc-status", b"0")])),
    ]


def encoded(frames: Sequence[Frame]) -> bytes:
    return b"".join(frame.encoded() for frame in frames)


class Wire(asyncio.Transport):
    """The bytes that an end has written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return False


class Supervisor:
    """Answers all calls in one way."""

    def __init__(self, given: Answer) -> None:
        self._given = given

    def asked(self, rpc: Any, request: bytes) -> Answer:
        return self._given

    def answered(self, rpc: Any, request: bytes, error: str) -> None:
        pass

    def joined(self, server_socket: Path, process: int) -> None:
        pass

    def parted(self, server_socket: Path) -> None:
        pass


def frames_in(written: bytes) -> list[Frame]:
    reader = FrameReader()
    reader.feed(written)
    frames = list(reader.frames())
    assert reader.rest() == b""
    return frames


ANSWERS = [Answer(), Answer(error="no"), Answer(empty=True), Answer(twice=True), Answer(never=True)]
PATHS = [REGISTER, f"{PLUGIN}ListAndWatch", f"{PLUGIN}Allocate", "/some.Other/Call"]


@st.composite
def interleavings(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    """What a caller and a server say without waiting for each other, cut anywhere, in any order of the pieces.

    ``connected`` is the moment from which the tap can write to that side.
    """
    said = {
        "caller": PREFACE + encoded([SETTINGS, WIDER, *call(draw(st.sampled_from(PATHS))), PING]),
        "server": encoded([SETTINGS, WIDER, PING]),
    }
    pieces: dict[str, list[tuple[str, bytes]]] = {}
    for side, data in said.items():
        cuts = sorted(draw(st.lists(st.integers(1, len(data) - 1), max_size=6, unique=True)))
        begins, ends = [0, *cuts], [*cuts, len(data)]
        pieces[side] = [(side, data[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    order = draw(st.permutations([side for side, parts in pieces.items() for _ in parts]))
    return [pieces[side].pop(0) for side in order]


@given(interleavings(), st.sampled_from(ANSWERS))
def test_first_frame_of_either_side_is_settings_in_any_order(said: list[tuple[str, bytes]], given: Answer) -> None:
    async def play() -> tuple[bytes, bytes]:
        link = Link(Supervisor(given))
        to_caller, to_server = Wire(), Wire()
        link.caller.connection_made(to_caller)
        link.server.connection_made(to_server)
        for side, data in said:
            (link.caller if side == "caller" else link.server).data_received(data)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert to_caller.written == b"" or frames_in(to_caller.written)[0] == SETTINGS
        return to_caller.written, to_server.written

    to_caller, to_server = asyncio.run(play())

    assert frames_in(to_caller)[0] == SETTINGS
    assert to_server.startswith(PREFACE + SETTINGS.encoded())
    assert frames_in(to_caller).count(PING) == 1
    assert frames_in(to_server.removeprefix(PREFACE)).count(PING) == 1


def test_answer_of_the_tap_waits_for_the_servers_settings() -> None:
    async def play() -> list[bytes]:
        link, wire = Link(Supervisor(Answer(error="no"))), Wire()
        link.caller.connection_made(wire)
        link.server.connection_made(Wire())
        link.caller.data_received(PREFACE + encoded([SETTINGS, *call(f"{PLUGIN}Allocate")]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        seen = [wire.written]
        link.server.data_received(SETTINGS.encoded())
        return [*seen, wire.written]

    before, after = asyncio.run(play())

    assert before == b""
    kinds = [frame.type for frame in frames_in(after)]
    assert kinds == [Type.SETTINGS, Type.WINDOW_UPDATE, Type.WINDOW_UPDATE, Type.HEADERS]


def test_word_of_a_server_that_speaks_no_http2_comes_first() -> None:
    async def play() -> bytes:
        link, wire = Link(Supervisor(Answer())), Wire()
        link.caller.connection_made(wire)
        link.server.connection_made(Wire())
        link.caller.data_received(PREFACE + encoded([SETTINGS, *call(f"{PLUGIN}Allocate")]))
        link.server.data_received(b"go away, all of you\n")
        return wire.written

    assert asyncio.run(play()) == b"go away, all of you\n"


# Over sockets, with all kinds of clients and servers


class Peer:
    """One side of a connection, written out by hand; it keeps the frames that come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.frames: list[Frame] = []
        self._reader = reader
        self._writer = writer
        self._split = FrameReader()

    def say(self, frames: Sequence[Frame], begin: bytes = b"") -> None:
        self._writer.write(begin + encoded(frames))

    async def preface(self) -> None:
        assert await self._reader.readexactly(len(PREFACE)) == PREFACE

    async def heard(self, kind: Type) -> Frame:
        """The first frame of a kind, when it has come."""
        while (found := next((frame for frame in self.frames if frame.type == kind), None)) is None:
            data = await self._reader.read(1 << 16)
            assert data, f"closed after {self.frames}"
            self._split.feed(data)
            self.frames += self._split.frames()
        return found

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


Side = Callable[[Peer, str], Any]


async def hasty_client(peer: Peer, path: str) -> None:
    peer.say([SETTINGS, *call(path)], PREFACE)
    await peer.heard(Type.DATA)


async def patient_client(peer: Peer, path: str) -> None:
    peer.say([SETTINGS], PREFACE)
    await peer.heard(Type.SETTINGS)
    peer.say([ACK, *call(path)])
    await peer.heard(Type.DATA)


async def hasty_server(peer: Peer, path: str) -> None:
    peer.say([SETTINGS, WIDER, PING])
    await peer.preface()
    peer.say(answer((await peer.heard(Type.HEADERS)).stream))


async def patient_server(peer: Peer, path: str) -> None:
    """Says nothing before it has heard the client's SETTINGS."""
    await peer.preface()
    await peer.heard(Type.SETTINGS)
    peer.say([SETTINGS, ACK])
    peer.say(answer((await peer.heard(Type.HEADERS)).stream))


@pytest.fixture(params=[f"{PLUGIN}Allocate", REGISTER], ids=["to-the-plugin", "to-the-kubelet"])
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("client", [hasty_client, patient_client])
@pytest.mark.parametrize("server", [hasty_server, patient_server])
async def test_every_client_and_every_server_hear_settings_first(
    between: Between, path: str, client: Side, server: Side
) -> None:
    served: list[Peer] = []
    ended = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(Peer(reader, writer))
        await server(served[-1], path)
        await ended.wait()
        await served[-1].close()

    meant = between.of_kubelet / "kubelet.sock" if path == REGISTER else between.of_plugin / "p.sock"
    async with asyncio.timeout(LIMIT_S), await asyncio.start_unix_server(accept, meant):
        await until(between.mirror_of(meant).exists)
        caller = Peer(*await asyncio.open_unix_connection(between.mirror_of(meant)))
        await client(caller, path)
        ended.set()
        await caller.close()

    assert (caller.frames[0].type, served[0].frames[0].type) == (Type.SETTINGS, Type.SETTINGS)
