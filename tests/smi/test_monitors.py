"""Monitoring tools from PyPI, unmodified."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fakegpu import Load
from tests.support.patience import PROGRAM_LIMIT_S

from .conftest import Make, run

SCRIPTS = Path(sysconfig.get_path("scripts"))

WRAPPERS = """
import inspect, json, pynvml as n
n.nvmlInit()
handle = n.nvmlDeviceGetHandleByIndex(0)
answers = {}
for name, function in inspect.getmembers(n, inspect.isfunction):
    parameters = list(inspect.signature(function).parameters.values())
    needed = [each.name for each in parameters if each.default is each.empty]
    if name.startswith("nvmlDeviceGet") and needed in (["handle"], ["device"]):
        try:
            answers[name] = type(function(handle)).__name__
        except n.NVMLError as error:
            answers[name] = error.value
print(json.dumps(answers))
"""
NOT_SUPPORTED, FUNCTION_NOT_FOUND = 3, 13
# What an H100 with a driver of 580 does not answer without MIG, vGPU or confidential computing, by nvml.h.
ALLOWED_REFUSALS = {2, NOT_SUPPORTED, 6, FUNCTION_NOT_FOUND, 25}
TYPES = {
    "nvmlDeviceGetName": "str",
    "nvmlDeviceGetUUID": "str",
    "nvmlDeviceGetIndex": "int",
    "nvmlDeviceGetMemoryInfo": "c_nvmlMemory_t",
    "nvmlDeviceGetPciInfo": "nvmlPciInfo_t",
    "nvmlDeviceGetPowerUsage": "int",
    "nvmlDeviceGetTotalEnergyConsumption": "int",
    "nvmlDeviceGetUtilizationRates": "c_nvmlUtilization_t",
    "nvmlDeviceGetEncoderUtilization": "list",
    "nvmlDeviceGetComputeRunningProcesses": "list",
    "nvmlDeviceGetCudaComputeCapability": "tuple",
}


@pytest.mark.parametrize("arguments", [["--once"], ["--once", "--colorful"]], ids=" ".join)
def test_nvitop_shows_load_and_process(make: Make, arguments: list[str]) -> None:
    machine = make(count=2)
    machine.load(0, Load(gpu_percent=87, memory_bytes=40 << 30))
    machine.enter_process(0, os.getpid(), 2 << 30)

    answer = run(machine, str(SCRIPTS / "nvitop"), *arguments)

    assert answer.status == 0, answer.text
    assert "87%" in answer.text
    assert "42.00GiB / 79.65GiB" in answer.text
    assert str(os.getpid()) in answer.text


def test_gpustat_shows_load_and_process(make: Make) -> None:
    machine = make(count=2)
    machine.load(1, Load(gpu_percent=55))
    machine.enter_process(1, os.getpid(), 2 << 30)

    answer = run(machine, str(SCRIPTS / "gpustat"), "--json")

    assert answer.status == 0, answer.text
    gpus = json.loads(answer.text)["gpus"]
    assert [gpu["uuid"] for gpu in gpus] == [gpu.uuid for gpu in machine.gpus]
    assert gpus[1]["utilization.gpu"] == 55
    assert [process["pid"] for process in gpus[1]["processes"]] == [os.getpid()]


@pytest.mark.parametrize(("profile", "least"), [("h100-80gb", 100), ("t4", 75), ("rtx-4090", 70)])
def test_wrappers_answer_or_refuse_by_the_book(make: Make, profile: str, least: int) -> None:
    machine = make(profile, 1)

    done = subprocess.run(
        [sys.executable, "-c", inspect.cleandoc(WRAPPERS)],
        env=os.environ | machine.environment(),
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
    )

    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    refusals = {name: answer for name, answer in answers.items() if isinstance(answer, int)}
    assert {name: code for name, code in refusals.items() if code not in ALLOWED_REFUSALS} == {}
    assert len(answers) - len(refusals) >= least, refusals
    assert {name: answers[name] for name in TYPES} == TYPES
