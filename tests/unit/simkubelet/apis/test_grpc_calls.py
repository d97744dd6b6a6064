"""One call of a plugin: to a server of gRPC's own, to nobody, and to a server that breaks it off."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from plugin.framework.client import DialError, RpcError, call_once
from simkubelet.apis.grpcwire.frames import PREFACE, Flag, Frame, FrameReader, Type
from tests.support.patience import LIMIT_S

from .conftest import SETTINGS


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
        writer.write(SETTINGS)
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
