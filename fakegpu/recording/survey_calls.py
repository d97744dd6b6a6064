"""Which arguments a survey gives to NVML's getters, by the names of nvidia-ml-py, and what it asks about MIG."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pynvml

_Domain = Sequence[int]

_CLOCKS: Final = range(4)
_SCOPES: Final = (0, 1)
_CPU_WORDS: Final = (16,)
_ERRORS: Final = (0, 1)
_COUNTERS: Final = (0, 1)
_FANS: Final = range(4)
_MEMORY_V2: Final = 0x2000028  # the version of nvmlMemory_v2_t, which has what is reserved
_PSTATES: Final = (0, 2, 3, 5, 8)

SYSTEM_CALLS: Final = (
    "nvmlDeviceGetCount",
    "nvmlSystemGetConfComputeCapabilities",
    "nvmlSystemGetConfComputeGpusReadyState",
    "nvmlSystemGetConfComputeState",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverBranch",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetHicVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetNvlinkBwMode",
    "nvmlUnitGetCount",
    "nvmlGetExcludedDeviceCount",
)

LEFT_OUT: Final = frozenset(
    {
        # They hand out no answer but another handle, or certificates of megabytes.
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
        "nvmlDeviceGetConfComputeGpuCertificate",
    }
)

ARGUMENTS: Final[Mapping[str, Sequence[_Domain]]] = {
    "nvmlDeviceGetAPIRestriction": [(0, 1)],
    "nvmlDeviceGetApplicationsClock": [_CLOCKS],
    "nvmlDeviceGetClock": [_CLOCKS, range(4)],
    "nvmlDeviceGetClockInfo": [_CLOCKS],
    "nvmlDeviceGetCpuAffinity": [_CPU_WORDS],
    "nvmlDeviceGetCpuAffinityWithinScope": [_CPU_WORDS, _SCOPES],
    "nvmlDeviceGetDefaultApplicationsClock": [_CLOCKS],
    "nvmlDeviceGetDetailedEccErrors": [_ERRORS, _COUNTERS],
    "nvmlDeviceGetEncoderCapacity": [range(3)],
    "nvmlDeviceGetFanControlPolicy_v2": [_FANS],
    "nvmlDeviceGetFanSpeed_v2": [_FANS],
    "nvmlDeviceGetGpuInstanceProfileInfoV": [range(16)],
    "nvmlDeviceGetGpuInstanceRemainingCapacity": [(0, 5, 9, 14, 15, 19, 20)],
    "nvmlDeviceGetInforomVersion": [range(4)],
    "nvmlDeviceGetMaxClockInfo": [_CLOCKS],
    "nvmlDeviceGetMaxCustomerBoostClock": [_CLOCKS],
    "nvmlDeviceGetMemoryAffinity": [_CPU_WORDS, _SCOPES],
    "nvmlDeviceGetMemoryErrorCounter": [_ERRORS, _COUNTERS, range(8)],
    "nvmlDeviceGetMemoryInfo": [(_MEMORY_V2,)],
    "nvmlDeviceGetMinMaxClockOfPState": [_CLOCKS, _PSTATES],
    "nvmlDeviceGetPcieThroughput": [(0, 1)],
    "nvmlDeviceGetRetiredPages": [(0, 1)],
    "nvmlDeviceGetTargetFanSpeed": [_FANS],
    "nvmlDeviceGetTemperature": [(0,)],
    "nvmlDeviceGetTemperatureThreshold": [range(8)],
    "nvmlDeviceGetTemperatureV": [(0,)],
    "nvmlDeviceGetThermalSettings": [(15,)],
    "nvmlDeviceGetTopologyNearestGpus": [(0, 10, 20, 30, 40, 50)],
    "nvmlDeviceGetTotalEccErrors": [_ERRORS, _COUNTERS],
    "nvmlDeviceGetViolationStatus": [range(12)],
}

LINK_CALLS: Final[Mapping[str, Sequence[_Domain]]] = {
    "nvmlDeviceGetNvLinkCapability": [range(6)],
    "nvmlDeviceGetNvLinkErrorCounter": [range(5)],
    "nvmlDeviceGetNvLinkRemoteDeviceType": [],
    "nvmlDeviceGetNvLinkRemotePciInfo": [],
    "nvmlDeviceGetNvLinkState": [],
    "nvmlDeviceGetNvLinkVersion": [],
}
"""Their first argument is the number of a link."""

PAIR_CALLS: Final[Mapping[str, Sequence[_Domain]]] = {
    "nvmlDeviceGetP2PStatus": [range(6)],
    "nvmlDeviceGetTopologyCommonAncestor": [],
    "nvmlDeviceOnSameBoard": [],
}

STRUCTS: Final[Mapping[str, tuple[str, str | None]]] = {
    "nvmlDeviceGetCapabilities": ("c_nvmlDeviceCapabilities_v1_t", None),
    "nvmlDeviceGetGpuFabricInfo": ("c_nvmlGpuFabricInfo_t", None),
    "nvmlDeviceGetGpuFabricInfoV": ("c_nvmlGpuFabricInfo_v3_t", None),
    "nvmlDeviceGetNvlinkBwMode": ("c_nvmlNvlinkGetBwMode_v1_t", None),
    "nvmlDeviceGetPciInfoExt": ("nvmlPciInfoExt_v1_t", "nvmlPciInfoExt_v1"),
    "nvmlDeviceGetPlatformInfo": ("c_nvmlPlatformInfo_v2_t", None),
    "nvmlDeviceGetSramEccErrorStatus": ("c_nvmlEccSramErrorStatus_v1_t", None),
}
"""Calls that fill a struct, which the caller makes: its type, and its version where the type does not set it."""

_WHOLE_GPU: Final = 0xFFFFFFFF
SCOPED_FIELDS: Final = (
    *((field, _WHOLE_GPU) for field in range(138, 142)),  # NVML_FI_DEV_NVLINK_THROUGHPUT_*: of all links
    *((field, scope) for field in range(185, 192) for scope in (1, 2)),  # NVML_FI_DEV_POWER_*: of module and memory
)
"""Field values that are asked with a scope as well."""

MOVING: Final = (
    "nvmlDeviceGetAccountingPids",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetBBXTimeData",
    "nvmlDeviceGetClock",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetCurrentClock",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetDynamicPstatesInfo",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetJpgUtilization",
    "nvmlDeviceGetLastBBXFlushTime",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetOfaUtilization",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetPerformanceModes",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPowerState",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTemperature 0",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetThermalSettings",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetViolationStatus",
)
"""Beginnings of calls whose answers move by themselves."""

IDENTITY: Final = (
    "nvmlDeviceGetPdi",
    "nvmlDeviceGetInforomConfigurationChecksum",
    "nvmlDeviceGetPlatformInfo",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetUUID",
)
"""Beginnings of calls whose answers differ from board to board."""


_PROFILES: Final = range(18)
_DEVICES: Final = range(7)
PLACEMENTS: Final = "nvmlDeviceGetGpuInstancePossiblePlacements"
INSTANCES: Final = "nvmlDeviceGetGpuInstances"
DEVICE_UUID: Final = "nvmlDeviceGetUUID mig"


def mig_calls(gpu: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and call of everything to ask; placements and instances are asked by the id of a profile."""
    for profile in _PROFILES:
        try:
            number = int(pynvml.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, profile).id)
        except pynvml.NVMLError:
            continue
        yield f"{PLACEMENTS} {number}", partial(_placements, gpu, number)
        yield f"{INSTANCES} {number}", partial(_instances, gpu, number)
    for index in _DEVICES:
        yield f"{DEVICE_UUID} {index}", partial(_uuid, gpu, index)


