"""Processes on a GPU: real numbers, listed while they live."""

from __future__ import annotations

import ctypes
import os

import pytest

from fakegpu import InputError, Machine
from fakegpu.state import layout
from tests.support.machines import listed

INSUFFICIENT_SIZE, NOT_FOUND = 7, 6


def test_other_process_of_the_same_number_is_not_listed(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.enter_process(0, os.getpid())

    with machine._segment.change(0) as state:
        state.processes.entries[0].start_ticks -= 1

    assert listed(machine, nvml) == []


@pytest.mark.parametrize(
    ("kind", "compute", "graphics", "mps"),
    [("compute", 1, 0, 0), ("graphics", 0, 1, 0), ("both", 1, 1, 0), ("mps", 0, 0, 1)],
)
def test_kind_says_which_lists(
    machine: Machine, nvml: ctypes.CDLL, kind: str, compute: int, graphics: int, mps: int
) -> None:
    machine.enter_process(0, os.getpid(), kind=kind)

    assert len(listed(machine, nvml)) == compute
    assert len(listed(machine, nvml, function="nvmlDeviceGetGraphicsRunningProcesses_v3")) == graphics
    assert len(listed(machine, nvml, function="nvmlDeviceGetMPSComputeRunningProcesses_v3")) == mps


def test_too_small_an_array_gets_the_required_size(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.enter_process(0, os.getpid())
    machine.enter_process(0, os.getppid())
    handle, count = ctypes.c_void_p(), ctypes.c_uint(1)
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))

    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), None) == INSUFFICIENT_SIZE
    assert count.value == 2


def test_utilization_is_shared_out(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.set(0, "utilization_gpu", 80)
    machine.enter_process(0, os.getpid())
    machine.enter_process(0, os.getppid())
    samples, count, handle = (ctypes.c_uint * 64)(), ctypes.c_uint(2), ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))

    assert nvml.nvmlDeviceGetProcessUtilization(handle, samples, ctypes.byref(count), ctypes.c_ulonglong(0)) == 0

    assert count.value == 2
    assert samples[4] == 40


def test_idle_gpu_has_no_process_samples(machine: Machine, nvml: ctypes.CDLL) -> None:
    count, handle = ctypes.c_uint(0), ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))

    code = nvml.nvmlDeviceGetProcessUtilization(handle, None, ctypes.byref(count), ctypes.c_ulonglong(0))

    assert code == NOT_FOUND


def test_process_entered_again_has_the_new_memory(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.enter_process(0, os.getpid(), 1 << 30)

    machine.enter_process(0, os.getpid(), 2 << 30)

    assert listed(machine, nvml) == [os.getpid()]
    assert machine.gpu(0).memory_used_bytes == 2 << 30


def test_struck_process_is_gone(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.enter_process(0, os.getpid(), 1 << 30)

    machine.strike_process(0, os.getpid())
    machine.strike_process(0, os.getpid())

    assert listed(machine, nvml) == []
    assert machine.gpu(0).memory_used_bytes == 0


def test_ended_processes_make_room(machine: Machine) -> None:
    with machine._segment.change(0) as state:
        for entry in state.processes.entries:
            entry.pid, entry.start_ticks = os.getpid(), 1
        state.processes.count = layout.PROCESSES_MAX

    machine.enter_process(0, os.getpid())

    assert machine._segment.read(0).processes.count == 1


def test_process_of_nobody_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="no process 4194305"):
        machine.enter_process(0, 4_194_305)


def test_unknown_kind_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="no kind of process 'fast'; there are compute, graphics, both, mps"):
        machine.enter_process(0, os.getpid(), kind="fast")


def test_more_memory_than_there_is_is_refused(machine: Machine) -> None:
    machine.enter_process(0, os.getpid(), 70 << 30)

    with pytest.raises(InputError, match="bytes left for processes"):
        machine.enter_process(0, os.getppid(), 20 << 30)


def test_unknown_mig_device_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="no MIG device 'MIG-nothing'"):
        machine.enter_process("MIG-nothing", os.getpid())
