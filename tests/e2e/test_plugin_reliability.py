"""Fed in: plugins' processes, and kubelets that come, go, wait, refuse and talk nonsense; observed: what they answer.

A kubelet here is a gRPC server that does as the test says: a simulated one would never do most of this.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakegpu import Machine
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.messages import Code
from tests.support.bare_connection import BareConnection
from tests.support.patience import LIMIT_S
from tests.support.plugin_cases import CASES, PluginCase, PluginNode
from tests.support.plugin_kubelet import FakeKubelet, PluginProcess, plugin_process
from tests.support.short_paths import short_place

pytestmark = pytest.mark.slow

CLIENTS = 50

every_plugin = pytest.mark.parametrize("case", CASES, ids=str)
every_surviving_plugin = pytest.mark.parametrize(
    "case", [case for case in CASES if case.survives_refusal and case.restarts_itself], ids=str
)
every_restarting_plugin = pytest.mark.parametrize("case", [case for case in CASES if case.restarts_itself], ids=str)


class World:
    """A kubelet, a node with devices, and the plugin's processes on it."""

    def __init__(self, case: PluginCase, node: PluginNode, kubelet: FakeKubelet, folder: Path) -> None:
        self.case = case
        self.node = node
        self.kubelet = kubelet
        self.folder = folder

    @asynccontextmanager
    async def plugin(self) -> AsyncIterator[PluginProcess]:
        """A new process of the plugin."""
        arguments = (*self.node.arguments, "--kubelet-dir", str(self.kubelet.folder))
        async with plugin_process(arguments, self.folder / "log", self.node.environment) as process:
            yield process

    async def served(self) -> str:
        """Wait until the plugin has registered and lists all its devices; returns its socket's name."""
        try:
            endpoint = (await self.kubelet.registration()).endpoint
        except TimeoutError:
            raise AssertionError(f"no registration; the plugin logged\n{(self.folder / 'log').read_text()}") from None
        assert len(await self.kubelet.listed(endpoint)) == self.node.devices
        return endpoint

    async def served_in_the_end(self) -> str:
        """As `served`, of a plugin that may register and start again before it has listed its devices.

        One that tries again may find the new kubelet before it is told of its socket, which is a reason to start again.
        """
        while True:
            with suppress(RpcError):
                return await self.served()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets."""
    with TemporaryDirectory(prefix="rel-", dir=short_place()) as name:
        yield Path(name)


@pytest.fixture
async def world(case: PluginCase, folder: Path) -> AsyncIterator[World]:
    (folder / "node").mkdir()
    (folder / "sockets").mkdir()
    async with case.node(folder / "node") as node, FakeKubelet(folder / "sockets") as kubelet:
        yield World(case, node, kubelet, folder)


@every_restarting_plugin
async def test_each_new_kubelet_gets_one_registration(world: World) -> None:
    async with world.plugin() as process:
        await world.served()
        before = process.held()
        for _ in range(world.case.new_kubelets):
            await world.kubelet.restart()
            await world.served()

        held = await process.held_at_rest(before)

    assert world.kubelet.registrations == 0
    assert held <= before
    assert "Traceback" not in process.log


@every_plugin
async def test_killed_plugin_replaces_its_dead_socket(world: World) -> None:
    async with world.plugin() as process:
        endpoint = await world.served()
        process.signal(signal.SIGKILL)
        assert await process.exit_status() == -signal.SIGKILL
    assert (world.kubelet.folder / endpoint).is_socket()

    async with world.plugin():
        assert await world.served() == endpoint


@every_plugin
async def test_paused_plugin_answers_when_it_is_resumed(world: World) -> None:
    async with world.plugin() as process:
        endpoint = await world.served()
        async with world.kubelet.plugin(endpoint) as plugin:
            process.signal(signal.SIGSTOP)
            call = asyncio.ensure_future(plugin.GetDevicePluginOptions(api.Empty()))
            await asyncio.sleep(0)
            assert not call.done()
            process.signal(signal.SIGCONT)
            async with asyncio.timeout(LIMIT_S):
                await call


@every_restarting_plugin
async def test_paused_plugin_registers_with_the_last_kubelet(world: World) -> None:
    async with world.plugin() as process:
        await world.served()
        process.signal(signal.SIGSTOP)
        for _ in range(3):
            await world.kubelet.restart()
        process.signal(signal.SIGCONT)

        await world.served()


@every_restarting_plugin
async def test_plugin_recreates_removed_socket_for_next_kubelet(world: World) -> None:
    async with world.plugin() as process:
        endpoint = await world.served()
        async with world.kubelet.plugin(endpoint) as plugin, asyncio.timeout(LIMIT_S):
            (world.kubelet.folder / endpoint).unlink()
            if not world.case.restarts_without_socket:
                await plugin.GetDevicePluginOptions(api.Empty())
        if world.case.restarts_without_socket:
            assert await world.served() == endpoint
        await world.kubelet.restart()

        assert await world.served() == endpoint
        assert process.runs


@every_plugin
async def test_plugin_serves_while_kubelet_answers_slowly(world: World) -> None:
    world.kubelet.may_answer.clear()
    async with world.plugin() as process:
        # A kubelet calls back before it answers.
        endpoint = await world.served()
        world.kubelet.may_answer.set()
        async with world.kubelet.plugin(endpoint) as plugin, asyncio.timeout(LIMIT_S):
            await plugin.GetDevicePluginOptions(api.Empty())
        process.signal(signal.SIGTERM)
        await process.exit_status()

    assert "Traceback" not in process.log


@every_plugin
async def test_plugin_stops_while_kubelet_does_not_answer(world: World) -> None:
    world.kubelet.may_answer.clear()
    async with world.plugin() as process:
        await world.kubelet.registration()
        process.signal(signal.SIGTERM)
        await process.exit_status()
    world.kubelet.may_answer.set()

    assert "Traceback" not in process.log


@every_surviving_plugin
async def test_refused_plugin_waits_for_a_new_kubelet(world: World) -> None:
    world.kubelet.refusal = "no room for you"
    async with world.plugin() as process:
        await world.kubelet.registration()
        await process.logged("no room for you")
        # A plugin that tries again at once has asked this kubelet more often, and is not to be accepted by it.
        await world.kubelet.stop(LIMIT_S)
        world.kubelet.forget()
        world.kubelet.refusal = None
        await world.kubelet.start()

        await world.served_in_the_end()


@every_surviving_plugin
async def test_plugin_survives_a_kubelet_that_hangs_up(world: World) -> None:
    await world.kubelet.stop()
    world.kubelet.socket.unlink(missing_ok=True)
    async with world.plugin() as process:
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(str(world.kubelet.socket))
            listener.listen()
            listener.setblocking(False)
            connection, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(listener), LIMIT_S)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()
        await world.kubelet.start()

        await world.served_in_the_end()
        assert process.runs


@pytest.mark.parametrize("case", [case for case in CASES if case.survives_streams], ids=str)
async def test_clients_that_come_and_go_leave_nothing_open(world: World) -> None:
    async def come_and_go(endpoint: str) -> None:
        await world.kubelet.first_list(endpoint)
        for method in ("ListAndWatch", "GetDevicePluginOptions"):
            with BareConnection(world.kubelet.folder / endpoint) as connection:
                connection.begin(method, api.Empty())

    async with world.plugin() as process:
        endpoint = await world.served()
        # What a plugin opens once, when it is first asked, is no leak.
        await come_and_go(endpoint)
        before = process.held()
        for _ in range(min(CLIENTS, world.case.new_kubelets)):
            await come_and_go(endpoint)

        assert await process.held_at_rest(before) <= before


@every_plugin
async def test_nonsense_on_the_plugins_socket_harms_nobody(world: World) -> None:
    async with world.plugin() as process:
        endpoint = await world.served()
        before = process.held()
        for nonsense in (
            b"",
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100,
            os.urandom(64),
        ):
            with closing(socket.socket(socket.AF_UNIX)) as connection:
                connection.connect(str(world.kubelet.folder / endpoint))
                connection.sendall(nonsense)

        async with world.kubelet.plugin(endpoint) as plugin, asyncio.timeout(LIMIT_S):
            await plugin.GetDevicePluginOptions(api.Empty())
        assert await process.held_at_rest(before) <= before


@pytest.mark.parametrize("case", CASES[:1], ids=str)
async def test_plugin_survives_nvml_failing_later(world: World) -> None:
    machine = Machine.open(world.folder / "node" / "machine")
    async with world.plugin(), AsyncExitStack() as stack:
        endpoint = await world.served()
        plugin = await stack.enter_async_context(world.kubelet.plugin(endpoint))
        await stack.enter_async_context(asyncio.timeout(LIMIT_S))
        lists = plugin.ListAndWatch(api.Empty())
        ids = [device.ID for device in (await lists.read()).devices]
        for gpu in range(len(ids)):
            machine.fail(gpu, lost=True)
        while {device.health for device in (await lists.read()).devices} != {api.UNHEALTHY}:
            pass
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids[:1])])
        assert len((await plugin.Allocate(request)).container_responses) == 1
        wanted = api.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=2)
        with pytest.raises(RpcError) as refused:
            await plugin.GetPreferredAllocation(api.PreferredAllocationRequest(container_requests=[wanted]))
        assert refused.value.code == Code.UNKNOWN
        for gpu in range(len(ids)):
            machine.heal(gpu)
        await world.kubelet.restart()
        endpoint = await world.served()
        assert {device.health for device in await world.kubelet.first_list(endpoint)} == {api.HEALTHY}
    machine.close()
