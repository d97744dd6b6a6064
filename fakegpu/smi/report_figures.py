"""The second part of ``nvidia-smi -q``: what the GPU does: memory and its errors, heat, power, clocks, processes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import pynvml

from .reading import (
    NOT_AVAILABLE,
    Tree,
    ask,
    compute_mode,
    field_value,
    mib,
    performance_state,
    processes_of,
    switch,
    text,
    watts,
)

_EVENT_REASONS: Final = {
    "Idle": pynvml.nvmlClocksEventReasonGpuIdle,
    "Applications Clocks Setting": pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    "SW Power Cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "HW Slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "    HW Thermal Slowdown": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "    HW Power Brake Slowdown": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "Sync Boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "SW Thermal Slowdown": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "Display Clock Setting": pynvml.nvmlClocksEventReasonDisplayClockSetting,
}


def figures_of(handle: Any) -> Tree:
    """Return the second part, from the fan's speed to the processes."""
    return [*_performance(handle), *_memory_health(handle), *_heat_and_power(handle)]


def _performance(handle: Any) -> Tree:
    return [
        ("Fan Speed", text(ask(pynvml.nvmlDeviceGetFanSpeed, handle), "%")),
        ("Performance State", performance_state(handle)),
        ("Clocks Event Reasons", _event_reasons(handle)),
        ("Sparse Operation Mode", NOT_AVAILABLE),
        ("FB Memory Usage", memory(handle)),
        ("BAR1 Memory Usage", bar1(handle)),
        ("Conf Compute Protected Memory Usage", _protected(handle)),
        ("Compute Mode", compute_mode(handle)),
        ("Utilization", _utilization(handle)),
        ("Encoder Stats", _sessions(ask(pynvml.nvmlDeviceGetEncoderStats, handle))),
        ("FBC Stats", _sessions(_capture(handle))),
    ]


def _event_reasons(handle: Any) -> str | Tree:
    reasons = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if reasons is None:
        return NOT_AVAILABLE
    return [(label, "Active" if reasons & bit else "Not Active") for label, bit in _EVENT_REASONS.items()]


