"""The NVIDIA GPUs of a node, as stories name, break, fix and divide them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from fakegpu import Machine
from scenarios.backends.world import hardware
from scenarios.story.verbs.hardware_action import (
    Fail,
)
from tests.support.stories import perform

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
