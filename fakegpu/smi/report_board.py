"""The report's last part: heat, power, clocks, the fabric, and who works there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pynvml

from .processes import processes_of
from .reading import NOT_AVAILABLE, Tree, ask, field_value, mib, text, watts

_GRAPHICS, _SM, _MEMORY, _VIDEO = (
    pynvml.NVML_CLOCK_GRAPHICS,
    pynvml.NVML_CLOCK_SM,
    pynvml.NVML_CLOCK_MEM,
    pynvml.NVML_CLOCK_VIDEO,
)
_MODULE: Final = 1
_FABRIC_STATES: Final = ("Not Supported", "Not Started", "In Progress", "Completed")


def tree(handle: Any) -> Tree:
    """The lines from the temperature to the processes."""
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
