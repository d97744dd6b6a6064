"""Fed in: plugins with rules other than NVIDIA's, new and vanished sockets, signals; observed: lives and their end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from plugin.errors import FatalError
from plugin.framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    OnKubelet,
    OnSignal,
    PluginOptions,
    ResourceName,
    RestartPolicy,
    StartError,
    client,
    run_plugins,
    server,
)
from plugin.framework.restart_policy import ORIGINAL
from plugin.framework.socket_watch import SocketWatch
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from tests.support.grpc_peers import DEVICE_PLUGIN, Answers, Calls, calls
from tests.support.patience import LIMIT_S

TURNS = 100
"""Of the event loop: more than a plugin needs to stop and to serve again."""


class Seats(DevicePlugin):
    """One device; `events` gets what happens to the plugin."""

    resource_name = ResourceName("example.com/seat")
    socket_name = "seats.sock"
    options = PluginOptions(pre_start_required=True)
    last_list: DeviceList | None = None

    def __init__(self, events: asyncio.Queue[str], fails: int = 0) -> None:
        self._events = events
        self._fails = fails

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self._events.put_nowait("begins")
        if self._fails:
            raise StartError("no seats yet")
        try:
            yield
        finally:
            self._events.put_nowait("ends")

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        yield (Device(DeviceID("s0")),)

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> Sequence[api.ContainerAllocateResponse]:
        whole = ",".join(device_id for device_ids in requests for device_id in device_ids)
        return [api.ContainerAllocateResponse(envs={"ALL": whole}) for _ in requests]

    async def pre_start(self, device_ids: Sequence[DeviceID]) -> None:
        if "s0" not in device_ids:
            raise AllocationRefusedError("no such seat")

    def stream_ended(self) -> None:
        self._events.put_nowait("stream ended")


class LeavingSeats(Seats):
    last_list: DeviceList | None = ()


class Running:
    """The framework at work, and what happens to its plugins."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[str] = asyncio.Queue()
        self.lives = 0
        self.task: asyncio.Task[int] | None = None

    async def sees(self, *expected: str) -> None:
        """The next events are these."""
        async with asyncio.timeout(LIMIT_S):
            assert [await self.events.get() for _ in expected] == list(expected)

    async def status(self) -> int:
        assert self.task is not None
        async with asyncio.timeout(LIMIT_S):
            return await self.task


@asynccontextmanager
async def running(
    folder: Path, policy: RestartPolicy, fails: int = 0, kind: type[Seats] = Seats, **options: str
) -> AsyncIterator[Running]:
    """Plugins of which the first `fails` cannot start."""
    found = Running()

    def build() -> list[DevicePlugin]:
        found.lives += 1
        return [kind(found.events, fails=found.lives <= fails)]

    found.task = asyncio.create_task(run_plugins(build, folder, policy, **options))
    try:
        yield found
    finally:
        found.task.cancel()
        await asyncio.gather(found.task, return_exceptions=True)


def _stub(folder: Path) -> AbstractAsyncContextManager[Calls]:
    return calls(folder / "seats.sock", DEVICE_PLUGIN)


async def test_new_kubelet_is_nothing_to_a_plugin_that_does_not_look(kubelet: Any, kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy(on_kubelet=OnKubelet.NOTHING)) as plugin:
        await kubelet.registration()
        await kubelet.stop()
        await kubelet.start()
        os.kill(os.getpid(), signal.SIGHUP)
        await kubelet.registration()

        await plugin.sees("begins", "ends", "begins")
        assert plugin.lives == 2


async def test_plugin_waits_while_there_is_no_kubelet(kubelet: Any, kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy(stops_without_kubelet=True)) as plugin:
        await kubelet.registration()
        kubelet.socket.unlink()
        await plugin.sees("begins", "ends")
        assert not (kubelet_dir / "seats.sock").exists()
        await kubelet.stop()
        await kubelet.start()
        await kubelet.registration()
        await plugin.sees("begins")


async def test_plugin_whose_own_socket_was_removed_serves_and_registers_again(kubelet: Any, kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy(restarts_without_socket=True)) as plugin:
        for _ in range(3):
            await kubelet.registration()
            (kubelet_dir / "seats.sock").unlink()
            await plugin.sees("begins", "ends")
        await kubelet.registration()
        assert (kubelet_dir / "seats.sock").exists()


