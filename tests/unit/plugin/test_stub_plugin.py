"""The scriptable plugin in this process, with a kubelet that records registrations, and calls on its own socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugin.framework import Device, DeviceID, DeviceList, ResourceName
from plugin.stub.behaviour import Answer, Behaviour, Registers, Rpc
from plugin.stub.stub import Registration, Stub
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from tests.support.grpc_peers import DEVICE_PLUGIN, calls
from tests.support.patience import LIMIT_S

RESOURCE = ResourceName("example.com/gpu")


class Notes:
    """`Reports` that keep what they get."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.registrations: asyncio.Queue[tuple[Registration, str]] = asyncio.Queue()

    def called(self, rpc: Rpc, device_ids: Sequence[str]) -> None:
        self.calls.append((rpc.value, sorted(device_ids)))

    def registered(self, registration: Registration, error: str) -> None:
        self.registrations.put_nowait((registration, error))

    async def answer(self) -> tuple[Registration, str]:
        async with asyncio.timeout(LIMIT_S):
            return await self.registrations.get()


def devices(*ids: str) -> DeviceList:
    return tuple(Device(DeviceID(device_id)) for device_id in ids)


def behaviour(registers: Registers = Registers.NEVER) -> Behaviour:
    return Behaviour(RESOURCE, "stub.sock", devices=devices("a", "b"), registers=registers)


@asynccontextmanager
async def running(stub: Stub) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(stub.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await stub.stop_server()


@asynccontextmanager
async def calls_to(stub: Stub, folder: Path) -> AsyncIterator[Any]:
    await stub.start_server()
    async with calls(folder / "stub.sock", DEVICE_PLUGIN) as plugin:
        yield plugin
    await stub.stop_server()


async def allocate(plugin: Any, *ids: str, timeout_s: float | None = None) -> api.AllocateResponse:
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
    return await plugin.Allocate(request, timeout=timeout_s)


async def test_registers_at_its_start_and_for_each_new_kubelet(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    async with running(Stub(behaviour(Registers.ALWAYS), kubelet_dir, notes)):
        registration, error = await notes.answer()
        await kubelet.stop()
        await kubelet.start()
        again, _ = await notes.answer()

        assert (registration, error) == (Registration(RESOURCE, "stub.sock"), "")
        assert again == registration
        assert (kubelet_dir / "stub.sock").is_socket()


@pytest.mark.parametrize(("registers", "expected"), [(Registers.ONCE, 1), (Registers.NEVER, 0)])
async def test_registers_as_its_option_says(
    kubelet: Any, kubelet_dir: Path, registers: Registers, expected: int
) -> None:
    notes = Notes()
    stub = Stub(behaviour(registers), kubelet_dir, notes)
    async with running(stub):
        for _ in range(expected):
            await notes.answer()
        await kubelet.stop()
        await kubelet.start()
        await stub.register()
        await notes.answer()

        assert kubelet.requests.qsize() == expected + 1


async def test_registers_as_requested_and_reports_the_refusal(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    kubelet.refusal = "no such version"
    stub = Stub(behaviour(), kubelet_dir, notes)

    await stub.register("x.y/z", "other.sock", "v1alpha1", times=2)
    await stub.stop_server()

    error = "rpc error: code = Unknown desc = no such version"
    assert [await notes.answer() for _ in range(2)] == [(Registration("x.y/z", "other.sock", "v1alpha1"), error)] * 2


async def test_list_and_watch_sends_each_list_until_the_stream_is_ended(kubelet_dir: Path) -> None:
    stub = Stub(behaviour(), kubelet_dir, Notes())
    async with calls_to(stub, kubelet_dir) as plugin:
        stream = plugin.ListAndWatch(api.Empty())
        first = await stream.read()
        stub.send_list(devices("c"))
        second = await stream.read()
        stub.end_streams()

        assert [device.ID for device in first.devices] == ["a", "b"]
        assert [device.ID for device in second.devices] == ["c"]
        assert await stream.read() is None
        assert (await allocate(plugin, "c")).container_responses[0].envs == {"STUB_DEVICES": "c"}


async def test_calls_are_answered_as_ordered_and_then_as_usual(kubelet_dir: Path) -> None:
    notes = Notes()
    stub = Stub(behaviour(), kubelet_dir, notes)
    answers = stub.behaviour.answers
    async with calls_to(stub, kubelet_dir) as plugin:
        answers[Rpc.ALLOCATE] = Answer(error="busy", times=1)
        with pytest.raises(RpcError, match="busy") as refused:
            await allocate(plugin, "a")
        answers[Rpc.ALLOCATE] = Answer(is_empty=True, times=2)
        empty = [len((await allocate(plugin, "a")).container_responses) for _ in range(3)]
        answers[Rpc.ALLOCATE] = Answer(is_empty=True, skip=1, times=1)
        second = [len((await allocate(plugin, "a")).container_responses) for _ in range(3)]
        answers[Rpc.ALLOCATE] = Answer(is_never=True)
        with pytest.raises(RpcError) as hung:
            await allocate(plugin, "a", timeout_s=0.2)

        assert refused.value.code == Code.UNKNOWN
        assert empty == [0, 0, 1]
        assert second == [1, 0, 1]
        assert hung.value.code == Code.DEADLINE_EXCEEDED
        assert notes.calls == [("Allocate", ["a"])] * 8


async def test_list_comes_before_the_answer_that_orders_it(kubelet_dir: Path) -> None:
    stub = Stub(behaviour(), kubelet_dir, Notes())
    stub.behaviour.answers[Rpc.ALLOCATE] = Answer(devices=devices("b"), after_s=0.2)
    async with calls_to(stub, kubelet_dir) as plugin:
        stream = plugin.ListAndWatch(api.Empty())
        await stream.read()
        answer = asyncio.create_task(allocate(plugin, "a"))
        listed = await stream.read()

        assert [device.ID for device in listed.devices] == ["b"]
        assert not answer.done()
        await answer


async def test_preference_has_what_is_required_first(kubelet_dir: Path) -> None:
    asked = api.ContainerPreferredAllocationRequest(
        available_deviceIDs=["c", "b", "a"], must_include_deviceIDs=["c"], allocation_size=2
    )
    stub = Stub(behaviour(), kubelet_dir, Notes())
    async with calls_to(stub, kubelet_dir) as plugin:
        answer = await plugin.GetPreferredAllocation(api.PreferredAllocationRequest(container_requests=[asked]))

    assert list(answer.container_responses[0].deviceIDs) == ["c", "a"]


async def test_stream_that_is_to_be_empty_ends_without_a_list(kubelet_dir: Path) -> None:
    stub = Stub(behaviour(), kubelet_dir, Notes())
    stub.behaviour.answers[Rpc.LIST] = Answer(is_empty=True)
    async with calls_to(stub, kubelet_dir) as plugin, aclosing(aiter(plugin.ListAndWatch(api.Empty()))) as stream:
        assert [response async for response in stream] == []
