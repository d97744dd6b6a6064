"""What goes through the tap arrives as without: bytes, metadata, codes, texts, deadlines and breaks, both ways."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.apis.grpcwire.frames import PREFACE
from tests.support.patience import LIMIT_S, until
from tests.support.tapped import PLUGIN, REGISTER, Between, ByteServer, Context, channel

CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
Metadata = Sequence[tuple[str, Any]]
names = st.from_regex(r"x-[a-z0-9_.-]{1,12}", fullmatch=True).filter(lambda name: not name.endswith("-bin"))
printable = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40)
plain = st.tuples(names, printable)
binary = st.tuples(names.map(lambda name: f"{name}-bin"), st.binary(max_size=40))
metadata = st.lists(plain | binary, max_size=4)
messages = st.binary(max_size=200) | st.binary(min_size=1, max_size=8).map(lambda part: part * 40_000)


@dataclass(frozen=True)
class Exchange:
    """One call: what is asked, and how it is answered; an error where there is a code."""

    method: str
    request: bytes
    sent: Metadata
    answers: tuple[bytes, ...]
    initial: Metadata
    trailing: Metadata
    code: grpc.StatusCode | None
    text: str


def exchanges(methods: Sequence[str], answers: int) -> st.SearchStrategy[Exchange]:
    return st.builds(
        Exchange,
        st.sampled_from(methods),
        messages,
        metadata,
        st.lists(messages, min_size=1, max_size=answers).map(tuple),
        metadata,
        metadata,
        st.none() | st.sampled_from(CODES),
        st.text(max_size=60),
    )


UNARY = [f"{PLUGIN}Allocate", f"{PLUGIN}GetPreferredAllocation", f"{PLUGIN}Unheard", "/some.Other/Call"]


async def told(server: ByteServer, to: Any, exchange: Exchange) -> tuple[Any, ...]:
    """All that both sides see of an exchange."""

    async def begin(context: Context) -> None:
        await context.send_initial_metadata(tuple(exchange.initial))
        context.set_trailing_metadata(tuple(exchange.trailing))

    async def end(context: Context) -> None:
        if exchange.code is not None:
            await context.abort(exchange.code, exchange.text, tuple(exchange.trailing))

    async def answer(request: bytes, context: Context) -> bytes:
        await begin(context)
        await end(context)
        return exchange.answers[0]

    async def stream(request: bytes, context: Context) -> AsyncIterator[bytes]:
        await begin(context)
        for message in exchange.answers:
            yield message
        await end(context)

    is_stream = exchange.method in server.streams
    server.answers[exchange.method] = stream if is_stream else answer
    call: Any = (to.unary_stream if is_stream else to.unary_unary)(exchange.method)(
        exchange.request, metadata=tuple(exchange.sent), timeout=LIMIT_S
    )
    received = []
    with contextlib.suppress(grpc.aio.AioRpcError):
        received = [message async for message in call] if is_stream else [await call]
    return (
        received,
        await call.code(),
        await call.details(),
        sorted(await call.initial_metadata()),
        sorted(await call.trailing_metadata()),
        server.seen[-1],
        server.metadata,
    )


def compare_all(way: str, strategy: st.SearchStrategy[Exchange], examples: int) -> None:
    """Play exchanges directly and through one tap."""
    folder = Path(tempfile.mkdtemp(prefix="tap-", dir="/tmp"))
    with asyncio.Runner() as runner:

        async def made() -> tuple[Between, ByteServer, Any, Any]:
            between = Between(folder)
            between.tap.start()
            server = await (between.plugin() if way == "to the plugin" else between.kubelet())
            return between, server, channel(server.socket), between.channel_to(server)

        between, server, directly, through = runner.run(made())

        @settings(max_examples=examples, deadline=None)
        @given(strategy)
        def same(exchange: Exchange) -> None:
            assert runner.run(told(server, through, exchange)) == runner.run(told(server, directly, exchange))

        async def ended() -> None:
            await directly.close()
            await through.close()
            await between.close()

        try:
            same()
        finally:
            runner.run(ended())
            shutil.rmtree(folder)


def test_calls_of_a_kubelet_arrive_unchanged() -> None:
    compare_all("to the plugin", exchanges(UNARY, answers=1), examples=150)


def test_streams_of_a_plugin_arrive_unchanged() -> None:
    compare_all("to the plugin", exchanges([f"{PLUGIN}ListAndWatch"], answers=4), examples=80)


def test_calls_of_a_plugin_arrive_unchanged() -> None:
    compare_all("to the kubelet", exchanges([REGISTER, f"{REGISTER}Again"], answers=1), examples=80)


@pytest.mark.parametrize("size", [5 << 20, 64 << 20])
async def test_message_of_any_size_passes_both_ways(between: Between, size: int) -> None:
    plugin = await between.plugin()
    message = bytes(range(256)) * (size // 256)
    async with between.channel_to(plugin) as to:
        assert await to.unary_unary(f"{PLUGIN}Allocate")(message) == message


async def test_error_of_many_devices_passes(between: Between) -> None:
    plugin = await between.plugin()
    text = "device not there: " + ", ".join(f"GPU-{number}" for number in range(40_000))

    async def refuse(request: bytes, context: Context) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, text)

    plugin.answers[f"{PLUGIN}Allocate"] = refuse
    async with between.channel_to(plugin) as to:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await to.unary_unary(f"{PLUGIN}Allocate")(b"")
    assert refused.value.details() == text


async def hang(request: bytes, context: Context) -> bytes:
    await asyncio.Event().wait()
    return b""


async def test_call_that_the_kubelet_gives_up_is_given_up_at_the_plugin(between: Between) -> None:
    plugin = await between.plugin()
    plugin.answers[f"{PLUGIN}Allocate"] = hang
    async with between.channel_to(plugin) as to:
        call = to.unary_unary(f"{PLUGIN}Allocate")(b"x")
        await until(lambda: plugin.seen)
        call.cancel()
        async with asyncio.timeout(LIMIT_S):
            await plugin.given_up.wait()


async def test_deadline_reaches_the_plugin(between: Between) -> None:
    plugin = await between.plugin()
    left: list[float | None] = []
    deadline_s = 900

    async def look(request: bytes, context: Context) -> bytes:
        left.append(context.time_remaining())
        return b""

    plugin.answers[f"{PLUGIN}PreStartContainer"] = look
    async with between.channel_to(plugin) as to:
        await to.unary_unary(f"{PLUGIN}PreStartContainer")(b"", timeout=deadline_s)
    assert left[0] is not None
    # gRPC rounds it up.
    assert 0 < left[0] < 1000


async def heard(between: Between, serve: Callable[..., Any], said: bytes) -> bytes:
    """Return what a server without HTTP/2 answers through the tap."""
    async with await asyncio.start_unix_server(serve, between.of_plugin / "odd.sock"):
        await until((between.of_kubelet / "odd.sock").exists)
        reader, writer = await asyncio.open_unix_connection(between.of_kubelet / "odd.sock")
        writer.write(said)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer


@pytest.mark.parametrize("said", [b"hi\n", b"PRI *\n", b"this is no HTTP/2 whatever one thinks of it\n"])
async def test_what_does_not_speak_http2_passes_as_it_is(between: Between, said: bytes) -> None:
    async def chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"ECHO " + await reader.readline())
        writer.close()
        await writer.wait_closed()

    assert await heard(between, chat, said) == b"ECHO " + said


async def test_server_that_answers_http2_with_a_word_is_heard(between: Between) -> None:
    async def no(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))
        writer.write(b"no")
        writer.close()
        await writer.wait_closed()

    assert await heard(between, no, PREFACE) == b"no"


async def test_several_calls_continue_beside_each_other(between: Between) -> None:
    plugin = await between.plugin()
    gate = asyncio.Event()

    async def wait(request: bytes, context: Context) -> bytes:
        await gate.wait()
        return request

    plugin.answers[f"{PLUGIN}Allocate"] = wait
    async with between.channel_to(plugin) as to:
        waiting = [to.unary_unary(f"{PLUGIN}Allocate")(bytes([number])) for number in range(50)]
        assert await to.unary_unary(f"{PLUGIN}GetDevicePluginOptions")(b"now") == b"now"
        gate.set()
        assert [await call for call in waiting] == [bytes([number]) for number in range(50)]


async def test_plugin_that_stops_in_order_answers_what_it_was_asked(between: Between) -> None:
    plugin = await between.plugin()
    gate = asyncio.Event()

    async def wait(request: bytes, context: Context) -> bytes:
        await gate.wait()
        return request

    plugin.answers[f"{PLUGIN}Allocate"] = wait
    async with between.channel_to(plugin) as to:
        call = to.unary_unary(f"{PLUGIN}Allocate")(b"x")
        await until(lambda: plugin.seen)
        stopping = asyncio.create_task(plugin.stop(grace_s=LIMIT_S))
        await until(lambda: not between.mirror_of(plugin.socket).exists())
        gate.set()

        assert await call == b"x"
        await stopping
        with pytest.raises(grpc.aio.AioRpcError):
            await to.unary_unary(f"{PLUGIN}Allocate")(b"x")
