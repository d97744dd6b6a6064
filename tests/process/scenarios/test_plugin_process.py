from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.sim.backend import SimBackend
from scenarios.backends.world.child import PluginCommand
from scenarios.backends.world.plugin_process import PluginProcess
from scenarios.story import stories
from scenarios.story.document import load
from scenarios.trace.events import PluginSignalled
from scenarios.trace.snapshot import PluginState
from scenarios.trace.trace import Entry, Trace
from simkubelet._internal import piped_log
from simkubelet.host import rotated_files
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError, PluginError
from tests.support.patience import LIMIT_S
from tests.support.stories import entries


class Supervised:
    """A plugin process under test with its clock and trace."""

    def __init__(self, argv: tuple[str, ...], log: Path, is_foreign: bool = False) -> None:
        self.clock = ManualClock()
        self.trace = Trace(now=self.clock.now)
        command = PluginCommand("mine", "node-1", argv, dict(os.environ), log, is_foreign=is_foreign)
        self.plugin = PluginProcess(command, self.clock, self.trace)
        self.task: asyncio.Task[None] | None = None

    def start(self, *, registered: bool = True) -> None:
        self.plugin.registrations = int(registered)
        self.task = asyncio.create_task(self.plugin.run())

    @property
    def pid(self) -> int:
        """The process that the supervisor has started."""
        return self.plugin._process._process.pid

    async def until(self, kind: str, count: int = 1) -> list[Entry]:
        """Wait for so many events of a kind."""
        return await entries(self.trace, kind, count)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def supervise(tmp_path: Path) -> AsyncIterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def supervise(script: str, is_foreign: bool = False) -> Supervised:
        made.append(Supervised(("sh", "-c", script), tmp_path / "log", is_foreign))
        return made[-1]

    yield supervise
    for supervised in made:
        await supervised.stop()


async def test_plugin_that_ends_as_nobody_answers_its_registration_is_started_again(supervise: Any) -> None:
    mine = supervise("exit 1")
    mine.plugin.reported({"registers": True})
    mine.start(registered=False)

    await mine.until("plugin-exited", 2)


@pytest.mark.parametrize("how", ["ends", "is stopped"])
async def test_foreign_program_starts_again_in_another_second(supervise: Any, how: str) -> None:
    mine = supervise("sleep 60" if how == "is stopped" else "exit 0", is_foreign=True)
    mine.start()

    if how == "is stopped":
        await mine.until("plugin-started")
        await mine.plugin.stop()
        await mine.plugin.start()

    (exited, *_), (_, started, *_) = await mine.until("plugin-exited"), await mine.until("plugin-started", 2)
    assert started.real_s - exited.real_s >= 0.99


async def test_ended_plugin_is_started_again_at_once_and_then_after_a_doubling_back_off(supervise: Any) -> None:
    mine = supervise("exit 0")
    mine.start()

    await mine.until("plugin-exited", 2)
    await asyncio.sleep(0)
    assert (mine.plugin.view.state, mine.clock.next_deadline()) == (PluginState.WAITING, 10)
    await mine.clock.advance(10)
    await mine.until("plugin-exited", 3)
    await asyncio.sleep(0)

    assert mine.clock.next_deadline() == 30
    assert mine.plugin.view.restarts == 2


async def test_ended_plugin_waits_for_a_kubelet_that_starts_it_again(supervise: Any) -> None:
    mine = supervise("sleep 1000")
    mine.start()
    await mine.until("plugin-started")
    mine.plugin.may_restart.clear()

    await mine.plugin.kill()
    with pytest.raises(InputError, match="plugin 'mine' has ended, and no kubelet is there to start it again"):
        await mine.plugin.pause()
    assert mine.plugin.view.state is PluginState.WAITING

    mine.plugin.may_restart.set()
    await mine.until("plugin-started", 2)


