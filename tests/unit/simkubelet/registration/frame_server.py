"""A server written out by hand, frame by frame, and a plugin's channel to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from simkubelet.apis.deviceplugin import AllocateRequest, AllocateResponse, ContainerAllocateResponse
from simkubelet.apis.grpcwire.frames import PREFACE, Flag, Frame, FrameReader, Headers, Type, header_block
from simkubelet.apis.grpcwire.messages import ANSWER_BEGINS, framed, trailers
from simkubelet.model.version import version
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
