"""The plugins that share GPUs by memory, as processes.

Fed in are an API server, a kubelet and signals; observed are exit statuses, sockets and what is left in the API.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakegpu import Machine
from simkubelet.apis import deviceplugin as api
from tests.support.gpu_memory_world import World, gpu_memory_world
from tests.support.patience import LIMIT_S
from tests.support.plugin_kubelet import FakeKubelet, PluginProcess, plugin_process
from tests.support.short_paths import short_place

VGPU = ("volcano", "--gpu-strategy", "vgpu", "--gpu-memory-factor", "1024")


class Node:
    """A node with two GPUs, its kubelet, and the cluster's API server."""

    def __init__(self, world: World, kubelet: FakeKubelet, machine: Machine, folder: Path) -> None:
        self.world = world
        self.kubelet = kubelet
        self._folder = folder
        self.environment = {**machine.environment(), **world.environment(folder)}

    @asynccontextmanager
    async def plugin(self, *arguments: str, **environment: str) -> AsyncIterator[PluginProcess]:
        folders = ("--kubelet-dir", str(self.kubelet.folder), "--host-root", str(self._folder))
        env = {**self.environment, **environment}
        async with plugin_process((*arguments, *folders), self._folder / "log", env) as process:
            yield process

    @property
    def sockets(self) -> set[str]:
        """Those beside the kubelet's."""
        return {path.name for path in self.kubelet.folder.iterdir()} - {api.KUBELET_SOCKET_NAME}


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gm-", dir=short_place()) as name:
        yield Path(name)


@pytest.fixture
async def node(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    (folder / "sockets").mkdir()
    machine = Machine.create(folder / "machine", profile="t4", count=2, seed="gpu-memory")
    try:
        async with gpu_memory_world(monkeypatch) as world, FakeKubelet(folder / "sockets") as kubelet:
            yield Node(world, kubelet, machine, folder)
    finally:
        machine.destroy()


@pytest.mark.parametrize(
    ("plugin", "number", "status"),
    [
        pytest.param(("gpu-memory",), signal.SIGTERM, 1, id="gpu-memory TERM"),
        pytest.param(("gpu-memory",), signal.SIGHUP, 1, id="gpu-memory HUP"),
        pytest.param(("gpushare",), signal.SIGINT, 0, id="gpushare INT"),
        pytest.param(("volcano",), signal.SIGHUP, 255, id="volcano HUP"),
        pytest.param(VGPU, signal.SIGTERM, 0, id="vgpu TERM"),
    ],
)
async def test_signals_stop_it_with_its_originals_status(
    node: Node, plugin: Sequence[str], number: signal.Signals, status: int
) -> None:
    async with node.plugin(*plugin) as process:
        await node.kubelet.registration()
        process.signal(number)

        assert await process.exit_status() == status
    assert node.sockets == set()
    assert "Traceback" not in process.log


@pytest.mark.parametrize("plugin", [("gpushare",), VGPU], ids=["gpushare", "vgpu"])
async def test_hang_up_restarts_it(node: Node, plugin: Sequence[str]) -> None:
    async with node.plugin(*plugin) as process:
        first = {(await node.kubelet.registration()).resource_name for _ in range(len(plugin) // 2 + 1)}
        process.signal(signal.SIGHUP)
        again = {(await node.kubelet.registration()).resource_name for _ in first}

        assert again == first
        assert process.runs


async def test_gpushare_ignores_quit(node: Node) -> None:
    async with node.plugin("gpushare") as process:
        await node.kubelet.registration()
        process.signal(signal.SIGQUIT)
        process.signal(signal.SIGHUP)

        await node.kubelet.registration()
        assert process.runs


@pytest.mark.parametrize("plugin", ["gpu-memory", "gpushare", "volcano"])
async def test_a_new_kubelet_gets_a_registration(node: Node, plugin: str) -> None:
    async with node.plugin(plugin) as process:
        first = await node.kubelet.registration()
        await node.kubelet.restart()

        assert (await node.kubelet.registration()) == first
        assert len(await node.kubelet.first_list(first.endpoint)) in (30, 30720)
        assert process.runs


@pytest.mark.parametrize(
    ("plugin", "environment", "status", "words"),
    [
        pytest.param("gpushare", {"NODE_NAME": ""}, 255, "Please set env NODE_NAME", id="no node name"),
        pytest.param("gpushare", {"KUBECONFIG": "/no/file"}, 255, "stat /no/file", id="gpushare without API"),
        pytest.param("volcano", {"KUBECONFIG": ""}, 255, "unable to load in-cluster", id="volcano without API"),
        pytest.param("gpu-memory", {"KUBECONFIG": ""}, 1, "unable to load in-cluster", id="gpu-memory without API"),
        pytest.param("volcano", {"LD_LIBRARY_PATH": ""}, 1, "NVML", id="volcano without NVML"),
        pytest.param("gpu-memory", {"LD_LIBRARY_PATH": ""}, 1, "NVML", id="gpu-memory without NVML"),
    ],
)
async def test_what_is_missing_ends_it(
    node: Node, plugin: str, environment: dict[str, str], status: int, words: str
) -> None:
    async with node.plugin(plugin, **environment) as process:
        assert await process.exit_status() == status
    last = process.log.splitlines()[-1]
    assert words in last
    assert "Traceback" not in process.log


async def test_gpushare_without_gpus_waits_for_a_signal(node: Node) -> None:
    async with node.plugin("gpushare", LD_LIBRARY_PATH="") as process:
        await process.logged("waiting indefinitely")
        process.signal(signal.SIGTERM)

        assert await process.exit_status() == -signal.SIGTERM
    assert node.kubelet.registrations == 0


async def test_gpushare_that_is_refused_ends(node: Node) -> None:
    node.kubelet.refusal = "no"

    async with node.plugin("gpushare") as process:
        assert await process.exit_status() == 2


async def test_a_refused_volcano_tries_again_at_once(node: Node) -> None:
    node.kubelet.refusal = "no"

    async with node.plugin("volcano"):
        for _ in range(3):
            await node.kubelet.registration()


async def test_the_last_list_of_gpu_memory_is_empty(node: Node) -> None:
    async with node.plugin("gpu-memory") as process:
        endpoint = (await node.kubelet.registration()).endpoint
        async with node.kubelet.plugin(endpoint) as plugin, asyncio.timeout(LIMIT_S):
            lists = []
            async for one in plugin.ListAndWatch(api.Empty()):
                lists.append(len(one.devices))
                if len(lists) == 1:
                    process.signal(signal.SIGTERM)

            assert lists == [30720, 0]
            await process.exit_status()
    assert await node.world.capacity() == {"doslab.io/gpu-count": "0", "doslab.io/gpu-core": "0"}
