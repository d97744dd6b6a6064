"""Which arguments a survey gives to NVML's getters, by the names of nvidia-ml-py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_Domain = Sequence[int]

_CLOCKS: Final = range(4)
_SCOPES: Final = (0, 1)
_CPU_WORDS: Final = (16,)
_ERRORS: Final = (0, 1)
_COUNTERS: Final = (0, 1)
_FANS: Final = range(4)
_MEMORY_V2: Final = 0x2000028  # the version of nvmlMemory_v2_t, which tells what is reserved
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
