from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from scenarios.backends.world import marked_processes
from scenarios.backends.world.marked_processes import MARK, catches, kill_marked, signal_first, signal_marked

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
    monkeypatch.setattr(marked_processes, "_all_marked", lambda: looks.append(None) or {})

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
def family(tmp_path: Path, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a handler for HUP and none for USR1, and a child that HUP would end; it tells what it catches."""
    script = "trap 'echo caught' HUP; sleep 1000 & echo ready; while :; do wait; sleep 0.01; done"
    with subprocess.Popen(["/bin/sh", "-c", script], env={**os.environ, MARK: mark}, stdout=subprocess.PIPE) as process:
        yield process
        signal_marked(mark, signal.SIGKILL)


def test_signal_for_the_first_process_reaches_no_other(family: subprocess.Popen[bytes], mark: str) -> None:
    assert family.stdout is not None
    assert family.stdout.readline() == b"ready\n"

    assert signal_first(mark, signal.SIGUSR1) >= 2
    assert signal_first(mark, signal.SIGHUP) >= 2

    assert family.stdout.readline() == b"caught\n"
    assert signal_first(mark, signal.SIGHUP) >= 2
    assert family.poll() is None
