"""What nvidia-ml-py, in a process started by ``fakegpu exec``, sees of a machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from tests.support.patience import LIMIT_S

ENUMERATE = """
import json, pynvml as n
n.nvmlInit()
def ask(function, *arguments):
    try:
        answer = function(*arguments)
    except n.NVMLError as error:
        return type(error).__name__
    return answer if isinstance(answer, (int, str, list, tuple, float)) else str(answer)
gpus = []
for index in range(n.nvmlDeviceGetCount()):
    handle = n.nvmlDeviceGetHandleByIndex(index)
    bus_id = n.nvmlDeviceGetPciInfo(handle).busId
    gpus.append({
        "name": ask(n.nvmlDeviceGetName, handle), "uuid": ask(n.nvmlDeviceGetUUID, handle),
        "by_uuid": ask(lambda: n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(handle)))),
        "by_pci": ask(lambda: n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(bus_id))), "bus_id": bus_id,
        "minor": ask(n.nvmlDeviceGetMinorNumber, handle), "brand": ask(n.nvmlDeviceGetBrand, handle),
        "architecture": ask(n.nvmlDeviceGetArchitecture, handle),
        "capability": ask(n.nvmlDeviceGetCudaComputeCapability, handle),
        "cores": ask(n.nvmlDeviceGetNumGpuCores, handle), "serial": ask(n.nvmlDeviceGetSerial, handle),
        "memory": ask(lambda: n.nvmlDeviceGetMemoryInfo(handle).total),
        "memory_v2": ask(lambda: n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2).reserved),
        "bar1": ask(lambda: n.nvmlDeviceGetBAR1MemoryInfo(handle).bar1Total),
        "power_limit": ask(n.nvmlDeviceGetPowerManagementLimit, handle),
        "constraints": ask(n.nvmlDeviceGetPowerManagementLimitConstraints, handle),
        "max_sm": ask(n.nvmlDeviceGetMaxClockInfo, handle, n.NVML_CLOCK_SM),
        "memory_clocks": ask(n.nvmlDeviceGetSupportedMemoryClocks, handle),
        "graphics_clocks": ask(lambda: len(n.nvmlDeviceGetSupportedGraphicsClocks(
            handle, n.nvmlDeviceGetSupportedMemoryClocks(handle)[0]))),
        "fan": ask(n.nvmlDeviceGetFanSpeed, handle), "pstate": ask(n.nvmlDeviceGetPerformanceState, handle),
        "ecc": ask(n.nvmlDeviceGetEccMode, handle), "mig": ask(n.nvmlDeviceGetMigMode, handle),
        "max_mig": ask(n.nvmlDeviceGetMaxMigDeviceCount, handle),
        "processes": ask(n.nvmlDeviceGetComputeRunningProcesses, handle),
        "generation": ask(n.nvmlDeviceGetMaxPcieLinkGeneration, handle),
        "remapped": ask(n.nvmlDeviceGetRemappedRows, handle),
        "retired": ask(n.nvmlDeviceGetRetiredPages, handle, 0),
        "link_0": ask(n.nvmlDeviceGetNvLinkState, handle, 0), "link_17": ask(n.nvmlDeviceGetNvLinkState, handle, 17),
        "remote": ask(lambda: n.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0).busId),
        "remote_type": ask(n.nvmlDeviceGetNvLinkRemoteDeviceType, handle, 0),
        "cpus": ask(lambda: [int(word) for word in n.nvmlDeviceGetCpuAffinity(handle, 2)]),
        "nodes": ask(lambda: [int(word) for word in n.nvmlDeviceGetMemoryAffinity(handle, 1, 0)]),
        "slowdown": ask(n.nvmlDeviceGetTemperatureThreshold, handle, n.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        "topology": [ask(n.nvmlDeviceGetTopologyCommonAncestor, handle, n.nvmlDeviceGetHandleByIndex(other))
                     for other in range(n.nvmlDeviceGetCount())],
        "field": ask(lambda: n.nvmlDeviceGetFieldValues(handle, [n.NVML_FI_DEV_NVLINK_LINK_COUNT])[0].value.uiVal),
    })
