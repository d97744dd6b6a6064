from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from scenarios.backends.world import family, marked_processes
from scenarios.backends.world.family import kill_marked
from scenarios.backends.world.marked_processes import (
    MARK,
    catches,
    signal_first,
    signal_marked,
    use_of_marked,
)
from scenarios.backends.world.node import SimNode
from scenarios.story.specs import NodeSpec
from simkubelet._internal.sandbox import supervisor_without_namespace
from simkubelet.host import NodeView, check_sandbox, sandboxed
from simkubelet.model.errors import HostError
from tests.support.patience import eventually

HARMLESS = signal.SIGCONT
LOOKS = 500


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def restless(tmp_path: Path, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing but load its program again."""
    script = tmp_path / "again"
    script.write_text('exec sh "$0"')
    with subprocess.Popen(["/bin/sh", str(script)], env={**os.environ, MARK: mark}) as process:
        yield process
        process.kill()


def wanted_meanwhile(mark: str) -> float:
    """Seconds that the processes with a mark ran or waited for a core, within some time of ours on a core."""
    before, until_s = use_of_marked(mark), time.process_time() + 0.05
    while time.process_time() < until_s:
        after = use_of_marked(mark)
    return (after.cpu_s - before.cpu_s) + (after.waited_s - before.waited_s)


def test_two_that_share_a_core_wait_for_it(mark: str) -> None:
    core = min(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    command, env = [sys.executable, "-c", spin], {**os.environ, MARK: mark}
    with (
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as one,
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as other,
    ):
        try:
            for process in (one, other):
                assert process.stdout is not None
                process.stdout.readline()
            before = use_of_marked(mark)
            eventually(lambda: use_of_marked(mark).waited_s - before.waited_s > 0.2)
            used = use_of_marked(mark)
        finally:
            one.kill(), other.kill()

    assert used.cpu_s > before.cpu_s


def test_one_that_waits_for_input_wants_no_core(mark: str) -> None:
    command, pipe = [sys.executable, "-c", "print(flush=True); input()"], subprocess.PIPE
    with subprocess.Popen(command, env={**os.environ, MARK: mark}, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            eventually(lambda: wanted_meanwhile(mark) == 0)
        finally:
            process.kill()


def test_process_is_found_while_it_loads_another_program(restless: subprocess.Popen[bytes], mark: str) -> None:
    # For a part of each exec there is no environment to look into.
    assert [signal_marked(mark, HARMLESS) for _ in range(LOOKS)] == [1] * LOOKS


def test_process_is_found_that_others_hold_up_in_an_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(marked_processes, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    monkeypatch.setattr(marked_processes, "_environment_place", lambda pid: (0, 0))
    monkeypatch.setattr(marked_processes, "_read", lambda path: b"A=b" if now_s > 0.5 else b"")

    assert marked_processes._environment(os.getpid()) == b"A=b"


def test_process_that_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    stat[6] = str(int(stat[6]) | 0x4)
    monkeypatch.setattr(marked_processes, "_read", lambda path: f"1 (a) {' '.join(stat)}".encode())

    assert marked_processes._environment_place(os.getpid()) is None


async def test_killed_processes_are_gone(restless: subprocess.Popen[bytes], mark: str) -> None:
    await kill_marked(mark)

    assert restless.wait() == -signal.SIGKILL
    assert signal_marked(mark, HARMLESS) == 0


async def test_those_that_ask_together_share_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(marked_processes, "_all", lambda: looks.append(None) or {})

    ends = [asyncio.create_task(kill_marked(f"plugin-{number}")) for number in range(50)]
    await asyncio.sleep(0)
    ends[0].cancel()
    await asyncio.wait(ends)

    assert (len(looks), sum(end.cancelled() for end in ends)) == (1, 1)


async def test_who_asks_later_looks_again(restless: subprocess.Popen[bytes], mark: str) -> None:
    await kill_marked(f"{mark}/other")
    assert restless.poll() is None

    await kill_marked(mark)

    assert restless.wait() == -signal.SIGKILL


def test_processes_without_the_mark_are_left_alone(restless: subprocess.Popen[bytes], mark: str) -> None:
    assert signal_marked(f"{mark}/other", signal.SIGKILL) == 0
    assert restless.poll() is None


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda mark: signal_marked(mark, signal.SIGKILL), id="signal"),
        pytest.param(lambda mark: signal_first(mark, signal.SIGKILL), id="first"),
    ],
)
def test_process_that_has_got_the_id_meanwhile_is_left_alone(
    restless: subprocess.Popen[bytes], mark: str, end: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marked_processes, "_all", lambda: {("mark", f"{mark}/other"): [restless.pid]})
    monkeypatch.setattr(marked_processes, "catches", lambda *_: True)
    by_id, by_handle = Mock(), Mock()
    monkeypatch.setattr(os, "kill", by_id)
    monkeypatch.setattr(signal, "pidfd_send_signal", by_handle)

    end(f"{mark}/other")

    assert (by_id.called, by_handle.called) == (False, False)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_kernel_without_handles_of_processes_signals_by_id(
    restless: subprocess.Popen[bytes], mark: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pidfd_open", Mock(side_effect=OSError(number, "no")))

    signal_marked(mark, signal.SIGKILL)

    assert restless.wait() == -signal.SIGKILL


def test_a_process_catches_a_signal_once_it_has_a_handler() -> None:
    before = signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    try:
        assert not catches(os.getpid(), signal.SIGUSR2)
        signal.signal(signal.SIGUSR2, lambda *_: None)
        assert catches(os.getpid(), signal.SIGUSR2)
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_process_that_has_ended_catches_nothing() -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()

    assert not catches(process.pid, signal.SIGUSR2)


@pytest.fixture
def relatives(tmp_path: Path, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a handler for HUP and none for USR1, and a child that HUP would end; it tells what it catches."""
    script = "trap 'echo caught' HUP; sleep 1000 & echo ready; while :; do wait; sleep 0.01; done"
    with subprocess.Popen(["/bin/sh", "-c", script], env={**os.environ, MARK: mark}, stdout=subprocess.PIPE) as process:
        yield process
        signal_marked(mark, signal.SIGKILL)


def test_signal_for_the_first_process_reaches_no_other(relatives: subprocess.Popen[bytes], mark: str) -> None:
    assert relatives.stdout is not None
    assert relatives.stdout.readline() == b"ready\n"

    assert signal_first(mark, signal.SIGUSR1) >= 2
    assert signal_first(mark, signal.SIGHUP) >= 2

    assert relatives.stdout.readline() == b"caught\n"
    assert signal_first(mark, signal.SIGHUP) >= 2
    assert relatives.poll() is None


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[SimNode]:
    try:
        check_sandbox()
    except HostError as error:
        pytest.skip(str(error))
    node = SimNode(NodeSpec(name="node-1"), tmp_path / "node-1")
    node.create()
    yield node
    await node.close()


STRAY = "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $!"
"""A process without any variable and in a session of its own."""


def runs(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def stray_in(view: NodeView) -> int:
    """Start one in a view, by a program with a mark, which ends."""
    if supervisor_without_namespace() is not None:
        pytest.skip("what a supervisor traces ends with the program that it began with")
    program = sandboxed(["sh", "-c", STRAY], view)
    stray = int(subprocess.run(program, stdout=subprocess.PIPE, env={**os.environ, MARK: "m"}, check=True).stdout)
    eventually(lambda: Path(f"/proc/{stray}/comm").read_text() == "sleep\n")
    return stray


async def test_process_that_has_lost_its_mark_ends_with_the_node(node: SimNode) -> None:
    stray = stray_in(node.view({}))
    await kill_marked("m")
    assert runs(stray)

    await node.close()

    # What is killed has no root any more a little before it has ended.
    eventually(lambda: not runs(stray))


@pytest.fixture
def bystander() -> Iterator[int]:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        yield process.pid
        process.kill()


async def test_folder_in_the_place_of_a_view_ends_nobody_else(node: SimNode, tmp_path: Path, bystander: int) -> None:
    view = node.view({})
    stray = stray_in(view)
    view.storage.rename(tmp_path / "moved")
    view.storage.symlink_to("/")

    await node.close()

    eventually(lambda: not runs(stray))
    assert runs(bystander)


def test_own_root_is_nobodys_view(monkeypatch: pytest.MonkeyPatch) -> None:
    signals = Mock()
    monkeypatch.setattr(family, "signal_all", signals)

    assert family._kill_rooted(Path("/").stat()) == 0
    assert not signals.called


UNMAPPED = """
import ctypes, os
munmap = ctypes.CDLL(None).munmap
fields = open("/proc/self/stat").read().rpartition(") ")[2].split()
page = int(fields[47]) & ~4095
munmap(ctypes.c_void_p(page), ctypes.c_size_t(4096))
os.write(1, b"unmapped\\n")
os.read(0, 1)
"""


def test_process_that_has_unmapped_its_environment_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []
    monkeypatch.setattr(
        marked_processes, "time", SimpleNamespace(monotonic=lambda: float(len(sleeps)) / 100, sleep=sleeps.append)
    )
    # The page where the environment begins has only the argument before it, not the program's stack.
    argv, env = [sys.executable, "-c", UNMAPPED, "x" * 16384], {"A": "b" * 8192}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"unmapped\n"

        assert marked_processes._mark_of(process.pid) is None

        process.kill()
    assert len(sleeps) <= 2


def test_no_more_is_read_than_an_environment_can_have() -> None:
    assert len(marked_processes._read("/dev/zero")) == 6 << 20
