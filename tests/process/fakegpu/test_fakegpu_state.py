"""A change of state as running processes see it: at once, as a whole, whatever happens to the writer."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from fakegpu import Machine
from tests.support.patience import LIMIT_S


def temperature(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> tuple[int, int]:
    value = ctypes.c_uint()
    return nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(value)), value.value


@pytest.mark.slow
def test_running_process_sees_fail_heal_and_set(machine: Machine) -> None:
    code = """
import sys, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(1)
for line in sys.stdin:
    try:
        print(n.nvmlDeviceGetTemperature(handle, 0), n.nvmlDeviceGetMemoryInfo(handle).used >> 20, flush=True)
    except n.NVMLError as error:
        print(type(error).__name__, n.nvmlDeviceGetUUID(handle), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | machine.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        seen = []
        changes: tuple[Callable[[], None], ...] = (
            lambda: None,
            lambda: machine.set_many(1, {"temperature": 88, "memory_used": "10GiB"}),
            lambda: machine.fail(1, lost=True),
            lambda: machine.heal(1),
        )
        for change in changes:
            change()
            reader.stdin.write("\n")
            reader.stdin.flush()
            seen.append(reader.stdout.readline().strip())

    assert seen == ["29 479", "88 10719", f"NVMLError_GpuIsLost {machine.gpu(1).uuid}", "88 10719"]


BUSY_WRITER = """
import ctypes, sys
from fakegpu import Machine
from fakegpu.state import layout
segment = Machine.open(sys.argv[1])._segment
states = [segment.read(0), segment.read(0)]
for number, state in enumerate(states):
    state.fault.xid_count = state.power.energy_mj = state.fabric.clique_id = number
    for link in state.links:
        link.errors[0] = number
with segment._exclusive() as address:
    write, targets = segment._library.fakegpu_write_state, [ctypes.byref(state) for state in states]
    write(address, 0, targets[0])
    print(flush=True)
    for turn in range(300_000):
        write(address, 0, targets[turn % 2])
"""


@pytest.mark.slow
def test_reader_beside_a_busy_writer_sees_whole_states(machine: Machine) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY_WRITER, machine.directory], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen = set()
        while writer.poll() is None:
            state = machine._segment.read(0)
            figures = (state.fault.xid_count, state.power.energy_mj, state.links[9].errors[0], state.fabric.clique_id)
            seen.add(figures)

    assert writer.returncode == 0
    assert seen == {(0, 0, 0, 0), (1, 1, 1, 1)}


@pytest.mark.slow
def test_writer_killed_with_the_lock_blocks_nobody(machine: Machine) -> None:
    code = (
        "import sys, os, signal\nfrom fakegpu import Machine\nm = Machine.open(sys.argv[1])\n"
        "with m._segment.change(0) as state: os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, machine.directory], check=False)
    assert done.returncode == -signal.SIGKILL

    machine.set(0, "temperature", 50)

    assert machine.gpu(0).temperature_c == 50


@pytest.mark.slow
def test_child_after_fork_continues(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    code = """
import os
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
child = os.fork()
if child == 0:
    n.nvmlShutdown(); n.nvmlInit()
    os._exit(0 if n.nvmlDeviceGetTemperature(handle, 0) == 29 and n.nvmlDeviceGetCount() == 4 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert see(machine, code) == "0\n"


@pytest.mark.slow
def test_forked_writers_exclude_each_other(machine: Machine) -> None:
    code = """
import os, sys
from fakegpu import Machine
machine = Machine.open(sys.argv[1])
child = os.fork()
for _ in range(1500):
    with machine._segment.change(0) as state:
        state.fault.xid_count += 1
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code, machine.directory], check=True, timeout=LIMIT_S)

    assert machine._segment.read(0).fault.xid_count == 3000


@pytest.mark.slow
def test_child_forked_during_a_write_can_write(machine: Machine) -> None:
    code = """
import os, sys, threading
from fakegpu import Machine
machine = Machine.open(sys.argv[1])
writing, forked = threading.Event(), threading.Event()
def write():
    with machine._segment.change(0) as state:
        writing.set()
        assert forked.wait(20)
        state.thermal.gpu_c = 40
thread = threading.Thread(target=write)
thread.start()
assert writing.wait(20)
child = os.fork()
if child == 0:
    machine.set(0, "power_usage", 5)
    os._exit(0)
forked.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, machine.directory], check=True, timeout=LIMIT_S)

    state = machine._segment.read(0)
    assert state.thermal.gpu_c == 40
    assert state.power.usage_mw == 5