@pytest.fixture
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that has ended is lost unless another is open already."""
    monkeypatch.setattr(server, "_STREAM_GRACE_S", 0.0)


async def open_stream(stub: Calls) -> Answers:
    """A stream of which the first list has come."""
    stream = stub.ListAndWatch(api.Empty())
    await stream.read()
    return stream


@pytest.mark.usefixtures("_no_grace")
async def test_plugin_whose_stream_the_kubelet_has_ended_registers_again(kubelet: Any, kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy()) as plugin:
        for _ in range(3):
            await kubelet.registration()
            async with _stub(kubelet_dir) as stub:
                await (await open_stream(stub)).cancel()
                await plugin.sees("begins", "stream ended", "ends")
        await kubelet.registration()


@pytest.mark.usefixtures("_no_grace")
@pytest.mark.parametrize(
    ("policy", "streams"),
    [
        pytest.param(RestartPolicy(), 2, id="another stream is open"),
        pytest.param(ORIGINAL, 1, id="as the originals"),
    ],
)
async def test_ended_stream_is_no_reason_to_register_where_it_is_not_missed(
    kubelet: Any, kubelet_dir: Path, policy: RestartPolicy, streams: int
) -> None:
    async with running(kubelet_dir, policy) as plugin:
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            opened = [await open_stream(stub) for _ in range(streams)]
            await opened[0].cancel()
            await plugin.sees("begins", "stream ended")
            for _ in range(TURNS):
                await asyncio.sleep(0)

        assert (plugin.lives, kubelet.registrations) == (1, 0)


@pytest.mark.usefixtures("_no_grace")
async def test_stream_that_ends_with_its_kubelet_is_followed_by_one_registration(
    kubelet: Any, kubelet_dir: Path
) -> None:
    async with running(kubelet_dir, RestartPolicy()) as plugin:
        await kubelet.registration()
        await kubelet.listed("seats.sock")
        await kubelet.stop()
        await plugin.sees("begins", "stream ended")
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert plugin.lives == 1
        await kubelet.start()
        await kubelet.registration()
        os.kill(os.getpid(), signal.SIGTERM)

        assert await plugin.status() == 0
        assert kubelet.registrations == 0


class UnnamedSeats(Seats):
    socket_name = ""


async def test_plugin_without_a_socket_name_has_one_of_its_own(kubelet: Any, kubelet_dir: Path) -> None:
    async with (
        running(kubelet_dir, RestartPolicy(), kind=UnnamedSeats),
        running(kubelet_dir, RestartPolicy(), kind=UnnamedSeats),
    ):
        names = {(await kubelet.registration()).endpoint for _ in range(2)}
        served = names_in(kubelet_dir)

    assert len(names) == 2
    assert served == {*names, api.KUBELET_SOCKET_NAME}
    assert names_in(kubelet_dir) == {api.KUBELET_SOCKET_NAME}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_new_kubelet_is_registered_with_once_although_it_removed_the_own_socket(
    kubelet: Any, kubelet_dir: Path
) -> None:
    async with running(kubelet_dir, RestartPolicy(restarts_without_socket=True)) as plugin:
        await kubelet.registration()
        await kubelet.stop()
        await kubelet.start()
        await kubelet.registration()
        os.kill(os.getpid(), signal.SIGTERM)

        assert await plugin.status() == 0
        assert kubelet.requests.empty()


async def test_own_socket_removed_before_that_of_a_dead_kubelet_is_no_reason_to_start_again(
    kubelet: Any, kubelet_dir: Path
) -> None:
    async with running(kubelet_dir, RestartPolicy(restarts_without_socket=True)) as plugin:
        await kubelet.registration()
        await kubelet.stop()
        with SocketWatch(kubelet_dir) as watch:
            # A new kubelet removes sockets in any order, and may be interrupted between two.
            (kubelet_dir / "seats.sock").unlink()
            await anext(watch.changes())
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert kubelet.socket.exists()
        await kubelet.start()
        await kubelet.registration()

        assert plugin.lives == 2


async def test_failed_start_is_tried_again_as_often_as_allowed_then_a_kubelet_is_waited_for(
    kubelet: Any, kubelet_dir: Path
) -> None:
    policy = RestartPolicy(attempts=3, retry_s=0.01, exits_when_spent=False)

    async with running(kubelet_dir, policy, fails=3) as plugin:
        await plugin.sees("begins", "begins", "begins")
        await kubelet.stop()
        await kubelet.start()
        await kubelet.registration()
        await plugin.sees("begins")
        assert plugin.lives == 4


async def test_failed_start_ends_the_plugin_with_its_status_after_the_last_attempt(kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy(attempts=2, retry_s=0.01, failed_status=7), fails=9) as plugin:
        with pytest.raises(FatalError, match=r"^no seats yet$") as end:
            await plugin.status()

    assert end.value.exit_status == 7
    assert plugin.lives == 2


async def test_signals_do_what_the_rules_say(kubelet: Any, kubelet_dir: Path) -> None:
    signals = {signal.SIGHUP: OnSignal.NOTHING, signal.SIGQUIT: OnSignal.RESTART, signal.SIGTERM: OnSignal.STOP}

    async with running(kubelet_dir, RestartPolicy(signals=MappingProxyType(signals), stop_status=5)) as plugin:
        await kubelet.registration()
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGQUIT)
        await plugin.sees("begins", "ends", "begins")
        await kubelet.registration()
        os.kill(os.getpid(), signal.SIGTERM)

        assert await plugin.status() == 5
    await plugin.sees("ends")


async def test_kubelet_elsewhere_is_registered_with_and_none_is_where_its_name_is_empty(
    kubelet: Any, kubelet_dir: Path, tmp_path: Path
) -> None:
    async with running(tmp_path, RestartPolicy(), kubelet_socket=str(kubelet.socket)):
        await kubelet.registration()
    assert not (tmp_path / "seats.sock").exists()

    async with running(tmp_path, RestartPolicy(), kubelet_socket="") as plugin:
        await plugin.sees("begins")
        async with _stub(tmp_path) as stub:
            assert [device.ID for device in (await stub.ListAndWatch(api.Empty()).read()).devices] == ["s0"]
    assert kubelet.requests.empty()


async def test_last_list_reaches_the_kubelet_before_the_stream_ends(kubelet: Any, kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy(), kind=LeavingSeats) as plugin:
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            stream = stub.ListAndWatch(api.Empty())
            first = await stream.read()
            os.kill(os.getpid(), signal.SIGTERM)
            last, end = await stream.read(), await stream.read()
            await plugin.status()

    assert (len(first.devices), len(last.devices), end) == (1, 0, None)
    await plugin.sees("begins", "stream ended", "ends")


async def test_stream_that_the_kubelet_ends_is_reported(kubelet: Any, kubelet_dir: Path) -> None:
    async with running(kubelet_dir, RestartPolicy()) as plugin:
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            stream = stub.ListAndWatch(api.Empty())
            await stream.read()
            await stream.cancel()
            await plugin.sees("begins", "stream ended")


async def test_whole_call_and_container_start_reach_the_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in (["a"], ["b", "c"])]
    )

    async with running(kubelet_dir, RestartPolicy()):
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            answer = await stub.Allocate(request)
            await stub.PreStartContainer(api.PreStartContainerRequest(devices_ids=["s0"]))
            with pytest.raises(RpcError) as refusal:
                await stub.PreStartContainer(api.PreStartContainerRequest(devices_ids=["s9"]))

    assert [dict(one.envs) for one in answer.container_responses] == [{"ALL": "a,b,c"}] * 2
    assert (refusal.value.code, refusal.value.text) == (Code.UNKNOWN, "no such seat")


async def test_absent_kubelet_ends_a_plugin_with_its_own_status(
    kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_DIAL_TIMEOUT_S", 0.01)

    async with running(kubelet_dir, RestartPolicy(attempts=1, failed_status=255)) as plugin:
        with pytest.raises(FatalError, match=r"^register to kubelet failed: ") as end:
            await plugin.status()

    assert end.value.exit_status == 255
