"""Fed in: a plugin whose lists come from the test, a fake kubelet on a real socket; observed: what the kubelet sees."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from plugin.errors import FatalError, UsageError
from plugin.framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    PluginOptions,
    ResourceName,
    RestartPolicy,
    client,
    run_plugins,
)
from plugin.framework.server import serving
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.apis.inotify import Mask, PathWatch
from tests.support.grpc_peers import DEVICE_PLUGIN, Calls, calls
from tests.support.patience import LIMIT_S


class ScriptedPlugin(DevicePlugin):
    """Lists what the test puts into `lists`; an exception there is raised."""

    resource_name: ClassVar[ResourceName] = ResourceName("example.com/scripted")
    socket_name: ClassVar[str] = "scripted.sock"
    options: ClassVar[PluginOptions] = PluginOptions(pre_start_required=True, preferred_allocation_available=True)

    def __init__(self) -> None:
        self.lists: asyncio.Queue[DeviceList | Exception] = asyncio.Queue()
        self.lists.put_nowait(_devices("d0", "d1"))
        self.is_listed = asyncio.Event()
        self.is_closed = False
        self.asked_in: threading.Thread | None = None

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        try:
            while True:
                item = await self.lists.get()
                if isinstance(item, Exception):
                    raise item
                yield item
                self.is_listed.set()
        finally:
            self.is_closed = True

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        if "bad" in device_ids:
            raise AllocationRefusedError("no bad devices")
        if "gone" in device_ids:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "/dev/gone")
        return api.ContainerAllocateResponse(envs={"IDS": ",".join(device_ids)})

    def preferred(
        self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
    ) -> Sequence[DeviceID] | None:
        self.asked_in = threading.current_thread()
        return [*required, *available][:size]


class TalkativePlugin(ScriptedPlugin):
    options: ClassVar[PluginOptions] = PluginOptions(preferred_allocation_available=True, in_registration=True)


class SecondPlugin(ScriptedPlugin):
    resource_name: ClassVar[ResourceName] = ResourceName("example.com/second")
    socket_name: ClassVar[str] = "second.sock"


def _devices(*names: str, health: Health = Health.HEALTHY) -> DeviceList:
    return tuple(Device(DeviceID(name), health, (1,)) for name in names)


class Running:
    """The framework at work in a task, and the plugins it has built."""

    def __init__(self, task: asyncio.Task[None], plugins: list[ScriptedPlugin], built: asyncio.Event) -> None:
        self.task = task
        self.plugins = plugins
        self.built = built

    async def serves(self) -> None:
        """Wait until the first plugin serves and its first list was taken."""
        async with asyncio.timeout(LIMIT_S):
            await self.built.wait()
            await self.plugins[0].is_listed.wait()

    async def finish(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            await self.task


@asynccontextmanager
async def _running(folder: Path, policy: RestartPolicy, *makes: Callable[[], ScriptedPlugin]) -> AsyncIterator[Running]:
    plugins: list[ScriptedPlugin] = []
    built = asyncio.Event()

    def build() -> list[ScriptedPlugin]:
        made = [make() for make in makes or (ScriptedPlugin,)]
        plugins.extend(made)
        built.set()
        return made

    task = asyncio.create_task(run_plugins(build, folder, policy))
    try:
        yield Running(task, plugins, built)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _stub(folder: Path) -> AbstractAsyncContextManager[Calls]:
    return calls(folder / "scripted.sock", DEVICE_PLUGIN)


async def _read(stream: Any) -> list[tuple[str, str]]:
    async with asyncio.timeout(LIMIT_S):
        return [(device.ID, device.health) for device in (await stream.read()).devices]


async def _removal(changes: PathWatch, name: str) -> None:
    """Wait until a watch for removals reports this file."""
    async with asyncio.timeout(LIMIT_S):
        async for event in changes:
            if event.path is not None and event.path.name == name:
                return


async def test_plugin_registers_with_version_socket_and_resource_only(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS):
        request = await kubelet.registration()

    assert (request.version, request.endpoint, request.resource_name) == (
        "v1beta1",
        "scripted.sock",
        "example.com/scripted",
    )
    assert not request.HasField("options")


async def test_plugin_that_sends_its_options_has_them_in_the_registration(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS, TalkativePlugin):
        request = await kubelet.registration()

    assert request.options == api.DevicePluginOptions(get_preferred_allocation_available=True)


async def test_kubelet_can_call_everything_once_registered(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            options = await stub.GetDevicePluginOptions(api.Empty())
            first = await stub.ListAndWatch(api.Empty()).read()
            preferred = await stub.GetPreferredAllocation(
                api.PreferredAllocationRequest(
                    container_requests=[
                        api.ContainerPreferredAllocationRequest(
                            available_deviceIDs=["d0", "d1"], must_include_deviceIDs=["d1"], allocation_size=1
                        )
                    ]
                )
            )
            started = await stub.PreStartContainer(api.PreStartContainerRequest(devices_ids=["d0"]))

    assert options == api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    assert [device.ID for device in first.devices] == ["d0", "d1"]
    assert first.devices[0].topology == api.TopologyInfo(nodes=[api.NUMANode(ID=1)])
    assert [list(answer.deviceIDs) for answer in preferred.container_responses] == [["d1"]]
    assert started == api.PreStartContainerResponse()
    assert running.plugins[0].asked_in not in (None, threading.current_thread())


async def test_each_container_of_a_call_gets_its_answer_in_order(kubelet: Any, kubelet_dir: Path) -> None:
    request = api.AllocateRequest(
        container_requests=[api.ContainerAllocateRequest(devices_ids=ids) for ids in (["d1", "d0"], [])]
    )

    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS):
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            answer = await stub.Allocate(request)

    assert [dict(container.envs) for container in answer.container_responses] == [{"IDS": "d1,d0"}, {"IDS": ""}]


@pytest.mark.parametrize(
    ("device", "text"), [("bad", "no bad devices"), ("gone", "/dev/gone: No such file or directory")]
)
async def test_refused_allocation_reaches_the_kubelet_as_unknown_with_its_text(
    kubelet: Any, kubelet_dir: Path, device: str, text: str
) -> None:
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=[device])])

    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS):
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            with pytest.raises(RpcError) as refusal:
                await stub.Allocate(request)

    assert (refusal.value.code, refusal.value.text) == (Code.UNKNOWN, text)


async def test_two_streams_both_get_every_update_also_after_a_third_has_ended(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            streams = [stub.ListAndWatch(api.Empty()) for _ in range(3)]
            for stream in streams:
                assert await _read(stream) == [("d0", "Healthy"), ("d1", "Healthy")]
            await streams.pop().cancel()
            for name in ("d2", "d3"):
                running.plugins[0].lists.put_nowait(_devices(name, health=Health.UNHEALTHY))
                for stream in streams:
                    assert await _read(stream) == [(name, "Unhealthy")]


async def test_new_kubelet_gets_a_registration_of_a_new_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        for lives in range(2, 5):
            await kubelet.stop()
            await kubelet.start()
            await kubelet.registration()
            async with _stub(kubelet_dir) as stub:
                assert await _read(stub.ListAndWatch(api.Empty())) == [("d0", "Healthy"), ("d1", "Healthy")]
            assert len(running.plugins) == lives

    assert [plugin.is_closed for plugin in running.plugins] == [True] * 4


async def test_plugin_that_leaves_restarts_to_its_supervisor_exits_on_a_new_kubelet(
    kubelet: Any, kubelet_dir: Path
) -> None:
    async with _running(kubelet_dir, RestartPolicy.EXIT) as running:
        await kubelet.registration()
        await kubelet.stop()
        await kubelet.start()
        await running.finish()

    assert not (kubelet_dir / "scripted.sock").exists()
    assert kubelet.requests.empty()


async def test_kubelet_that_appears_during_the_dial_restarts_the_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    await kubelet.stop()

    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await running.serves()
        await kubelet.start()  # removes the socket of the plugin that dials
        await kubelet.registration()
        async with _stub(kubelet_dir) as stub:
            assert await _read(stub.ListAndWatch(api.Empty())) == [("d0", "Healthy"), ("d1", "Healthy")]


async def test_plugin_that_is_cancelled_again_while_it_stops_ends_its_server(
    kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serves, may_stop = asyncio.Event(), asyncio.Event()
    stopped: list[GrpcServer] = []
    stop = GrpcServer.stop

    async def slow_stop(server: GrpcServer) -> None:
        await may_stop.wait()
        await stop(server)
        stopped.append(server)

    async def serve() -> None:
        async with serving(ScriptedPlugin(), kubelet_dir):
            serves.set()
            await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(GrpcServer, "stop", slow_stop)
        task = asyncio.create_task(serve())
        async with asyncio.timeout(LIMIT_S):
            await serves.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        may_stop.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert len(stopped) == 1
    assert not (kubelet_dir / "scripted.sock").exists()


async def test_renamed_socket_counts_as_a_new_kubelet(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS):
        await kubelet.registration()
        kubelet.socket.rename(kubelet_dir / "aside")
        (kubelet_dir / "aside").rename(kubelet.socket)
        await kubelet.registration()


async def test_refusal_ends_a_plugin_that_leaves_restarts_to_its_supervisor(kubelet: Any, kubelet_dir: Path) -> None:
    kubelet.refusal = "the ResourceName is invalid"

    async with _running(kubelet_dir, RestartPolicy.EXIT) as running:
        with pytest.raises(FatalError) as end:
            await running.finish()

    assert str(end.value) == (
        "register to kubelet failed: rpc error: code = Unknown desc = the ResourceName is invalid"
    )
    assert not (kubelet_dir / "scripted.sock").exists()


async def test_refusal_ends_a_plugin_also_when_a_new_kubelet_comes_while_it_cleans_up(
    kubelet: Any, kubelet_dir: Path
) -> None:
    kubelet.refusal = "not now"
    is_ending = asyncio.Event()

    class SlowToEnd(ScriptedPlugin):
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            try:
                yield
            finally:
                is_ending.set()
                await asyncio.Event().wait()

    async with _running(kubelet_dir, RestartPolicy(attempts=1), SlowToEnd) as running:
        async with asyncio.timeout(LIMIT_S):
            await is_ending.wait()
        kubelet.refusal = None
        await kubelet.stop()
        await kubelet.start()

        with pytest.raises(FatalError, match="not now"):
            await running.finish()


async def test_plugin_without_kubelet_continues_and_registers_when_one_appears(
    kubelet: Any, kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_DIAL_TIMEOUT_S", 0.01)
    await kubelet.stop()
    kubelet.socket.unlink(missing_ok=True)

    with PathWatch() as removals:
        removals.add(kubelet_dir, Mask.DELETE)
        async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
            await _removal(removals, "scripted.sock")
            assert running.plugins[0].is_closed
            assert not (kubelet_dir / "scripted.sock").exists()
            monkeypatch.setattr(client, "_DIAL_TIMEOUT_S", 5.0)
            await kubelet.start()
            await kubelet.registration()
            assert not running.task.done()


async def test_refused_plugin_stops_while_the_one_registered_before_continues(kubelet: Any, kubelet_dir: Path) -> None:
    kubelet.refusal, kubelet.refused_resource = "no second one", "example.com/second"

    with PathWatch() as removals:
        removals.add(kubelet_dir, Mask.DELETE)
        async with _running(kubelet_dir, RestartPolicy.IN_PROCESS, ScriptedPlugin, SecondPlugin) as running:
            await _removal(removals, "second.sock")
            async with _stub(kubelet_dir) as stub:
                assert await _read(stub.ListAndWatch(api.Empty())) == [("d0", "Healthy"), ("d1", "Healthy")]
            assert [plugin.is_closed for plugin in running.plugins] == [False, True]


async def test_plugin_without_kubelet_is_fatal_where_a_supervisor_restarts(
    kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_DIAL_TIMEOUT_S", 0.01)

    async with _running(kubelet_dir, RestartPolicy.EXIT) as running:
        with pytest.raises(FatalError, match=r"^register to kubelet failed: context deadline exceeded$"):
            await running.finish()


async def test_stopped_plugin_leaves_no_socket_and_closes_its_source(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()

    assert not (kubelet_dir / "scripted.sock").exists()
    assert running.plugins[0].is_closed


async def test_error_of_the_device_source_ends_the_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        running.plugins[0].lists.put_nowait(FatalError("the hardware is gone"))
        with pytest.raises(FatalError, match="the hardware is gone"):
            await running.finish()


async def test_too_long_socket_path_is_refused_before_anything_starts(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()

    with pytest.raises(UsageError, match="a Unix socket takes 107; use a shorter folder"):
        await run_plugins(list, folder, RestartPolicy.EXIT)


async def test_missing_folder_is_refused(kubelet_dir: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        await run_plugins(list, kubelet_dir / "x", RestartPolicy.EXIT)


async def test_file_in_place_of_the_folder_is_refused(kubelet_dir: Path) -> None:
    (kubelet_dir / "x").touch()

    with pytest.raises(UsageError, match="is no folder"):
        await run_plugins(list, kubelet_dir / "x", RestartPolicy.EXIT)


async def test_folder_without_write_permission_ends_the_plugin(
    kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere

    async with _running(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        with pytest.raises(UsageError, match="make the folder writable"):
            await running.finish()
