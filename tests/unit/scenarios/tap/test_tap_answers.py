"""What a story orders of a tap: calls answered otherwise, streams ended, lists changed; and what the tap tells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from simkubelet.apis import deviceplugin as api
from tests.support.patience import LIMIT_S, until
from tests.support.tapped import PLUGIN, REGISTER, Between, ByteServer, Context

ALLOCATE = f"{PLUGIN}Allocate"
LIST = f"{PLUGIN}ListAndWatch"


def allocate(*ids: str) -> bytes:
    return api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)]).SerializeToString()


def listed(*ids: str) -> bytes:
    return api.ListAndWatchResponse(devices=[api.Device(ID=one, health="Healthy") for one in ids]).SerializeToString()


def ids_in(message: bytes) -> list[str]:
    return [device.ID for device in api.ListAndWatchResponse.FromString(message).devices]


REGISTRATION = api.RegisterRequest(version="v1beta1", endpoint="p.sock", resource_name="x/gpu").SerializeToString()


@pytest.fixture
async def plugin(between: Between) -> ByteServer:
    """Lists a and b, and then nothing more."""
    served = await between.plugin()

    async def lists(request: bytes, context: Context) -> AsyncIterator[bytes]:
        yield listed("a", "b")
        await asyncio.Event().wait()

    served.answers[LIST] = lists
    return served


@pytest.fixture
async def to_plugin(between: Between, plugin: ByteServer) -> AsyncIterator[Any]:
    async with between.channel_to(plugin) as made:
        yield made


@pytest.fixture
async def kubelet(between: Between) -> ByteServer:
    return await between.kubelet()


@pytest.fixture
async def to_kubelet(between: Between, kubelet: ByteServer) -> AsyncIterator[Any]:
    async with between.channel_to(kubelet) as made:
        yield made


def order(between: Between, rpc: str, **answer: Any) -> None:
    between.tap.send_command({"command": "answer", "rpc": rpc, **answer})


async def refusal(call: Any) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code(), refused.value.details()


async def test_calls_are_reported_with_the_devices_that_they_name(
    between: Between, plugin: ByteServer, to_plugin: Any
) -> None:
    preferred = api.PreferredAllocationRequest(
        container_requests=[api.ContainerPreferredAllocationRequest(available_deviceIDs=["c", "b"])]
    )
    await to_plugin.unary_unary(f"{PLUGIN}GetDevicePluginOptions")(b"")
    await to_plugin.unary_unary(f"{PLUGIN}GetPreferredAllocation")(preferred.SerializeToString())
    await to_plugin.unary_unary(ALLOCATE)(allocate("b", "a"))
    await to_plugin.unary_unary(f"{PLUGIN}PreStartContainer")(
        api.PreStartContainerRequest(devices_ids=["a"]).SerializeToString()
    )
    await to_plugin.unary_unary(ALLOCATE)(b"\xff no message")

    assert between.reports == [
        {"called": "GetDevicePluginOptions", "devices": []},
        {"called": "GetPreferredAllocation", "devices": ["b", "c"]},
        {"called": "Allocate", "devices": ["a", "b"]},
        {"called": "PreStartContainer", "devices": ["a"]},
        {"called": "Allocate", "devices": []},
    ]


async def test_error_has_the_code_and_text_of_a_plugin_and_reaches_no_plugin(
    between: Between, plugin: ByteServer, to_plugin: Any
) -> None:
    order(between, "Allocate", error='100% wedged: "ä\n"', times=1)

    assert await refusal(to_plugin.unary_unary(ALLOCATE)(b"")) == (grpc.StatusCode.UNKNOWN, '100% wedged: "ä\n"')
    assert plugin.seen == []
    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"x"


async def test_empty_answers_and_streams(between: Between, plugin: ByteServer, to_plugin: Any) -> None:
    order(between, "Allocate", empty=True)
    order(between, "ListAndWatch", empty=True)

    assert await to_plugin.unary_unary(ALLOCATE)(allocate("a")) == b""
    assert [message async for message in to_plugin.unary_stream(LIST)(b"")] == []
    assert plugin.seen == []


async def test_call_that_is_never_answered_can_be_given_up(
    between: Between, plugin: ByteServer, to_plugin: Any
) -> None:
    order(between, "Allocate", never=True, times=1)

    call = to_plugin.unary_unary(ALLOCATE)(b"")
    await until(lambda: between.reports)
    call.cancel()

    assert await call.code() is grpc.StatusCode.CANCELLED
    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"x"
    assert [request for _, request in plugin.seen] == [b"x"]


async def test_call_that_is_never_answered_ends_with_the_plugin(
    between: Between, plugin: ByteServer, to_plugin: Any
) -> None:
    order(between, "Allocate", never=True)
    call = to_plugin.unary_unary(ALLOCATE)(b"")
    await until(lambda: between.reports)
    await plugin.stop()

    assert (await refusal(call))[0] is grpc.StatusCode.UNAVAILABLE


async def test_delayed_call_is_overtaken(between: Between, plugin: ByteServer, to_plugin: Any) -> None:
    order(between, "Allocate", after_s=0.1, times=1)
    late = to_plugin.unary_unary(ALLOCATE)(b"late")
    await until(lambda: between.reports)
    assert await to_plugin.unary_unary(ALLOCATE)(b"early") == b"early"

    assert await late == b"late"
    assert [request for _, request in plugin.seen] == [b"early", b"late"]


async def test_call_is_made_twice_and_answered_once(between: Between, plugin: ByteServer, to_plugin: Any) -> None:
    answers = iter([b"first", b"second"])

    async def answer(request: bytes, context: Context) -> bytes:
        return next(answers)

    plugin.answers[ALLOCATE] = answer
    order(between, "Allocate", twice=True)

    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"second"
    assert plugin.seen == [(ALLOCATE, b"x")] * 2
    assert len(between.reports) == 1


@pytest.mark.parametrize(
    ("answer", "lists"),
    [
        ({"twice": True}, [["a", "b"], ["a", "b"]]),
        ({"parts": 2}, [["a"], ["b"]]),
        ({"parts": 3}, [["a"], ["b"], []]),
        ({"parts": 2, "twice": True}, [["a"], ["b"], ["a"], ["b"]]),
    ],
)
async def test_lists_are_doubled_and_split(
    between: Between, to_plugin: Any, answer: dict[str, Any], lists: list[list[str]]
) -> None:
    order(between, "ListAndWatch", **answer)
    stream = to_plugin.unary_stream(LIST)(b"")

    assert [ids_in(await stream.read()) for _ in lists] == lists
    stream.cancel()


@pytest.mark.parametrize("size", [1000, 4 << 20, 6_000_000])
async def test_answers_are_made_as_long_as_is_said(between: Between, to_plugin: Any, size: int) -> None:
    order(between, "ListAndWatch", bytes=size)
    stream = to_plugin.unary_stream(LIST)(b"")

    message = await stream.read()
    assert (len(message), ids_in(message)) == (size, ["a", "b"])
    stream.cancel()


async def test_list_is_put_between_those_of_the_plugin(between: Between, to_plugin: Any) -> None:
    stream = to_plugin.unary_stream(LIST)(b"")
    assert ids_in(await stream.read()) == ["a", "b"]
    order(between, "Allocate", devices=[{"id": "c", "health": "Unhealthy", "numa": [1]}])

    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"x"
    (device,) = api.ListAndWatchResponse.FromString(await stream.read()).devices
    assert (device.ID, device.health, [node.ID for node in device.topology.nodes]) == ("c", "Unhealthy", [1])
    stream.cancel()


async def test_stream_is_ended_alone(between: Between, plugin: ByteServer, to_plugin: Any) -> None:
    stream = to_plugin.unary_stream(LIST)(b"")
    await stream.read()
    waiting = to_plugin.unary_stream(f"{PLUGIN}ListAndWatch")(b"")
    await waiting.read()

    between.tap.send_command({"command": "endStream"})

    for one in (stream, waiting):
        assert await one.read() is grpc.aio.EOF
        assert await one.code() is grpc.StatusCode.OK
    async with asyncio.timeout(LIMIT_S):
        await plugin.given_up.wait()
    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"x"


async def test_registrations_are_reported_as_they_are_made_and_answered(
    between: Between, kubelet: ByteServer, to_kubelet: Any
) -> None:
    async def refuse(request: bytes, context: Context) -> bytes:
        await context.abort(grpc.StatusCode.UNKNOWN, "no: 50%")

    await to_kubelet.unary_unary(REGISTER)(REGISTRATION)
    kubelet.answers[REGISTER] = refuse
    await refusal(to_kubelet.unary_unary(REGISTER)(REGISTRATION))

    told = {"registered": "x/gpu", "endpoint": "p.sock"}
    refused = {**told, "error": "rpc error: code = Unknown desc = no: 50%"}
    made = {"registers": True}
    assert between.reports == [made, {**told, "error": ""}, made, refused]


async def test_registration_is_dropped_and_the_next_is_not(
    between: Between, kubelet: ByteServer, to_kubelet: Any
) -> None:
    order(between, "Register", empty=True, times=1)

    assert await to_kubelet.unary_unary(REGISTER)(REGISTRATION) == b""
    assert kubelet.seen == []
    await to_kubelet.unary_unary(REGISTER)(REGISTRATION)
    assert kubelet.seen == [(REGISTER, REGISTRATION)]
    assert [report["error"] for report in between.reports if "error" in report] == ["", ""]


async def test_order_counts_calls_and_is_forgotten(between: Between, to_plugin: Any) -> None:
    order(between, "Allocate", error="no", times=2)
    for _ in range(2):
        await refusal(to_plugin.unary_unary(ALLOCATE)(b""))
    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"x"
    order(between, "Allocate", error="no")
    between.tap.send_command({"command": "forget"})
    assert await to_plugin.unary_unary(ALLOCATE)(b"x") == b"x"


async def test_calls_before_the_one_that_is_meant_pass(between: Between, plugin: ByteServer, to_plugin: Any) -> None:
    order(between, "Allocate", error="no", skip=2, times=1)
    call = to_plugin.unary_unary(ALLOCATE)

    answers = [await call(allocate("a")) for _ in range(2)]
    assert await refusal(call(allocate("a"))) == (grpc.StatusCode.UNKNOWN, "no")
    answers.append(await call(allocate("a")))

    assert answers == [answers[0]] * 3


async def test_answers_are_judged_as_the_plugin_sends_them(between: Between, to_plugin: Any) -> None:
    await to_plugin.unary_unary(ALLOCATE)(allocate("a"))

    assert [one["breach"] for one in between.judged] == ["readable"]


async def test_what_a_long_name_breaks_is_said_in_short(between: Between) -> None:
    kubelet = await between.kubelet()
    request = api.RegisterRequest(version=api.VERSION, endpoint="p.sock", resource_name="x" * (1 << 20))
    async with between.channel_to(kubelet) as to:
        await to.unary_unary(REGISTER)(request.SerializeToString())

    details = [one["detail"] for one in between.judged]
    assert len(details) == 2
    assert max(map(len, details)) < 1100
    assert details[0].endswith("… (1048613 characters)")
