"""A change of state as running processes see it: at once, as a whole, whatever happens to the writer."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import InputError, Machine, _layout
from fakegpu.settings import SETTINGS

GPU_IS_LOST, NOT_FOUND = 15, 6


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


def device_of(nvml: ctypes.CDLL, gpu: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == 0
    return device


def temperature(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> tuple[int, int]:
    value = ctypes.c_uint()
    return nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(value)), value.value


def test_setting_is_seen_by_the_next_getter(machine: Machine, nvml: ctypes.CDLL) -> None:
    device = device_of(nvml, 3)
    assert temperature(nvml, device) == (0, 32)

    machine.set(3, "temperature", 91)

    assert temperature(nvml, device) == (0, 91)
    assert machine.gpu(3).temperature_c == 91
    assert machine.gpu(2).temperature_c == 32


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

    assert seen == ["32 551", "88 10791", f"NVMLError_GpuIsLost {machine.gpu(1).uuid}", "88 10791"]


def test_lost_gpu_is_counted_keeps_its_name_and_gives_no_handle(machine: Machine, nvml: ctypes.CDLL) -> None:
    device = device_of(nvml, 2)
    machine.fail(2, lost=True)
    count, minor, found = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_void_p()
    uuid = ctypes.create_string_buffer(96)

    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert count.value == 4
    assert temperature(nvml, device)[0] == GPU_IS_LOST
    assert nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(found)) == GPU_IS_LOST
    assert nvml.nvmlDeviceGetHandleByUUID(machine.gpu(2).uuid.encode(), ctypes.byref(found)) == GPU_IS_LOST
    assert nvml.nvmlDeviceGetMinorNumber(device, ctypes.byref(minor)) == 0
    assert nvml.nvmlDeviceGetUUID(device, uuid, 96) == 0
    assert (minor.value, uuid.value.decode()) == (2, machine.gpu(2).uuid)


def test_heal_puts_back_and_forgets(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.fail(0, xid=79, lost=True)
    assert (machine.gpu(0).health, machine.gpu(0).last_xid, machine.gpu(0).is_lost) == ("lost", 79, True)

    machine.heal(0)

    assert (machine.gpu(0).health, machine.gpu(0).last_xid, machine.gpu(0).is_lost) == ("ok", None, False)
    assert temperature(nvml, device_of(nvml, 0)) == (0, 32)


def test_several_figures_change_in_one_step_for_readers(machine: Machine, nvml: ctypes.CDLL) -> None:
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom fakegpu import Machine\nm = Machine.open(sys.argv[1])\nprint(flush=True)\n"
            "for n in range(3000): m.set_many(0, {'utilization_gpu': n % 100, 'utilization_memory': n % 100})",
            machine.directory,
        ],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    writer.stdout.readline()
    device, rates, seen = device_of(nvml, 0), Utilization(), set()

    while writer.poll() is None:
        assert nvml.nvmlDeviceGetUtilizationRates(device, ctypes.byref(rates)) == 0
        assert rates.gpu == rates.memory
        seen.add(rates.gpu)
    writer.stdout.close()

    assert writer.returncode == 0
    assert len(seen) > 1


def test_writer_that_dies_half_way_leaves_readers_and_writers_working(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.set(1, "temperature", 77)
    offset = ctypes.sizeof(_layout.Header) + ctypes.sizeof(_layout.GpuRecord)
    with (machine.directory / "segment").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        record = _layout.GpuRecord.from_buffer_copy(memory, offset)
        spare = 1 - record.sequence % 2
        start = offset + _layout.GpuRecord.states.offset + spare * ctypes.sizeof(_layout.GpuState)
        memory[start : start + 500] = b"\xff" * 500

    assert temperature(nvml, device_of(nvml, 1)) == (0, 77)
    machine.set(1, "power_usage", 5)
    assert temperature(nvml, device_of(nvml, 1)) == (0, 77)
    assert machine.gpu(1).name == "NVIDIA H100 80GB HBM3"


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
def test_child_after_fork_goes_on(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    code = """
import os
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
child = os.fork()
if child == 0:
    n.nvmlShutdown(); n.nvmlInit()
    os._exit(0 if n.nvmlDeviceGetTemperature(handle, 0) == 32 and n.nvmlDeviceGetCount() == 4 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert see(machine, code) == "0\n"


def test_two_machines_in_one_process_do_not_mix(machine: Machine, nvml: ctypes.CDLL, tmp_path: Path) -> None:
    other = Machine.create(tmp_path / "other", "t4", 2)
    other_nvml = ctypes.CDLL(str(other.library))
    assert other_nvml.nvmlInit_v2() == 0

    other.set(1, "temperature", 60)

    assert temperature(other_nvml, device_of(other_nvml, 1)) == (0, 60)
    assert temperature(nvml, device_of(nvml, 1)) == (0, 32)
    other_nvml.nvmlShutdown()
    other.destroy()


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_takes_both_ends_of_its_range_or_says_why_not(machine: Machine, key: str) -> None:
    setting = SETTINGS[key]

    machine.set(0, key, setting.low)
    if key == "memory_used":
        with pytest.raises(InputError, match="bytes for allocations"):
            machine.set(0, key, setting.high)
    else:
        machine.set(0, key, setting.high)
    with pytest.raises(InputError, match="out of range"):
        machine.set(0, key, setting.high + 1)


def test_refused_value_changes_none_of_several(machine: Machine) -> None:
    with pytest.raises(InputError):
        machine.set_many(0, {"temperature": 90, "memory_used": "1000GiB"})

    assert machine.gpu(0).temperature_c == 32


def test_memory_temperature_needs_a_sensor(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "t4", 1)

    with pytest.raises(InputError, match="Tesla T4 has no memory sensor"):
        machine.set(0, "memory_temperature", 50)


def test_numa_node_changes_in_sysfs_too(machine: Machine) -> None:
    machine.set(3, "numa_node", 1)

    gpu = machine.gpu(3)
    assert gpu.numa_node == 1
    assert (machine.sys / "bus/pci/devices" / gpu.sysfs_name / "numa_node").read_text() == "1\n"