def memory(handle: Any) -> Tree:
    """The memory of a GPU or a MIG device."""
    info = ask(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    figures = ("total", "reserved", "used", "free")
    return [(name.title(), NOT_AVAILABLE if info is None else mib(getattr(info, name))) for name in figures]


def bar1(handle: Any) -> Tree:
    """The BAR1 window of a GPU or a MIG device."""
    window = ask(pynvml.nvmlDeviceGetBAR1MemoryInfo, handle)
    figures = {"Total": "bar1Total", "Used": "bar1Used", "Free": "bar1Free"}
    return [(label, NOT_AVAILABLE if window is None else mib(getattr(window, name))) for label, name in figures.items()]


def _protected(handle: Any) -> Tree:
    memory = ask(pynvml.nvmlDeviceGetConfComputeProtectedMemoryUsage, handle)
    figures = ("total", "used", "free")
    return [(name.title(), NOT_AVAILABLE if memory is None else mib(getattr(memory, name))) for name in figures]


def _utilization(handle: Any) -> Tree:
    rates = ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
    engines = {
        "Encoder": pynvml.nvmlDeviceGetEncoderUtilization,
        "Decoder": pynvml.nvmlDeviceGetDecoderUtilization,
        "JPEG": pynvml.nvmlDeviceGetJpgUtilization,
        "OFA": pynvml.nvmlDeviceGetOfaUtilization,
    }
    percents = {
        "Gpu": None if rates is None else rates.gpu,
        "Memory": None if rates is None else rates.memory,
        **{label: (ask(function, handle) or (None,))[0] for label, function in engines.items()},
    }
    return [(label, text(percent, "%")) for label, percent in percents.items()]


def _sessions(stats: Any) -> Tree:
    labels = ("Active Sessions", "Average FPS", "Average Latency")
    return [(label, text(value)) for label, value in zip(labels, stats or (None, None, None), strict=True)]


def _capture(handle: Any) -> Any:
    stats = ask(pynvml.nvmlDeviceGetFBCStats, handle)
    return None if stats is None else (stats.sessionsCount, stats.averageFPS, stats.averageLatency)


_YES: Final = ("No", "Yes")
_SRAM_SINCE: Final = pynvml.NVML_DEVICE_ARCH_AMPERE
_KINDS: Final = {
    "Correctable": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
    "Uncorrectable": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
}


def _memory_health(handle: Any) -> Tree:
    current, pending = ask(pynvml.nvmlDeviceGetEccMode, handle) or (None, None)
    return [
        ("ECC Mode", [("Current", switch(current)), ("Pending", switch(pending))]),
        ("ECC Errors", _errors(handle)),
        ("Retired Pages", _retired_pages(handle)),
        ("Remapped Rows", _remapped_rows(handle)),
    ]


def _errors(handle: Any) -> Tree:
    architecture = ask(pynvml.nvmlDeviceGetArchitecture, handle)
    if architecture is None or architecture < _SRAM_SINCE:
        return [
            ("Volatile", _plain_counts(handle, pynvml.NVML_VOLATILE_ECC)),
            ("Aggregate", _plain_counts(handle, pynvml.NVML_AGGREGATE_ECC)),
        ]
    status = _sram_status(handle)
    sources = {
        "SRAM L2": "aggregateUncBucketL2",
        "SRAM SM": "aggregateUncBucketSm",
        "SRAM Microcontroller": "aggregateUncBucketMcu",
        "SRAM PCIE": "aggregateUncBucketPcie",
        "SRAM Other": "aggregateUncBucketOther",
    }
    exceeded = None if status is None else status.bThresholdExceeded
    aggregate = _sram_counts(handle, status, "aggregate", pynvml.NVML_AGGREGATE_ECC)
    return [
        ("Volatile", _sram_counts(handle, status, "volatile", pynvml.NVML_VOLATILE_ECC)),
        ("Aggregate", [*aggregate, ("SRAM Threshold Exceeded", switch(exceeded, _YES))]),
        ("Aggregate Uncorrectable SRAM Sources", [(label, _member(status, name)) for label, name in sources.items()]),
    ]


def _sram_status(handle: Any) -> Any:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    status.version = pynvml.nvmlEccSramErrorStatus_v1
    return status if ask(pynvml.nvmlDeviceGetSramEccErrorStatus, handle, ctypes.byref(status)) is not None else None


def _member(status: Any, name: str) -> str:
    return NOT_AVAILABLE if status is None else str(getattr(status, name))


def _sram_counts(handle: Any, status: Any, period: str, counter: int) -> Tree:
    return [
        ("SRAM Correctable", _member(status, f"{period}Cor")),
        ("SRAM Uncorrectable Parity", _member(status, f"{period}UncParity")),
        ("SRAM Uncorrectable SEC-DED", _member(status, f"{period}UncSecDed")),
        *_counts(handle, "DRAM", counter, pynvml.NVML_MEMORY_LOCATION_DRAM),
    ]


def _plain_counts(handle: Any, counter: int) -> Tree:
    return [
        *_counts(handle, "SRAM", counter, pynvml.NVML_MEMORY_LOCATION_SRAM),
        *_counts(handle, "DRAM", counter, pynvml.NVML_MEMORY_LOCATION_DRAM),
    ]


def _counts(handle: Any, memory: str, counter: int, location: int) -> Tree:
    function = pynvml.nvmlDeviceGetMemoryErrorCounter
    return [
        (f"{memory} {label}", text(ask(function, handle, kind, counter, location))) for label, kind in _KINDS.items()
    ]


def _retired_pages(handle: Any) -> Tree:
    causes = {
        "Single Bit ECC": pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        "Double Bit ECC": pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    }
    pages = {label: ask(pynvml.nvmlDeviceGetRetiredPages, handle, cause) for label, cause in causes.items()}
    pending = ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    counts = [(label, text(None if found is None else len(found))) for label, found in pages.items()]
    return [*counts, ("Pending Page Blacklist", switch(pending, _YES))]


def _remapped_rows(handle: Any) -> str | Tree:
    rows = ask(pynvml.nvmlDeviceGetRemappedRows, handle)
    if rows is None:
        return NOT_AVAILABLE
    corrected, uncorrected, is_pending, has_failed = rows
    banks = ask(pynvml.nvmlDeviceGetRowRemapperHistogram, handle)
    sizes = ("max", "high", "partial", "low", "none")
    histogram = [
        (size.title(), NOT_AVAILABLE if banks is None else f"{getattr(banks, size)} bank(s)") for size in sizes
    ]
    return [
        ("Correctable Error", text(corrected)),
        ("Uncorrectable Error", text(uncorrected)),
        ("Pending", switch(is_pending, _YES)),
        ("Remapping Failure Occurred", switch(has_failed, _YES)),
        ("Bank Remap Availability Histogram", histogram),
    ]


_GRAPHICS, _SM, _MEMORY, _VIDEO = (
    pynvml.NVML_CLOCK_GRAPHICS,
    pynvml.NVML_CLOCK_SM,
    pynvml.NVML_CLOCK_MEM,
    pynvml.NVML_CLOCK_VIDEO,
)
_MODULE: Final = 1
_FABRIC_STATES: Final = ("Not Supported", "Not Started", "In Progress", "Completed")


def _heat_and_power(handle: Any) -> Tree:
    both = {"Graphics": _GRAPHICS, "Memory": _MEMORY}
    every = {"Graphics": _GRAPHICS, "SM": _SM, "Memory": _MEMORY, "Video": _VIDEO}
    return [
        ("Temperature", _temperature(handle)),
        ("GPU Power Readings", _power(handle)),
        ("Module Power Readings", _module_power(handle)),
        ("Clocks", _clocks(handle, pynvml.nvmlDeviceGetClockInfo, every)),
        ("Applications Clocks", _clocks(handle, pynvml.nvmlDeviceGetApplicationsClock, both)),
        ("Default Applications Clocks", _clocks(handle, pynvml.nvmlDeviceGetDefaultApplicationsClock, both)),
        ("Deferred Clocks", [("Memory", NOT_AVAILABLE)]),
        ("Max Clocks", _clocks(handle, pynvml.nvmlDeviceGetMaxClockInfo, every)),
        (
            "Max Customer Boost Clocks",
            _clocks(handle, pynvml.nvmlDeviceGetMaxCustomerBoostClock, {"Graphics": _GRAPHICS}),
        ),
        ("Clock Policy", [("Auto Boost", NOT_AVAILABLE), ("Auto Boost Default", NOT_AVAILABLE)]),
        ("Voltage", [("Graphics", NOT_AVAILABLE)]),
        ("Fabric", _fabric(handle)),
        ("Processes", _processes(handle)),
    ]


def _temperature(handle: Any) -> Tree:
    now = ask(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    margin = ask(pynvml.nvmlDeviceGetMarginTemperature, handle)
    memory = field_value(handle, pynvml.NVML_FI_DEV_MEMORY_TEMP)
    if margin is None:
        below = {
            "GPU Shutdown Temp": _threshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
            "GPU Slowdown Temp": _threshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
            "GPU Max Operating Temp": _threshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),
        }
        memory_limit = {
            "Memory Max Operating Temp": _threshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX),
        }
    else:
        below = {
            "GPU Shutdown T.Limit Temp": field_value(handle, pynvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT),
            "GPU Slowdown T.Limit Temp": field_value(handle, pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT),
            "GPU Max Operating T.Limit Temp": field_value(handle, pynvml.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT),
        }
        memory_limit = {
            "Memory Max Operating T.Limit Temp": field_value(handle, pynvml.NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT)
        }
    figures = {
        "GPU Current Temp": now,
        "GPU T.Limit Temp": margin,
        **below,
        "GPU Target Temperature": _threshold(handle, pynvml.NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR),
        "Memory Current Temp": memory,
        **memory_limit,
    }
    return [(label, text(degrees, "C")) for label, degrees in figures.items()]


