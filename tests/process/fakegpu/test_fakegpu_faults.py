"""Faults of GPUs and of waits, and their healing; what cannot be a fault."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from fakegpu import Machine
from tests.support.machines import Answers, EventSet

SUCCESS, TIMEOUT, GPU_IS_LOST = 0, 10, 15


def test_unplugged_gpu_is_lost_for_who_knows_it_and_absent_for_others(
    machine: Machine, answers: Answers, nvml: ctypes.CDLL, see: Callable[[Machine, str], str]
) -> None:
    events = EventSet(nvml)
    events.register(1)
    gone = machine.gpu(1)
    listing = """
n.nvmlInit()
handles = map(n.nvmlDeviceGetHandleByIndex, range(n.nvmlDeviceGetCount()))
print([n.nvmlDeviceGetMinorNumber(handle) for handle in handles])
"""

    machine.unplug(1)

    assert answers.memory(0) == SUCCESS
    assert events.wait()[0] == GPU_IS_LOST
    assert see(machine, listing) == "[0, 2, 3]\n"
    assert not (machine.dev / "nvidia1").exists()
    assert not (machine.sys / "bus/pci/devices" / gone.sysfs_name).exists()
    machine.plug(1)
    assert answers.memory(1) == SUCCESS
    assert see(machine, listing) == "[0, 1, 2, 3]\n"
    assert (machine.dev / "nvidia1").exists()
    assert (machine.sys / "bus/pci/devices" / gone.sysfs_name / "vendor").read_text() == "0x10de\n"
    events.free()
