"""Calls to a server written out by hand: which connection they take, and what one call does to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from simkubelet.apis.deviceplugin import Empty
from simkubelet.apis.grpcwire.client import WINDOW, ConnectionClosedError, RpcError
from simkubelet.apis.grpcwire.frames import Type
from simkubelet.apis.grpcwire.messages import ANSWER_BEGINS, framed
from simkubelet.model.version import version
from simkubelet.registration import plugin_client
from simkubelet.registration.plugin_client import PluginChannel
from tests.support.patience import LIMIT_S

from .frame_server import (
    ANSWER,
    GoneError,
    Peer,
    allocate,
    answered,
    answering,
    data,
    goaway,
    headers,
    reset,
    serving,
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
    return await anext(listen(channel))


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


async def test_others_have_their_turn_while_a_stream_is_read(short_folder: Path) -> None:
    count = 10_000

    async def talk(peer: Peer) -> None:
        await peer.greet()
        stream = await peer.asked()
        peer.say([headers(stream, ANSWER_BEGINS), *[data(stream, framed(b"x") * 1000)] * (count // 1000)])
        await peer.until(lambda frame: frame.type == Type.RST_STREAM)

    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with serving(short_folder / "s", talk) as channel, aclosing(listen(channel)) as messages:
        await anext(messages)
        other = asyncio.create_task(take_turns())
        for _ in range(count // 2):
            await anext(messages)
        other.cancel()

    assert turns > 50


def listen(channel: PluginChannel) -> AsyncGenerator[bytes, None]:
    return channel.listen("/v1beta1.DevicePlugin/ListAndWatch", Empty())


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
