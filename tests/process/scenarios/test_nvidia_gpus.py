"""The NVIDIA GPUs of a node, as stories name, break, fix and divide them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from scenarios.backends.world import hardware
from scenarios.story.specs import GpuSpec
from scenarios.story.verbs.hardware_action import (
    Fail,
)
from tests.unit.scenarios.test_nvidia_gpus import perform

WAITER = """
import pynvml as n
n.nvmlInit()
events = n.nvmlEventSetCreate()
for index in range(n.nvmlDeviceGetCount()):
    n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(index), n.nvmlEventTypeXidCriticalError, events)
print("waiting", flush=True)
event = n.nvmlEventSetWait_v2(events, 60000)
print(n.nvmlDeviceGetUUID(event.device), event.eventData, event.gpuInstanceId, event.computeInstanceId)
"""
"""Prints the event that it waits for."""
A100 = {"profile": "a100-40gb", "count": 3, "seed": "story"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    spec = GpuSpec.model_validate({**A100, "mig": [["1g.5gb", "3g.20gb"], "disabled", []]})
    return hardware.make_gpus(tmp_path / "machine", **spec.model_dump())


@pytest.mark.parametrize(
    ("gpu", "place"),
    [
        pytest.param(1, (1, None), id="whole GPU"),
        pytest.param(0, (0, None), id="GPU with MIG devices"),
        pytest.param("0:1", (0, 1), id="MIG device"),
    ],
)
def test_xid_names_the_instances_of_a_mig_device(machine: Machine, gpu: Any, place: tuple[int, int | None]) -> None:
    environment = {**os.environ, **machine.environment()}
    with subprocess.Popen([sys.executable, "-c", WAITER], env=environment, stdout=subprocess.PIPE, text=True) as waiter:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waiting\n"
        event = perform(machine, Fail.model_validate({"gpu": gpu, "xid": 62}))
        seen = waiter.stdout.readline().split()

    index, device = place
    part = None if device is None else machine.mig(index).devices[device]
    instances = (0xFFFFFFFF, 0xFFFFFFFF) if part is None else (part.gpu_instance, part.compute_instance)
    assert seen == [machine.gpu(index).uuid, "62", *map(str, instances)]
    assert event.gpu == hardware.names(machine)[str(gpu)]
