"""Fed in: calls of gRPC's own client; observed: answers, errors, and how calls are ended."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.server import GrpcServer
from tests.support.patience import LIMIT_S, until

from .conftest import CHANNEL, Served, request_for


def _unary(channel: grpc.aio.Channel, name: str, **options: Any) -> Any:
    return channel.unary_unary(f"/test.Echo/{name}", bytes, bytes, **options)


@pytest.mark.parametrize("size", [0, 1, 16_384, 65_535, 65_536, 4_194_280])
async def test_messages_of_any_size_go_both_ways(channel: grpc.aio.Channel, size: int) -> None:
    request = request_for("x" * size)

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
    requests = [request_for(str(number), "y" * number * 100) for number in range(200)]

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
            request_for("x" * (4 << 20)),
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
    async with grpc.aio.insecure_channel(f"unix:{folder}/s", options=CHANNEL) as channel:
        call = asyncio.ensure_future(_unary(channel, "Wait")(b""))
        await served.waits.wait()
        await server.stop()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call

    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert served.ended == ["Wait"]