print(json.dumps({"driver": n.nvmlSystemGetDriverVersion(), "cuda": n.nvmlSystemGetCudaDriverVersion(),
                  "nvml": n.nvmlSystemGetNVMLVersion(), "gpus": gpus}))
"""


def enumerate_gpus(machine: Machine) -> dict[str, Any]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fakegpu",
            "exec",
            "--dir",
            str(machine.directory),
            "--",
            sys.executable,
            "-c",
            ENUMERATE,
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_h100_machine_as_nvidia_ml_py_sees_it(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "h100-80gb", 8, seed="h")

    seen = enumerate_gpus(machine)

    assert (seen["driver"], seen["cuda"], seen["nvml"]) == ("580.95.05", 13000, "13.580.95.05")
    assert [gpu["uuid"] for gpu in seen["gpus"]] == [gpu.uuid for gpu in machine.gpus]
    assert [gpu["bus_id"] for gpu in seen["gpus"]] == [gpu.pci_bus_id for gpu in machine.gpus]
    assert [gpu["by_uuid"] for gpu in seen["gpus"]] == list(range(8))
    assert [gpu["by_pci"] for gpu in seen["gpus"]] == list(range(8))
    assert [gpu["minor"] for gpu in seen["gpus"]] == list(range(8))
    first, last = seen["gpus"][0], seen["gpus"][7]
    expected = {
        "name": "NVIDIA H100 80GB HBM3",
        "brand": 14,
        "architecture": 9,
        "capability": [9, 0],
        "cores": 16896,
        "memory": 81559 << 20,
        "memory_v2": (480 << 20) - (1 << 19),
        "bar1": 131072 << 20,
        "power_limit": 700_000,
        "constraints": [200_000, 700_000],
        "max_sm": 1980,
        "memory_clocks": [2619, 1593],
        "graphics_clocks": 110,
        "fan": "NVMLError_NotSupported",
        "pstate": 0,
        "ecc": [1, 1],
        "mig": [0, 0],
        "max_mig": 0,
        "processes": [],
        "generation": 5,
        "remapped": [0, 0, 0, 0],
        "retired": "NVMLError_NotSupported",
        "link_0": 1,
        "link_17": 1,
        "remote": "00000000:07:00.0",
        "remote_type": 2,
        "cpus": [(1 << 56) - 1, 0],
        "nodes": [1],
        "slowdown": 89,
        "topology": ["NVMLError_NotSupported", 40, 40, 40, 50, 50, 50, 50],
        "field": 18,
    }
    assert {key: first[key] for key in expected} == expected
    assert last["topology"] == [50, 50, 50, 50, 40, 40, 40, "NVMLError_NotSupported"]
    assert last["nodes"] == [2]


@pytest.mark.slow
def test_t4_machine_has_no_mig_no_nvlink_and_retires_pages(tmp_path: Path) -> None:
    seen = enumerate_gpus(Machine.create(tmp_path / "node", "t4", 1))["gpus"][0]

    unsupported = {key for key, value in seen.items() if value == "NVMLError_NotSupported"}
    assert unsupported == {"fan", "mig", "remapped", "link_0", "link_17", "remote", "remote_type"}
    assert seen["max_mig"] == 0
    assert seen["retired"] == []
    assert (seen["capability"], seen["cores"], seen["memory"]) == ([7, 5], 2560, 15360 << 20)


@pytest.mark.slow
def test_a100_pairs_share_a_tree_of_pcie_switches(tmp_path: Path) -> None:
    seen = enumerate_gpus(Machine.create(tmp_path / "node", "a100-40gb", 4))["gpus"]

    assert seen[0]["topology"] == ["NVMLError_NotSupported", 20, 40, 40]
    assert (seen[0]["link_0"], seen[0]["link_17"]) == (1, "NVMLError_NotSupported")


@pytest.mark.slow
def test_more_gpus_than_slots_continue_in_the_next_pci_domain(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", count=64)

    seen = enumerate_gpus(machine)["gpus"]

    assert len({gpu["bus_id"] for gpu in seen}) == 64
    assert len({gpu["uuid"] for gpu in seen}) == 64
    assert len({gpu["serial"] for gpu in seen}) == 64
    assert seen[8]["bus_id"] == "00000001:1B:00.0"
    assert seen[63]["by_pci"] == 63
