"""What the calls behind ``nvidia-smi -q`` answer on an H100, where they differ from board to board.

Source: output of ``nvidia-smi -q`` of driver 545 on an H100 80GB HBM3 (N/A there is NOT_SUPPORTED here), and nvml.h.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine

from .conftest import See

ASK = """
import json, sys
n.nvmlInit()
device = n.nvmlDeviceGetHandleByIndex(0)
FIELDS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []
def told(function, *arguments):
    try:
        answer = function(*arguments)
    except n.NVMLError as error:
        return type(error).__name__.removeprefix("NVMLError_")
    if isinstance(answer, bytes):
        return answer.decode()
    if hasattr(answer, "_fields_"):
        return {name: getattr(answer, name) for name, *_ in answer._fields_ if isinstance(getattr(answer, name), int)}
    return list(answer) if isinstance(answer, tuple) else answer
def field(number, scope=0):
    value = n.nvmlDeviceGetFieldValues(device, [(number, scope)])[0]
    if value.nvmlReturn:
        return type(n.NVMLError(value.nvmlReturn)).__name__.removeprefix("NVMLError_")
    return {1: value.value.uiVal, 3: value.value.ullVal, 5: value.value.siVal}[value.valueType]
"""


@pytest.fixture
def h100(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 2, seed="h100")
    yield machine
    machine.close()


def ask(see: See, machine: Machine, expressions: dict[str, str]) -> dict[str, Any]:
    pairs = ", ".join(f"{name!r}: {expression}" for name, expression in expressions.items())
    answers: dict[str, Any] = json.loads(see(machine, f"{ASK}\nprint(json.dumps({{{pairs}}}))"))
    return answers


def test_functions_that_a_board_without_fans_displays_and_vgpus_does_not_support(see: See, h100: Machine) -> None:
    names = [
        "nvmlDeviceGetFanSpeed",
        "nvmlDeviceGetBridgeChipInfo",
        "nvmlDeviceGetCurrentDriverModel",
        "nvmlDeviceGetCurrentGpuOperationMode",
        "nvmlDeviceGetAutoBoostedClocksEnabled",
        "nvmlDeviceGetHostVgpuMode",
        "nvmlDeviceGetNumaNodeId",
    ]

    answers = ask(see, h100, {name: f"told(n.{name}, device)" for name in names})

    assert answers == dict.fromkeys(names, "NotSupported")


def test_figures_of_the_board(see: See, h100: Machine) -> None:
    expected = {
        "nvmlDeviceGetAccountingBufferSize": 4000,
        "nvmlDeviceGetC2cModeInfoV": {"isC2cEnabled": 0},
        "nvmlDeviceGetLastBBXFlushTime": [1708607349459000, 119019],
        "nvmlDeviceGetConfComputeProtectedMemoryUsage": {"total": 0, "free": 0, "used": 0},
        "nvmlDeviceGetRepairStatus": [0, 0],
        "nvmlDeviceGetAccountingPids": [],
    }

    assert ask(see, h100, {name: f"told(n.{name}, device)" for name in expected}) == expected


def test_field_values_of_power_and_temperature(see: See, h100: Machine) -> None:
    gpu, module, memory = 0, 1, 2
    answers = ask(
        see,
        h100,
        {
            "power": f"field(n.NVML_FI_DEV_POWER_INSTANT, {gpu})",
            "limit": f"field(n.NVML_FI_DEV_POWER_REQUESTED_LIMIT, {gpu})",
            "module": f"field(n.NVML_FI_DEV_POWER_INSTANT, {module})",
            "memory": f"field(n.NVML_FI_DEV_POWER_AVERAGE, {memory})",
            "shutdown": "field(n.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT)",
            "slowdown": "field(n.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT)",
            "gpu_max": "field(n.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT)",
            "memory_max": "field(n.NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT)",
            "retired": "field(n.NVML_FI_DEV_RETIRED_SBE)",
            "reset": "field(n.NVML_FI_DEV_RESET_STATUS)",
        },
    )

    assert answers["power"] == 1000 * round(answers["power"] / 1000) > 0
    assert answers["limit"] == 700_000
    assert answers["module"] == "NotSupported"
    assert answers["memory"] > 0
    assert (answers["shutdown"], answers["slowdown"]) == (-8, -2)
    assert (answers["gpu_max"], answers["memory_max"]) == (0, 0)
    assert answers["retired"] == "NotSupported"
    assert answers["reset"] == 0


def test_field_values_of_links(see: See, h100: Machine) -> None:
    with h100._segment.change(0) as state:
        state.links[17].errors[1] = 4  # recoveries
    answers = ask(
        see,
        h100,
        {
            "count": "field(n.NVML_FI_DEV_NVLINK_LINK_COUNT)",
            "to_switches": "field(n.NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT)",
            "speed": "field(n.NVML_FI_DEV_NVLINK_GET_SPEED, 17)",
            "state": "field(n.NVML_FI_DEV_NVLINK_GET_STATE, 17)",
            "version": "field(n.NVML_FI_DEV_NVLINK_GET_VERSION, 17)",
            "recoveries": "field(n.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, 17)",
            "all_recoveries": "field(n.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)",
            "of_link_0": "field(n.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0)",
            "missing_link": "field(n.NVML_FI_DEV_NVLINK_GET_STATE, 18)",
        },
    )

    assert answers == {
        "count": 18,
        "to_switches": 18,
        "speed": 26562,
        "state": 1,
        "version": 6,
        "recoveries": 4,
        "all_recoveries": 4,
        "of_link_0": 0,
        "missing_link": "InvalidArgument",
    }


def test_gpm_support_is_asked_with_a_plain_version(see: See, h100: Machine) -> None:
    told = see(
        h100,
        """
