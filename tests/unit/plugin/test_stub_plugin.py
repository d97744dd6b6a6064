"""The scriptable plugin in this process, with a kubelet that records registrations, and calls on its own socket."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugin.errors import HostError
from plugin.framework import Device, DeviceID, DeviceList, ResourceName, server
from plugin.stub import control
from plugin.stub import stub as stub_module
from plugin.stub.behaviour import Answer, Behaviour, Looks, OnLostStream, Registers, Rpc
from plugin.stub.stub import Registration, Stub
from simkubelet.apis import deviceplugin as api
from simkubelet.apis import pluginregistration
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from tests.support.bare_connection import BareConnection
from tests.support.grpc_peers import DEVICE_PLUGIN, WATCHED_REGISTRATION, calls
from tests.support.patience import LIMIT_S, until

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
    try:
        async with calls(folder / "stub.sock", DEVICE_PLUGIN) as plugin:
            yield plugin
    finally:
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


async def test_device_that_is_not_listed_is_refused(kubelet_dir: Path) -> None:
    stub = Stub(behaviour(), kubelet_dir, Notes())
    async with calls_to(stub, kubelet_dir) as plugin:
        with pytest.raises(RpcError, match=r"no device c, d$") as refused:
            await allocate(plugin, "a", "c", "d")

    assert refused.value.code == Code.UNKNOWN


async def test_list_is_sent_again_in_its_interval(kubelet_dir: Path) -> None:
    stub = Stub(replace(behaviour(), resend_s=0.01), kubelet_dir, Notes())
    async with calls_to(stub, kubelet_dir) as plugin:
        stream = plugin.ListAndWatch(api.Empty())
        first, second, third = [await stream.read() for _ in range(3)]

    assert first == second == third


@pytest.mark.parametrize("has_topology", [True, False])
async def test_device_without_numa_nodes_may_have_an_empty_topology(kubelet_dir: Path, has_topology: bool) -> None:
    stub = Stub(replace(behaviour(), has_topology=has_topology), kubelet_dir, Notes())
    async with calls_to(stub, kubelet_dir) as plugin:
        listed = await plugin.ListAndWatch(api.Empty()).read()

    assert [(device.HasField("topology"), len(device.topology.nodes)) for device in listed.devices] == [
        (has_topology, 0)
    ] * 2


async def test_socket_may_be_named_by_the_second(
    kubelet: Any, kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, seconds = Notes(), iter(range(100, 200))
    monkeypatch.setattr(stub_module.time, "time", lambda: next(seconds))
    stub = Stub(replace(behaviour(Registers.ALWAYS), socket_name="stub-{second}.sock"), kubelet_dir, notes)
    async with running(stub):
        first, _ = await notes.answer()
        await kubelet.stop()
        await kubelet.start()
        second, _ = await notes.answer()

        assert (first.endpoint, second.endpoint) == ("stub-101.sock", "stub-102.sock")
        assert (kubelet_dir / second.endpoint).is_socket()
        assert not (kubelet_dir / first.endpoint).exists()


async def test_further_resource_is_empty_and_has_a_socket_of_its_own(kubelet: Any, kubelet_dir: Path) -> None:
    notes, none = Notes(), ResourceName("example.com/none")
    async with running(Stub(replace(behaviour(Registers.ALWAYS), empties=(none,)), kubelet_dir, notes)):
        found = {one.resource: one.endpoint for one, _ in [await notes.answer() for _ in range(2)]}
        empty = await kubelet.first_list(found[none])
        others = await kubelet.first_list(found[RESOURCE])

    assert (len(empty), len(others)) == (0, 2)
    assert not (kubelet_dir / found[none]).exists()


@pytest.mark.parametrize("registers", [Registers.ONCE, Registers.FOUND])
async def test_socket_may_be_named_by_its_whole_path(kubelet: Any, kubelet_dir: Path, registers: Registers) -> None:
    folder, notes = kubelet_dir / "device-plugins", Notes()
    place = folder if registers is Registers.ONCE else kubelet_dir / "plugins_registry"
    for one in (folder, kubelet_dir / "plugins_registry"):
        one.mkdir()
    (folder / api.KUBELET_SOCKET_NAME).symlink_to(kubelet.socket)
    stub = Stub(replace(behaviour(registers), names_whole_path=True), folder, notes)
    async with running(stub):
        if registers is Registers.ONCE:
            registration, _ = await notes.answer()
            named = registration.endpoint
        else:
            await until((place / "stub.sock").exists)
            async with calls(place / "stub.sock", WATCHED_REGISTRATION) as found:
                named = (await found.GetInfo(pluginregistration.InfoRequest())).endpoint

    assert named == str(place / "stub.sock")


async def test_port_that_another_has_ends_the_stub(kubelet: Any, kubelet_dir: Path) -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(HostError, match=f"cannot listen on TCP port {port}: Address already in use; "):
            await Stub(replace(behaviour(), port=port), kubelet_dir, Notes()).run()


async def test_error_is_logged_before_the_last_line(kubelet_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "plugin"):
        await Stub(replace(behaviour(), failure="no driver"), kubelet_dir, Notes()).run()

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", "no driver"),
        ("INFO", "Shutting down."),
    ]


@pytest.fixture
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a refusal nor a lost stream is waited after."""
    monkeypatch.setattr(server, "_STREAM_GRACE_S", 0.0)
    monkeypatch.setattr(stub_module, "_PAUSE_S", 0.0)


