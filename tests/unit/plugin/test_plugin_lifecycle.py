"""A plugin whose lists come from the test, with a fake kubelet on a real socket: when it restarts and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from plugin.errors import FatalError, UsageError
from plugin.framework import (
    ResourceName,
    RestartPolicy,
    client,
    run_plugins,
)
from plugin.framework.server import serving
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.apis.inotify import Mask, PathWatch
from tests.support.patience import LIMIT_S

from .scripted_plugin import ScriptedPlugin, read_list, run_scripted, stub_of


class SecondPlugin(ScriptedPlugin):
    resource_name: ClassVar[ResourceName] = ResourceName("example.com/second")
    socket_name: ClassVar[str] = "second.sock"


async def _removal(changes: PathWatch, name: str) -> None:
    """Wait until a watch for removals reports this file."""
    async with asyncio.timeout(LIMIT_S):
        async for event in changes:
            if event.path is not None and event.path.name == name:
                return


async def test_new_kubelet_gets_a_registration_of_a_new_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()
        for lives in range(2, 5):
            await kubelet.stop()
            await kubelet.start()
            await kubelet.registration()
            async with stub_of(kubelet_dir) as stub:
                assert await read_list(stub.ListAndWatch(api.Empty())) == [("d0", "Healthy"), ("d1", "Healthy")]
            assert len(running.plugins) == lives

    assert [plugin.is_closed for plugin in running.plugins] == [True] * 4


async def test_plugin_that_leaves_restarts_to_its_supervisor_exits_on_a_new_kubelet(
    kubelet: Any, kubelet_dir: Path
) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.EXIT) as running:
        await kubelet.registration()
        await kubelet.stop()
        await kubelet.start()
        await running.finish()

    assert not (kubelet_dir / "scripted.sock").exists()
    assert kubelet.requests.empty()


async def test_kubelet_that_appears_during_the_dial_restarts_the_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    await kubelet.stop()

    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await running.serves()
        await kubelet.start()  # removes the socket of the plugin that dials
        await kubelet.registration()
        async with stub_of(kubelet_dir) as stub:
            assert await read_list(stub.ListAndWatch(api.Empty())) == [("d0", "Healthy"), ("d1", "Healthy")]


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
        async with serving(ScriptedPlugin(), kubelet_dir, lambda: None):
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
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS):
        await kubelet.registration()
        kubelet.socket.rename(kubelet_dir / "aside")
        (kubelet_dir / "aside").rename(kubelet.socket)
        await kubelet.registration()


async def test_refusal_ends_a_plugin_that_leaves_restarts_to_its_supervisor(kubelet: Any, kubelet_dir: Path) -> None:
    kubelet.refusal = "the ResourceName is invalid"

    async with run_scripted(kubelet_dir, RestartPolicy.EXIT) as running:
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

    async with run_scripted(kubelet_dir, RestartPolicy(attempts=1), SlowToEnd) as running:
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
        async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
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
        async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS, ScriptedPlugin, SecondPlugin) as running:
            await _removal(removals, "second.sock")
            async with stub_of(kubelet_dir) as stub:
                assert await read_list(stub.ListAndWatch(api.Empty())) == [("d0", "Healthy"), ("d1", "Healthy")]
            assert [plugin.is_closed for plugin in running.plugins] == [False, True]


async def test_plugin_without_kubelet_is_fatal_where_a_supervisor_restarts(
    kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_DIAL_TIMEOUT_S", 0.01)

    async with run_scripted(kubelet_dir, RestartPolicy.EXIT) as running:
        with pytest.raises(FatalError, match=r"^register to kubelet failed: context deadline exceeded$"):
            await running.finish()


async def test_stopped_plugin_leaves_no_socket_and_closes_its_source(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        await kubelet.registration()

    assert not (kubelet_dir / "scripted.sock").exists()
    assert running.plugins[0].is_closed


async def test_error_of_the_device_source_ends_the_plugin(kubelet: Any, kubelet_dir: Path) -> None:
    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
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
    with pytest.raises(UsageError, match="no such file or directory; name the kubelet's folder"):
        await run_plugins(list, kubelet_dir / "x", RestartPolicy.EXIT)


async def test_file_in_place_of_the_folder_is_refused(kubelet_dir: Path) -> None:
    (kubelet_dir / "x").touch()

    with pytest.raises(UsageError, match="is no folder"):
        await run_plugins(list, kubelet_dir / "x", RestartPolicy.EXIT)


async def test_folder_without_write_permission_ends_the_plugin(
    kubelet_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere

    async with run_scripted(kubelet_dir, RestartPolicy.IN_PROCESS) as running:
        with pytest.raises(UsageError, match="make the folder writable"):
            await running.finish()