import ctypes
n.nvmlInit()
device = n.nvmlDeviceGetHandleByIndex(0)
ask = n._nvmlGetFunctionPointer("nvmlGpmQueryDeviceSupport")
support = n.c_nvmlGpmSupport_t()
def answer(version):
    support.version = version
    return ask(device, ctypes.byref(support))
with_size = ctypes.sizeof(support) | 1 << 24
print(answer(1), support.isSupportedDevice, answer(with_size) == n.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
""",
    )

    assert told.split() == ["0", "1", "True"]


def test_gpm_metrics_between_two_samples(see: See, h100: Machine) -> None:
    h100.set(0, "utilization_gpu", 80)
    code = f"""{ASK}
one, two = n.nvmlGpmSampleAlloc(), n.nvmlGpmSampleAlloc()
n.nvmlGpmSampleGet(device, one)
n.nvmlGpmSampleGet(device, two)
wanted = n.c_nvmlGpmMetricsGet_t()
wanted.version, wanted.numMetrics, wanted.sample1, wanted.sample2 = 1, 4, one, two
ids = n.NVML_GPM_METRIC_SM_UTIL, n.NVML_GPM_METRIC_NVLINK_L9_TX_PER_SEC, 24, 210
for metric, wanted_id in zip(wanted.metrics, ids):
    metric.metricId = wanted_id
n.nvmlGpmMetricsGet(wanted)
for metric in wanted.metrics[:4]:
    info = metric.metricInfo
    print(metric.nvmlReturn, metric.value, info.shortName, info.longName, info.unit)
"""

    assert see(h100, code).splitlines() == [
        "0 80.0 b'smutil' b'SM_UTIL' b'%'",
        "0 0.0 b'nvl9tx' b'NVLINK_L9_TX_PER_SEC' b'MiB/s'",
        "0 0.0 None None b'%'",
        "2 0.0 None None None",
    ]


def test_gpm_metrics_need_two_samples(see: See, h100: Machine) -> None:
    code = f"""{ASK}
one = n.nvmlGpmSampleAlloc()
n.nvmlGpmSampleGet(device, one)
wanted = n.c_nvmlGpmMetricsGet_t()
wanted.version, wanted.numMetrics, wanted.sample1, wanted.sample2 = 1, 1, one, one
wanted.metrics[0].metricId = n.NVML_GPM_METRIC_SM_UTIL
try:
    n.nvmlGpmMetricsGet(wanted)
except n.NVMLError_InvalidArgument as error:
    print(error)
"""

    assert see(h100, code) == "Invalid Argument\n"


def test_samples_begin_after_the_last_seen(see: See, h100: Machine) -> None:
    h100.set(0, "utilization_gpu", 30)
    code = f"""{ASK}
kind, samples = n.nvmlDeviceGetSamples(device, n.NVML_GPU_UTILIZATION_SAMPLES, 0)
middle = samples[len(samples) // 2].timeStamp
kind, later = n.nvmlDeviceGetSamples(device, n.NVML_GPU_UTILIZATION_SAMPLES, middle)
print(kind, {{sample.sampleValue.uiVal for sample in samples}}, min(s.timeStamp for s in later) > middle)
print(told(n.nvmlDeviceGetSamples, device, n.NVML_GPU_UTILIZATION_SAMPLES, 2**62))
"""

    assert see(h100, code) == "1 {30} True\nNotFound\n"


def test_accounting_lists_processes_that_run_while_it_is_on(see: See, h100: Machine) -> None:
    with h100._segment.change(0) as state:
        state.modes.accounting = True

    answers = ask(
        see,
        h100,
        {
            "pids": "told(n.nvmlDeviceGetAccountingPids, device)",
            "stats": "told(n.nvmlDeviceGetAccountingStats, device, 1)",
        },
    )

    assert answers == {"pids": [], "stats": "NotFound"}