async def test_plugin_that_starts_again_has_to_be_found_again(supervise: Any) -> None:
    mine = supervise("sleep 1000")
    mine.start()
    await mine.until("plugin-started")

    mine.plugin.is_found = True
    await mine.plugin.kill()
    await mine.until("plugin-started", 2)

    assert (mine.plugin.is_found, mine.plugin.is_starting) == (False, True)


async def test_driver_is_starting_until_the_kubelet_that_has_found_it_is_connected() -> None:
    story = load(stories.builtin()["dra/claim-runs-with-its-device"]).scenario

    async with SimBackend(story, directory=None, keep=False, plugin_commands={}) as world:
        await entries(world.trace, "plugin-started", 1)
        assert list(world._plugins.starting.values()) == [False]
        await entries(world.trace, "plugin-socket-found", 1)
        assert list(world._plugins.starting.values()) == [True]
        await world._clock.advance(1)
        await entries(world.trace, "driver-connected", 1)
        assert world._plugins.starting == {}


async def test_ended_plugin_without_a_kubelet_can_be_stopped(supervise: Any) -> None:
    mine = supervise("sleep 1000")
    mine.start()
    await mine.until("plugin-started")
    mine.plugin.may_restart.clear()
    await mine.plugin.kill()
    await mine.clock.advance(0)

    await mine.plugin.stop()

    assert mine.plugin.view.state is PluginState.STOPPED


async def test_plugin_that_ends_before_it_registered_is_reported_with_its_exit_log(supervise: Any) -> None:
    mine = supervise("echo first; echo 'no devices' >&2; exit 3")
    mine.start(registered=False)

    with pytest.raises(PluginError) as error:
        await mine.task

    assert str(error.value) == (
        "plugin 'mine' ended with status 3 before it registered with the kubelet; its log says: \"no devices\""
    )
    assert mine.plugin.view.state is PluginState.EXITED


async def test_plugin_that_is_killed_before_it_registered_is_reported_with_the_signal(supervise: Any) -> None:
    mine = supervise("kill -9 $$")
    mine.start(registered=False)

    with pytest.raises(PluginError, match=r"was killed by signal 9 before it registered .*; its log is empty"):
        await mine.task


async def test_program_that_cannot_be_run_is_the_users_mistake(tmp_path: Path) -> None:
    mine = Supervised(("/no/such/program",), tmp_path / "log")
    mine.start()

    with pytest.raises(InputError, match="cannot run /no/such/program"):
        await mine.task


@pytest.mark.parametrize("ending", ["plugin dies", "supervisor stops"])
async def test_nothing_that_the_plugin_started_outlives_it(supervise: Any, tmp_path: Path, ending: str) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    mine = supervise(f"setsid sh -c 'echo $$ > {told}; exec sleep infinity' & wait")
    mine.start()
    child = os.pidfd_open(int(await asyncio.to_thread(told.read_text)))

    if ending == "plugin dies":
        await mine.until("plugin-started")
        os.kill(mine.pid, signal.SIGKILL)
        await mine.until("plugin-exited")
    else:
        await mine.stop()

    # A process' descriptor becomes readable when it has ended.
    assert await asyncio.to_thread(select.select, [child], [], [], LIMIT_S) == ([child], [], [])
    os.close(child)


