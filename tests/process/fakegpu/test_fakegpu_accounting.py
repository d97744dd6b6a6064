"""Accounting: what NVML remembers of processes that ran on a GPU."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from fakegpu import Load, Machine
from fakegpu.machine import gpus as gpus_module
from fakegpu.state import layout
from tests.support.users import BECOME_NOBODY, needs_another_user

See = Callable[[Machine, str], str]
Worker = subprocess.Popen[bytes]
SUCCESS, NOT_SUPPORTED, NOT_FOUND = 0, 3, 6
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only an administrator changes GPUs through NVML")


class Stats(ctypes.Structure):
    _fields_ = [
        ("gpu_percent", ctypes.c_uint),
        ("memory_percent", ctypes.c_uint),
        ("most_bytes", ctypes.c_ulonglong),
        ("time_ms", ctypes.c_ulonglong),
        ("start_us", ctypes.c_ulonglong),
        ("is_running", ctypes.c_uint),
        ("reserved", ctypes.c_uint * 5),
    ]


@pytest.fixture
def accounted(machine: Machine) -> Machine:
    set_accounting(machine, is_on=True)
    return machine


@pytest.fixture
def workers() -> Iterator[Callable[[], Worker]]:
    made: list[Worker] = []

    def make() -> Worker:
        made.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        return made[-1]

    yield make
    for worker in made:
        end(worker)


def end(worker: Worker) -> None:
    worker.kill()
    worker.communicate()


def set_accounting(machine: Machine, *, is_on: bool) -> None:
    with machine._segment.change(0) as state:
        state.modes.accounting = is_on


def device_of(nvml: ctypes.CDLL) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == SUCCESS
    return device


def pids(nvml: ctypes.CDLL) -> list[int]:
    count, found = ctypes.c_uint(100), (ctypes.c_uint * 100)()
    assert nvml.nvmlDeviceGetAccountingPids(device_of(nvml), ctypes.byref(count), found) == SUCCESS
    return found[: count.value]


def stats_of(nvml: ctypes.CDLL, pid: int) -> tuple[int, Stats]:
    stats = Stats()
    return nvml.nvmlDeviceGetAccountingStats(device_of(nvml), pid, ctypes.byref(stats)), stats


def test_process_is_remembered_when_it_has_ended(
    accounted: Machine, nvml: ctypes.CDLL, workers: Callable[[], Worker]
) -> None:
    worker = workers()
    accounted.enter_process(0, worker.pid, 3 << 30)
    accounted.enter_process(0, worker.pid, 1 << 30)

    _, running = stats_of(nvml, worker.pid)
    assert (running.is_running, running.time_ms, running.most_bytes) == (1, 0, 3 << 30)
    end(worker)
    code, ended = stats_of(nvml, worker.pid)

    assert (code, ended.is_running, ended.most_bytes) == (SUCCESS, 0, 3 << 30)
    assert abs(ended.start_us - running.start_us) < 1000
    assert pids(nvml) == [worker.pid]
    assert stats_of(nvml, worker.pid)[1].time_ms == ended.time_ms, "the end is noted once"
    assert accounted.gpu(0).memory_used_bytes == 0


def test_utilization_is_that_of_its_life(
    accounted: Machine, nvml: ctypes.CDLL, workers: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_minute_ago = time.monotonic_ns() - 60_000_000_000
    monkeypatch.setattr(gpus_module, "time", SimpleNamespace(monotonic_ns=lambda: a_minute_ago))
    accounted.load(0, Load(gpu_percent=80))
    one, other = workers(), workers()
    for worker in (one, other):
        accounted.enter_process(0, worker.pid)

    _, running = stats_of(nvml, one.pid)
    end(one)
    end(other)
    _, ended = stats_of(nvml, one.pid)

    assert running.gpu_percent == ended.gpu_percent == 40


def test_the_latest_is_reported_first(accounted: Machine, nvml: ctypes.CDLL, workers: Callable[[], Worker]) -> None:
    first, second, third = workers(), workers(), workers()
    for worker in (first, second):
        accounted.enter_process(0, worker.pid)
        end(worker)
        assert worker.pid in pids(nvml)
    accounted.enter_process(0, third.pid)

    assert pids(nvml) == [third.pid, second.pid, first.pid]


def test_only_the_last_ones_are_kept(accounted: Machine, nvml: ctypes.CDLL) -> None:
    with accounted._segment.change(0) as state:
        for number, account in enumerate(state.accounts.entries, 1):
            account.pid = number
        state.accounts.count = 2 * layout.ACCOUNTS_MAX + 1

    assert pids(nvml) == [1, *range(layout.ACCOUNTS_MAX, 1, -1)]


def test_nobody_is_remembered_while_accounting_is_off(
    machine: Machine, nvml: ctypes.CDLL, workers: Callable[[], Worker]
) -> None:
    worker = workers()
    machine.enter_process(0, worker.pid)
    end(worker)
    machine.strike_process(0, worker.pid)

    set_accounting(machine, is_on=True)

    assert pids(nvml) == []
    assert stats_of(nvml, worker.pid)[0] == NOT_FOUND


def test_process_that_is_struck_is_remembered(accounted: Machine, nvml: ctypes.CDLL) -> None:
    accounted.enter_process(0, os.getpid(), 1 << 30)

    accounted.strike_process(0, os.getpid())

    code, stats = stats_of(nvml, os.getpid())
    assert (code, stats.is_running, stats.most_bytes) == (SUCCESS, 0, 1 << 30)


@needs_root
def test_administrator_clears_and_turns_off(accounted: Machine, nvml: ctypes.CDLL) -> None:
    for _ in range(2):
        accounted.enter_process(0, os.getpid())
        accounted.strike_process(0, os.getpid())
    assert len(pids(nvml)) == 2

    assert nvml.nvmlDeviceClearAccountingPids(device_of(nvml)) == SUCCESS
    assert pids(nvml) == []
    accounted.enter_process(0, os.getpid())
    accounted.strike_process(0, os.getpid())
    assert nvml.nvmlDeviceSetAccountingMode(device_of(nvml), 0) == SUCCESS
    assert nvml.nvmlDeviceSetAccountingMode(device_of(nvml), 1) == SUCCESS

    assert pids(nvml) == []


@needs_root
def test_mode_of_a_gpu_in_mig_mode_stays(accounted: Machine, nvml: ctypes.CDLL) -> None:
    accounted.mig(0).set_mode(True)

    assert nvml.nvmlDeviceSetAccountingMode(device_of(nvml), 0) == NOT_SUPPORTED


@needs_another_user
def test_read_only_process_sees_the_end_too(accounted: Machine, see: See, workers: Callable[[], Worker]) -> None:
    worker = workers()
    accounted.enter_process(0, worker.pid, 1 << 30)
    end(worker)
    look = f"""
import json
n.nvmlInit()
{BECOME_NOBODY}
gpu = n.nvmlDeviceGetHandleByIndex(0)
stats = n.nvmlDeviceGetAccountingStats(gpu, {worker.pid})
print(json.dumps([list(n.nvmlDeviceGetAccountingPids(gpu)), stats.isRunning, stats.maxMemoryUsage]))
"""

    assert json.loads(see(accounted, look)) == [[worker.pid], 0, 1 << 30]
    assert accounted._segment.read(0).accounts.count == (0 if os.geteuid() == 0 else 1)
