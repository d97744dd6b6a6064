"""Bundled plugins that are forked from one process: to the kubelet and to the user each is a process of its own."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from fakegpu import Machine
from scenarios.backends.world.child import Child, PluginCommand
from scenarios.backends.world.marked_processes import MARK
from scenarios.backends.world.plugin_forks import PluginForks, bundled_program
from scenarios.story.specs import Builtin
from simkubelet.host import tied_to_parent
from tests.support.patience import LIMIT_S, until
from tests.support.plugin_kubelet import FakeKubelet


class Node:
    """A node's folder, in which a plugin is started."""

    def __init__(self, forks: PluginForks, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir()
        self.log = self.folder / "log"
        self._forks = forks

    async def start(self, *words: str, program: Iterable[str] | None = None, **env: str) -> Child:
        argv = tied_to_parent([*bundled_program(), *words]) if program is None else program
        command = PluginCommand("mine", self.name, tuple(argv), {**os.environ, **env}, self.log)
        with self.log.open("ab") as log:
            return await self._forks.spawn(command, log)

    async def start_gopher(self, **env: str) -> Child:
        """Start a plugin that finds no kubelet, and goes on."""
        (self.folder / "etc/gophers").mkdir(parents=True, exist_ok=True)
        folders = ("--kubelet-dir", str(self.folder), "--host-root", str(self.folder))
        return await self.start("gopher", *folders, **env)

    @property
    def pids(self) -> list[int]:
        """The processes that /proc shows with the node's mark."""
        mark = f"{MARK}={self.name}/mine/{self.log}".encode()
        return [pid for pid in running() if mark in shown(pid, "environ")]


def running() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def shown(pid: int, name: str) -> list[bytes]:
    """The words of a file of /proc; none where the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes().rstrip(b"\0").split(b"\0")
    return []


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.fixture
async def forks() -> AsyncIterator[PluginForks]:
    forks = PluginForks()
    yield forks
    await forks.close()


@pytest.fixture
def node(forks: PluginForks, kubelet_dir: Path) -> Node:
    return Node(forks, "node-1", kubelet_dir)


async def test_forked_plugins_serve_the_gpus_of_their_own_nodes(forks: PluginForks, kubelet_dir: Path) -> None:
    for number in (1, 2):
        node = Node(forks, f"node-{number}", kubelet_dir)
        machine = Machine.create(node.folder / "machine", profile="t4", count=number, seed=node.name)
        sockets = node.folder / "sockets"
        sockets.mkdir()
        async with FakeKubelet(sockets) as kubelet:
            options = ("--kubelet-dir", str(sockets), "--host-root", str(node.folder))
            plugin = await node.start("nvidia", *options, **machine.environment())
            request = await kubelet.registration()

            listed = {device.ID for device in await kubelet.first_list(request.endpoint)}
            await plugin.terminate_all()
            assert await plugin.wait() == 0

        assert listed == {gpu.uuid for gpu in machine.gpus}


@pytest.mark.parametrize("env", [{}, {"LONG": "x" * (1 << 13)}], ids=["room in /proc", "no room in /proc"])
async def test_forked_plugin_looks_like_one_that_was_executed(node: Node, env: dict[str, str]) -> None:
    await node.start_gopher(**env)
    await until(lambda: node.log.read_text() != "")

    (pid,) = node.pids
    folders = ("--kubelet-dir", str(node.folder), "--host-root", str(node.folder))
    assert shown(pid, "cmdline") == [os.fsencode(word) for word in (*bundled_program(), "gopher", *folders)]
    assert os.getsid(pid) == pid
    environment = dict(entry.split(b"=", 1) for entry in shown(pid, "environ"))
    given = {**os.environ, **env, MARK: f"node-1/mine/{node.log}"}
    assert environment == {os.fsencode(name): os.fsencode(value) for name, value in given.items()}


async def test_forked_plugins_write_to_logs_of_their_own(forks: PluginForks, kubelet_dir: Path) -> None:
    first, second = (Node(forks, name, kubelet_dir) for name in ("node-1", "node-2"))

    statuses = [await (await node.start("gopher", f"--{node.name}")).wait() for node in (first, second)]

    assert statuses == [2, 2]
    for node in (first, second):
        assert node.log.read_text() == f"error: No such option '--{node.name}'; see `python -m plugin gopher --help`\n"


async def test_every_bundled_plugin_can_be_forked_by_a_server_of_one_thread(node: Node, forks: PluginForks) -> None:
    for plugin in get_args(Builtin):
        assert await (await node.start(plugin, "--help")).wait() == 0

    assert node.log.read_text().count("Usage: python -m plugin ") == len(get_args(Builtin))
    assert forks._server is not None
    assert threads(forks._server._process.pid) == 1


async def test_kill_of_one_forked_plugin_is_reported_and_ends_no_other(forks: PluginForks, kubelet_dir: Path) -> None:
    first, second = (Node(forks, name, kubelet_dir) for name in ("node-1", "node-2"))
    killed, _ = await first.start_gopher(), await second.start_gopher()

    os.kill(first.pids[0], signal.SIGKILL)

    assert await killed.wait() == -signal.SIGKILL
    assert (first.pids, len(second.pids)) == ([], 1)


async def test_forked_plugin_can_be_paused_and_ended(node: Node) -> None:
    plugin = await node.start_gopher()
    (pid,) = node.pids
    # It logs when it has handlers of signals.
    await until(lambda: node.log.read_text() != "")

    plugin.signal_all(signal.SIGSTOP)
    await until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("T"))
    await plugin.terminate_all()

    assert await plugin.wait() == 0


async def test_killed_server_takes_its_plugins_along_and_is_started_again(node: Node) -> None:
    plugin = await node.start_gopher()
    server = parent(node.pids[0])

    os.kill(server, signal.SIGKILL)

    assert await plugin.wait() == -signal.SIGKILL
    await until(lambda: node.pids == [])
    await node.start_gopher()
    assert parent(node.pids[0]) != server


async def test_plugin_starts_though_its_server_was_just_killed(forks: PluginForks, kubelet_dir: Path) -> None:
    first, second = (Node(forks, name, kubelet_dir) for name in ("node-1", "node-2"))
    await first.start_gopher()

    os.kill(parent(first.pids[0]), signal.SIGKILL)
    await second.start_gopher()

    assert len(second.pids) == 1


async def test_plugin_whose_start_is_cancelled_does_not_go_on(node: Node) -> None:
    # Its server runs already.
    await (await node.start("gopher", "--help")).wait()

    starting = asyncio.create_task(node.start_gopher())
    await asyncio.sleep(0)
    starting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await starting
    assert node.pids == []


async def test_program_of_a_user_is_no_fork(node: Node) -> None:
    plugin = await node.start(program=("sh", "-c", "echo $PPID; exit 3"))

    assert await plugin.wait() == 3
    await plugin.kill_all()
    assert node.log.read_text() == f"{os.getpid()}\n"


KEEPER = """
import asyncio, sys
from pathlib import Path
from scenarios.backends.world.plugin_forks import PluginForks
from tests.process.scenarios.test_plugin_forks import Node, parent

async def main():
    node = Node(PluginForks(), "node-1", Path(sys.argv[1]))
    await node.start_gopher()
    (pid,) = node.pids
    print(pid, parent(pid), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
"""Prints the ids of a forked plugin and of its parent."""


def test_killed_keeper_leaves_neither_plugin_nor_server(kubelet_dir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(kubelet_dir)], stdout=subprocess.PIPE, text=True
    ) as keeper:
        assert keeper.stdout is not None
        ends = [os.pidfd_open(int(pid)) for pid in keeper.stdout.readline().split()]
        keeper.kill()

    assert len(ends) == 2
    for end in ends:
        # A process' descriptor becomes readable when it has ended.
        assert select.select([end], [], [], LIMIT_S) == ([end], [], [])
        os.close(end)
