"""Many readers and writers of one GPU at once: what a reader gets in one call comes from one write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from fakegpu import Machine

READERS, WRITERS, KILLED = 8, 2, 3
TURNS, WRITES_PER_TURN = 30, 100

WRITE = """
import ctypes, sys
from fakegpu import Machine
directory, turns, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
segment = Machine.open(directory)._segment
while turns != 0:
    turns -= 1
    with segment.change(0) as state:
        for _ in range(writes):
            state.fault.xid_count += 1
            number = state.fault.xid_count
            state.memory.reserved_bytes = state.memory.used_bytes = number << 20
            state.memory.total_bytes = 3 * number << 20
            state.remap.corrected_rows = state.remap.uncorrected_rows = number
            state.pci.replay_count = number
            segment._library.fakegpu_write_state(segment._mapped().address, 0, ctypes.byref(state))
"""

READ = """
import sys, pynvml as n
from fakegpu import Machine
segment = Machine.open(sys.argv[1])._segment
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
reads = before = 0
while not n.nvmlDeviceGetPersistenceMode(handle) == 0:
    memory = n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    assert memory.total == 3 * memory.reserved == 3 * memory.used == 3 * memory.free, memory
    corrected, uncorrected, _, _ = n.nvmlDeviceGetRemappedRows(handle)
    assert corrected == uncorrected, (corrected, uncorrected)
    assert corrected >= before, "older than what was seen before"
    before = corrected
    state = segment.read(0)
    number = state.fault.xid_count
    assert (state.memory.used_bytes >> 20, state.remap.corrected_rows, state.pci.replay_count) == (number,) * 3
    reads += 1
    if reads == 1:
        print(flush=True)
"""


@contextmanager
def readers(machine: Machine) -> Iterator[None]:
    """Readers that look until persistence mode is off; each must have found nothing wrong."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", READ, machine.directory],
                    env=os.environ | machine.environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(READERS)
        ]
        for reader in started:
            assert reader.stdout is not None
            reader.stdout.readline()
        try:
            yield
        finally:
            machine.set(0, "persistence_mode", 0)
            said = [reader.communicate()[1] for reader in started]

    assert [(reader.returncode, error) for reader, error in zip(started, said, strict=True)] == [(0, "")] * READERS


def start_writer(machine: Machine, turns: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITE, machine.directory, str(turns), str(WRITES_PER_TURN)])


def write_first(machine: Machine) -> None:
    with machine._segment.change(0) as state:
        state.memory.reserved_bytes = state.memory.used_bytes = state.memory.total_bytes = 0


@pytest.mark.slow
def test_readers_see_whole_writes_and_no_write_of_two_writers_is_lost(machine: Machine) -> None:
    write_first(machine)

    with readers(machine):
        writers = [start_writer(machine, TURNS) for _ in range(WRITERS)]
        assert [writer.wait() for writer in writers] == [0] * WRITERS

    assert machine._segment.read(0).fault.xid_count == WRITERS * TURNS * WRITES_PER_TURN


@pytest.mark.slow
def test_writers_killed_at_any_moment_leave_whole_states(machine: Machine) -> None:
    write_first(machine)

    with readers(machine):
        for _ in range(KILLED):
            before = machine._segment.read(0).fault.xid_count
            with start_writer(machine, -1) as writer:
                while writer.poll() is None and machine._segment.read(0).fault.xid_count < before + WRITES_PER_TURN:
                    os.sched_yield()
                writer.kill()

    assert machine._segment.read(0).fault.xid_count >= KILLED * WRITES_PER_TURN
    machine.set(0, "power_usage", 5)
    assert machine._segment.read(0).power.usage_mw == 5
