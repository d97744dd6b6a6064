"""The report's second part: what the GPU does: performance, memory, utilisation."""

from __future__ import annotations

from typing import Any, Final

import pynvml

from .reading import NOT_AVAILABLE, Tree, ask, compute_mode, mib, performance_state, text

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


def tree(handle: Any) -> Tree:
    """The lines from the fan's speed to the frame buffer capture."""
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