async def test_plugin_that_overwrote_its_environment_is_ended_too(supervise: Any, tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    mine = supervise(f"exec env -i sh -c 'echo $$ > {told}; exec sleep infinity'")
    mine.start()
    plugin = os.pidfd_open(int(await asyncio.to_thread(told.read_text)))

    await mine.stop()

    assert await asyncio.to_thread(select.select, [plugin], [], [], LIMIT_S) == ([plugin], [], [])
    os.close(plugin)


async def test_socket_is_known_as_the_plugins_own(supervise: Any, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    listen = (
        "import socket, time; s = socket.socket(socket.AF_UNIX); s.bind('mine.sock'); s.listen(); "
        f"open('{ready}', 'w').close(); time.sleep(60)"
    )
    mine = supervise(f'cd {tmp_path}; {sys.executable} -c "{listen}"; exit 1')
    mine.start()
    await asyncio.to_thread(ready.read_text)
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as strange:
        stranger.bind(str(tmp_path / "other.sock"))
        strange.bind(b"\0simkubelet-test\xff\xfe" + os.urandom(8))

        assert mine.plugin.owns("mine.sock")
        assert not mine.plugin.owns("other.sock")
        assert not mine.plugin.owns("absent.sock")


def state_of(pid: int) -> str:
    """The letter of a process' state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def test_paused_plugin_stands_still_until_it_is_resumed(supervise: Any) -> None:
    mine = supervise("exec sleep infinity")
    mine.start()
    await mine.until("plugin-started")
    pid = mine.pid

    await mine.plugin.pause()
    await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    assert state_of(pid) == "T"
    await mine.plugin.resume()
    await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
    assert state_of(pid) != "T"

    assert [event.kind for event in mine.trace][-2:] == ["plugin-paused", "plugin-resumed"]


async def test_paused_plugin_ends_in_an_orderly_way(supervise: Any, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    mine = supervise(f"trap 'echo bye; exit 0' TERM; echo > {ready}; while :; do sleep 0.01; done")
    mine.start()
    await asyncio.to_thread(ready.read_text)

    await mine.plugin.pause()
    await mine.plugin.stop()

    (ended,) = await mine.until("plugin-exited")
    assert (ended.event.status, ended.event.said) == (0, "bye")


async def test_plugin_is_asked_to_end_only_once(supervise: Any, tmp_path: Path) -> None:
    ready, program = tmp_path / "ready", tmp_path / "program.py"
    os.mkfifo(ready)
    program.write_text(
        "import pathlib, signal\n"
        "asked = {signal.SIGTERM}\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, asked)\n"
        f"pathlib.Path({str(ready)!r}).write_text('')\n"
        "signal.sigwait(asked)\n"
        "raise SystemExit(9 if signal.sigtimedwait(asked, 0.5) else 0)\n"
    )
    mine = supervise(f"exec {sys.executable} {program}")
    mine.start()
    await asyncio.to_thread(ready.read_text)

    await mine.plugin.stop()

    (ended,) = await mine.until("plugin-exited")
    assert ended.event.status == 0


async def test_signal_reaches_a_plugin_that_has_a_handler_and_no_other(supervise: Any, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    mine = supervise(f"trap 'echo > {ready}' HUP; echo > {ready}; while :; do sleep 0.01; done")
    mine.start()
    await asyncio.to_thread(ready.read_text)

    await mine.plugin.send_signal("USR1")
    await mine.plugin.send_signal("HUP")

    await asyncio.to_thread(ready.read_text)
    assert mine.plugin.view.state is PluginState.RUNNING
    told = [event.signal for event in mine.trace.of(PluginSignalled)]
    assert told == ["USR1", "HUP"]


async def test_plugin_that_does_not_run_cannot_be_paused(tmp_path: Path) -> None:
    command = PluginCommand("mine", "node-1", ("true",), {}, tmp_path / "log")
    plugin = PluginProcess(command, ManualClock(), Trace(), is_wanted=False)

    with pytest.raises(InputError, match="plugin 'mine' does not run; start it first"):
        await plugin.pause()


async def test_log_of_a_plugin_that_floods_is_bounded(
    supervise: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_log, "_MOST_BYTES", 1 << 20)
    mine = supervise("yes | head -c 30000000; echo no devices")

    mine.start()
    [exited] = await mine.until("plugin-exited", 1)

    assert exited.event.said == "no devices"
    assert 1 <= len(rotated_files(tmp_path / "log")) <= 4
    assert sum(file.stat().st_size for file in files_in(tmp_path)) < 5 << 20


async def test_output_that_was_rotated_at_the_end_of_a_plugin_is_its_message(
    supervise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_log, "_MOST_BYTES", 10)
    mine = supervise("echo no devices at all; sleep 0.3")

    mine.start()
    [exited] = await mine.until("plugin-exited", 1)

    assert exited.event.said == "no devices at all"


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())