@pytest.mark.usefixtures("_in_no_time")
async def test_registers_until_it_is_connected(kubelet: Any, kubelet_dir: Path) -> None:
    notes, kubelet.refusal = Notes(), "not now"
    async with running(Stub(behaviour(Registers.UNTIL_CONNECTED), kubelet_dir, notes)):
        refused = [error for _, error in [await notes.answer() for _ in range(3)]]
        kubelet.refusal = None
        await kubelet_accepts(notes)
        await kubelet.first_list("stub.sock")
        await kubelet_accepts(notes)

    assert all("not now" in error for error in refused)


async def kubelet_accepts(notes: Notes) -> None:
    """Wait for a registration that is not refused."""
    while (await notes.answer())[1]:
        pass


@pytest.mark.usefixtures("_in_no_time")
async def test_stopped_server_is_no_lost_stream(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    stub = Stub(behaviour(Registers.UNTIL_CONNECTED), kubelet_dir, notes)
    async with running(stub):
        await notes.answer()
        await kubelet.listed("stub.sock")
        await stub.stop_server()
        for _ in range(100):
            await asyncio.sleep(0)

    assert kubelet.requests.qsize() == 1


async def test_waits_for_the_kubelet_in_the_folder_that_it_watches(
    kubelet: Any, kubelet_dir: Path, tmp_path: Path
) -> None:
    notes = Notes()
    watching = replace(behaviour(Registers.ALWAYS), watched_folder=tmp_path)
    async with running(Stub(watching, kubelet_dir, notes)):
        await notes.answer()
        await kubelet.stop()
        await kubelet.start()
        (tmp_path / "kubelet.sock").touch()
        await notes.answer()

        assert kubelet.requests.qsize() == 2


@pytest.mark.parametrize("registers", [Registers.NEVER, Registers.UNTIL_CONNECTED])
async def test_lost_stream_ends_the_stub_that_is_to_exit(kubelet: Any, kubelet_dir: Path, registers: Registers) -> None:
    exits = replace(behaviour(registers), on_lost_stream=OnLostStream.EXIT)
    stub = Stub(exits, kubelet_dir, Notes())
    async with running(stub) as run, calls_to(stub, kubelet_dir) as plugin:
        await plugin.ListAndWatch(api.Empty()).read()
        stub.end_streams()

        await asyncio.wait_for(run, LIMIT_S)


async def test_lost_stream_is_waited_after_before_another_registration(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    stub = Stub(behaviour(Registers.UNTIL_CONNECTED), kubelet_dir, notes)
    async with running(stub):
        await notes.answer()
        await kubelet.first_list("stub.sock")
        for _ in range(100):
            await asyncio.sleep(0)

    assert kubelet.requests.qsize() == 1


async def test_stream_that_the_caller_ends_is_lost(kubelet: Any, kubelet_dir: Path) -> None:
    exits = replace(behaviour(), on_lost_stream=OnLostStream.EXIT)
    stub = Stub(exits, kubelet_dir, Notes())
    async with running(stub) as run:
        await stub.start_server()
        async with calls(kubelet_dir / "stub.sock", DEVICE_PLUGIN) as plugin:
            await plugin.ListAndWatch(api.Empty()).read()

        await asyncio.wait_for(run, LIMIT_S)


async def test_stream_that_ends_with_its_server_is_not_lost(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    exits = replace(behaviour(Registers.ALWAYS), on_lost_stream=OnLostStream.EXIT)
    stub = Stub(exits, kubelet_dir, notes)
    async with running(stub) as run:
        await notes.answer()
        async with calls_to(stub, kubelet_dir) as plugin:
            # A stream that nothing refers to any more is cancelled by its caller.
            stream = plugin.ListAndWatch(api.Empty())
            await stream.read()
            await kubelet.stop()
            await kubelet.start()
            await notes.answer()

        assert not run.done()


async def test_stub_that_hangs_serves_on_and_misses_the_kubelet(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    hangs = replace(behaviour(Registers.ALWAYS), on_lost_stream=OnLostStream.HANG)
    stub = Stub(hangs, kubelet_dir, notes)
    async with running(stub):
        await notes.answer()
        async with calls(kubelet_dir / "stub.sock", DEVICE_PLUGIN) as plugin:
            stream = plugin.ListAndWatch(api.Empty())
            await stream.read()
            stub.end_streams()
            assert await stream.read() is None
            assert len((await allocate(plugin, "a")).container_responses) == 1
        await kubelet.stop()
        await kubelet.start()
        # By now a stub that goes on has registered.
        await stub.register()
        await notes.answer()

        assert kubelet.requests.qsize() == 2


async def test_stub_that_hangs_sees_a_streams_end_before_the_next_kubelet(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    hangs = replace(behaviour(Registers.ALWAYS), on_lost_stream=OnLostStream.HANG)
    stub = Stub(hangs, kubelet_dir, notes)
    async with running(stub):
        await notes.answer()
        with BareConnection(kubelet_dir / "stub.sock") as caller:
            stream = caller.begin("ListAndWatch", api.Empty())
            await asyncio.to_thread(caller.message, stream)
            # The event loop has no turn between these and the end of the connection.
            (kubelet_dir / api.KUBELET_SOCKET_NAME).rename(kubelet_dir / "last")
            (kubelet_dir / "last").rename(kubelet_dir / api.KUBELET_SOCKET_NAME)
        for _ in range(3):
            # By now a stub that goes on has registered.
            await stub.register()
            await notes.answer()

        assert kubelet.requests.qsize() == 4


async def test_devices_follow_their_files(kubelet: Any, kubelet_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "a"
    follows = replace(behaviour(), files={DeviceID("a"): file})
    stub = Stub(follows, kubelet_dir, Notes())
    async with running(stub), listed(stub, kubelet_dir) as lists:
        missing = await anext(lists)
        file.touch()
        there = await anext(lists)
        file.rename(tmp_path / "elsewhere")

        assert missing == {"a": "Unhealthy", "b": "Healthy"}
        assert there == {"a": "Healthy", "b": "Healthy"}
        assert await anext(lists) == missing


async def test_files_in_a_recreated_folder_are_not_noticed(kubelet: Any, kubelet_dir: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    other.mkdir()
    folder.mkdir()
    (folder / "a").touch()
    follows = replace(behaviour(), files={DeviceID("a"): folder / "a", DeviceID("b"): other / "b"})
    stub = Stub(follows, kubelet_dir, Notes())
    async with running(stub), listed(stub, kubelet_dir) as lists:
        first = await anext(lists)
        (folder / "a").unlink()
        folder.rmdir()
        second = await anext(lists)
        folder.mkdir()
        (folder / "a").symlink_to("nowhere")
        (other / "b").touch()

        assert first == {"a": "Healthy", "b": "Unhealthy"}
        assert second == {"a": "Unhealthy", "b": "Unhealthy"}
        assert await anext(lists) == {"a": "Unhealthy", "b": "Healthy"}


async def test_device_that_is_missing_at_the_start_is_never_listed(
    kubelet: Any, kubelet_dir: Path, tmp_path: Path
) -> None:
    looks_once = replace(behaviour(), files={DeviceID("a"): tmp_path / "a"}, looks=Looks.AT_START)
    stub = Stub(looks_once, kubelet_dir, Notes())
    async with running(stub), listed(stub, kubelet_dir) as lists:
        first = await anext(lists)
        (tmp_path / "a").touch()
        stub.send_list(stub.behaviour.devices)

        assert first == await anext(lists) == {"b": "Healthy"}


@asynccontextmanager
async def listed(stub: Stub, folder: Path) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
    """The lists that the stub sends, once it runs."""

    async def lists(plugin: Any) -> AsyncIterator[dict[str, str]]:
        async for response in plugin.ListAndWatch(api.Empty()):
            yield {device.ID: device.health for device in response.devices}

    await until((folder / "stub.sock").exists)
    async with asyncio.timeout(LIMIT_S):
        async with calls(folder / "stub.sock", DEVICE_PLUGIN) as plugin, aclosing(lists(plugin)) as found:
            yield found


async def test_kubelet_finds_it_in_the_registry_and_reports_the_outcome(kubelet_dir: Path) -> None:
    plugins, registry = kubelet_dir / "device-plugins", kubelet_dir / "plugins_registry"
    plugins.mkdir()
    registry.mkdir()
    notes = Notes()
    stub = Stub(behaviour(Registers.FOUND), plugins, notes)
    async with running(stub):
        await until((registry / "stub.sock").exists)
        async with calls(registry / "stub.sock", WATCHED_REGISTRATION) as plugin:
            info = await plugin.GetInfo(pluginregistration.InfoRequest())
            for answer in ({"plugin_registered": True}, {"plugin_registered": False, "error": "no"}):
                await plugin.NotifyRegistrationStatus(pluginregistration.RegistrationStatus(**answer))
        async with calls(registry / "stub.sock", DEVICE_PLUGIN) as plugin:
            answered = await allocate(plugin, "a")

    assert (info.type, info.name, list(info.supported_versions)) == ("DevicePlugin", RESOURCE, ["v1beta1"])
    assert not info.endpoint
    assert [await notes.answer() for _ in range(2)] == [
        (Registration(RESOURCE, "stub.sock"), ""),
        (Registration(RESOURCE, "stub.sock"), "no"),
    ]
    assert len(answered.container_responses) == 1


async def test_calls_the_service_that_it_is_told(kubelet: Any, kubelet_dir: Path) -> None:
    notes = Notes()
    stub = Stub(behaviour(), kubelet_dir, notes)

    await stub.register(service="deviceplugin.Registration")
    await stub.stop_server()

    registration, error = await notes.answer()
    assert registration.service == "deviceplugin.Registration"
    assert error.startswith("rpc error: code = Unimplemented desc = ")
    assert kubelet.requests.empty()


def test_input_takes_any_bytes_and_may_outlast_the_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()

    async def first_line() -> str:
        lines = control._lines_of_input()
        os.write(write, b"\xff\n")
        async with asyncio.timeout(LIMIT_S):
            return await lines.get()

    with os.fdopen(read, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        line = asyncio.run(first_line())
        (thread,) = (one for one in threading.enumerate() if one.name == "standard input")
        os.write(write, b"later\n")
        os.close(write)
        thread.join(LIMIT_S)

    assert line == "\ufffd\n"
    assert not thread.is_alive()
