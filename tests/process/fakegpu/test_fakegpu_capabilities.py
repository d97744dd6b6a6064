"""What a driver shows of MIG in /proc and /dev: minors, capabilities of the instances that are there, their nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.cli.record import ask_fake
from fakegpu.recording.recording import Recording
from tests.support.machines import expected, granted, nodes

See = Callable[[Machine, str], str]
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only an administrator partitions GPUs through NVML, or sees how they are"
)


@needs_root
def test_instances_made_through_nvml_have_them_too(machine: Machine, see: See) -> None:
    make = """
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(2)
n.nvmlDeviceSetMigMode(gpu, 1)
for profile, part in ((9, 0), (9, 2), (19, 0)):
    try:
        n.nvmlGpuInstanceCreateComputeInstance(n.nvmlDeviceCreateGpuInstance(gpu, profile), part)
    except n.NVMLError_InsufficientResources:
        print("full")
"""
    take = """
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(2)
whole = n.nvmlDeviceGetGpuInstanceById(gpu, 2)
n.nvmlComputeInstanceDestroy(n.nvmlGpuInstanceGetComputeInstanceById(whole, 0))
n.nvmlGpuInstanceDestroy(whole)
"""
    assert see(machine, make) == "full\n"
    assert granted(machine, 2) == {"gi1/access", "gi1/ci0/access", "gi2/access", "gi2/ci0/access"}
    assert (granted(machine, 2), nodes(machine)) == expected(machine, 2)

    see(machine, take)

    assert granted(machine, 2) == {"gi1/access", "gi1/ci0/access"}
    assert (granted(machine, 2), nodes(machine)) == expected(machine, 2)


@needs_root
def test_a_recording_of_a_partitioned_gpu_has_them_from_the_start(machine: Machine, tmp_path: Path) -> None:
    machine.mig(0).create("2g.20gb", "1g.10gb")

    again = Machine.create(tmp_path / "again", Recording.of(ask_fake(machine)))

    assert granted(again, 0) == granted(machine, 0) != set()