def _threshold(handle: Any, which: int) -> int | None:
    degrees: int | None = ask(pynvml.nvmlDeviceGetTemperatureThreshold, handle, which)
    return degrees


def _power(handle: Any) -> Tree:
    low, high = ask(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, handle) or (None, None)
    return [
        ("Power Draw", watts(ask(pynvml.nvmlDeviceGetPowerUsage, handle))),
        ("Current Power Limit", watts(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle))),
        ("Requested Power Limit", watts(ask(pynvml.nvmlDeviceGetPowerManagementLimit, handle))),
        ("Default Power Limit", watts(ask(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle))),
        ("Min Power Limit", watts(low)),
        ("Max Power Limit", watts(high)),
    ]


def _module_power(handle: Any) -> Tree:
    fields = {
        "Power Draw": pynvml.NVML_FI_DEV_POWER_AVERAGE,
        "Current Power Limit": pynvml.NVML_FI_DEV_POWER_CURRENT_LIMIT,
        "Requested Power Limit": pynvml.NVML_FI_DEV_POWER_REQUESTED_LIMIT,
        "Default Power Limit": pynvml.NVML_FI_DEV_POWER_DEFAULT_LIMIT,
        "Min Power Limit": pynvml.NVML_FI_DEV_POWER_MIN_LIMIT,
        "Max Power Limit": pynvml.NVML_FI_DEV_POWER_MAX_LIMIT,
    }
    return [(label, watts(field_value(handle, field, _MODULE))) for label, field in fields.items()]


def _clocks(handle: Any, function: Callable[..., Any], domains: dict[str, int]) -> Tree:
    return [(label, text(ask(function, handle, domain), "MHz")) for label, domain in domains.items()]


def _fabric(handle: Any) -> Tree:
    fabric = pynvml.c_nvmlGpuFabricInfoV_t()
    if ask(pynvml.nvmlDeviceGetGpuFabricInfoV, handle, pynvml.byref(fabric)) is None:
        return [("State", NOT_AVAILABLE), ("Status", NOT_AVAILABLE)]
    if fabric.state != pynvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        return [("State", _FABRIC_STATES[fabric.state]), ("Status", NOT_AVAILABLE)]
    return [("State", "Completed"), ("Status", str(pynvml.nvmlErrorString(fabric.status)))]


def _processes(handle: Any) -> str | Tree:
    found = processes_of(handle)
    if not found:
        return "None"
    return [
        line
        for process in found
        for line in (
            ("GPU instance ID", process.gpu_instance),
            ("Compute instance ID", process.compute_instance),
            ("Process ID", str(process.pid)),
            ("    Type", process.kind),
            ("    Name", process.name),
            ("    Used GPU Memory", mib(process.used_bytes)),
        )
    ]