def _placements(gpu: Any, profile: int) -> list[dict[str, int]]:
    count = ctypes.c_uint(64)
    found = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, found, ctypes.byref(count))
    return [_placement(found[position]) for position in range(count.value)]


def _gpu_instances(gpu: Any, profile: int) -> list[Any]:
    count = ctypes.c_uint(16)
    found = (pynvml.c_nvmlGpuInstance_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstances(gpu, profile, found, ctypes.byref(count))
    return [pynvml.c_nvmlGpuInstance_t.from_buffer_copy(found, 8 * position) for position in range(count.value)]


def _instances(gpu: Any, profile: int) -> list[dict[str, Any]]:
    return [_instance(one) for one in _gpu_instances(gpu, profile)]


def _instance(instance: Any) -> dict[str, Any]:
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    inside = [_compute_instance(one) for profile in range(8) for one in _compute_instances(instance, profile)]
    return {"id": info.id, "placement": _placement(info.placement), "computeInstances": inside}


def _compute_instances(instance: Any, profile: int) -> list[Any]:
    count = ctypes.c_uint(8)
    found = (pynvml.c_nvmlComputeInstance_t * count.value)()
    try:
        info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, profile, 0)
        pynvml.nvmlGpuInstanceGetComputeInstances(instance, info.id, found, ctypes.byref(count))
    except pynvml.NVMLError:
        return []
    return [pynvml.c_nvmlComputeInstance_t.from_buffer_copy(found, 8 * position) for position in range(count.value)]


def _compute_instance(instance: Any) -> dict[str, Any]:
    info = pynvml.nvmlComputeInstanceGetInfo_v2(instance)
    return {"id": info.id, "profile": info.profileId, "placement": _placement(info.placement)}


def _placement(placement: Any) -> dict[str, int]:
    return {"start": placement.start, "size": placement.size}


def _uuid(gpu: Any, index: int) -> Any:
    return pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
