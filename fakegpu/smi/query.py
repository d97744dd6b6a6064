"""``nvidia-smi --query-gpu=… --format=csv``: chosen properties, one GPU a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pynvml

from .reading import MIB, Selected, ask, compute_mode, field_value, performance_state

_OPTIONS: Final = frozenset({"csv", "noheader", "nounits"})
_MISSING: Final = "[N/A]"


class UnknownPropertyError(Exception):
    """A property or a word of the format that there is not."""


def lines(gpus: Selected, wanted: str, form: str | None) -> Iterator[str]:
    """The header, and a line for each GPU.

    Args:
        gpus: which.
        wanted: names of properties with commas between them.
        form: ``csv``, and with commas ``noheader``, ``nounits``.

    Raises:
        UnknownPropertyError: for the first name that is none.
    """
    options = {word.strip() for word in (form or "").split(",")}
    if "csv" not in options or not options <= _OPTIONS:
        raise UnknownPropertyError(f"--format={form or ''}")
    properties = [_find(name.strip()) for name in wanted.split(",")]
    if "noheader" not in options:
        yield ", ".join(f"{name} [{found.unit}]" if found.unit else name for name, found in properties)
    for index, handle in gpus:
        yield ", ".join(_text(found, found.read(index, handle), "nounits" in options) for _, found in properties)


def _find(name: str) -> tuple[str, Property]:
    full = ALIASES.get(name, name)
    if full not in PROPERTIES:
        raise UnknownPropertyError(name)
    return full, PROPERTIES[full]


def _text(found: Property, value: object, without_unit: bool) -> str:
    if value is None:
        return _MISSING
    text = f"{value:.2f}" if isinstance(value, float) else str(value)
    return text if without_unit or not found.unit else f"{text} {found.unit}"


_ON: Final = ("Disabled", "Enabled")


@dataclass(frozen=True, slots=True)
class Property:
    """How one property is read from index and handle of a GPU; None where the GPU does not have it."""

    read: Callable[[int, Any], object]
    unit: str = ""


def _asked(function: Callable[..., Any], *arguments: object, unit: str = "") -> Property:
    return Property(lambda _, handle: ask(function, handle, *arguments), unit)


def _word(function: Callable[..., Any], words: tuple[str, ...] = _ON, part: int | None = None) -> Property:
    def read(_: int, handle: Any) -> object:
        value = ask(function, handle)
        if value is None:
            return None
        return words[value if part is None else value[part]]

    return Property(read)


def _member(function: Callable[..., Any], name: str, unit: str = "", divisor: int = 1, **keywords: object) -> Property:
    def read(_: int, handle: Any) -> object:
        answer = ask(function, handle, **keywords)
        return None if answer is None else getattr(answer, name) // divisor

    return Property(read, unit)


def _part(function: Callable[..., Any], part: int, unit: str = "") -> Property:
    return Property(lambda _, handle: (ask(function, handle) or {}.fromkeys(range(part + 1)))[part], unit)


def _watts(function: Callable[..., Any], part: int | None = None) -> Property:
    def read(_: int, handle: Any) -> object:
        milliwatts = ask(function, handle)
        if milliwatts is None:
            return None
        return (milliwatts if part is None else milliwatts[part]) / 1000

    return Property(read, "W")


def _watts_field(field: int) -> Property:
    def read(_: int, handle: Any) -> object:
        milliwatts = field_value(handle, field)
        return None if milliwatts is None else milliwatts / 1000

    return Property(read, "W")


def _pci(name: str, form: str) -> Property:
    return Property(lambda _, handle: form.format(getattr(pynvml.nvmlDeviceGetPciInfo(handle), name)))


def _clock(function: Callable[..., Any], domain: int) -> Property:
    return _asked(function, domain, unit="MHz")


def _memory(name: str) -> Property:
    return _member(pynvml.nvmlDeviceGetMemoryInfo, name, "MiB", MIB, version=pynvml.nvmlMemory_v2)


def _errors(kind: int, counter: int) -> Property:
    return _asked(pynvml.nvmlDeviceGetTotalEccErrors, kind, counter)


def _pages(cause: int) -> Property:
    def read(_: int, handle: Any) -> object:
        pages = ask(pynvml.nvmlDeviceGetRetiredPages, handle, cause)
        return None if pages is None else len(pages)

    return Property(read)


def _timestamp(_index: int, _handle: Any) -> str:
    now = datetime.now()
    return f"{now:%Y/%m/%d %H:%M:%S}.{now.microsecond // 1000:03}"


def _capability(_: int, handle: Any) -> object:
    version = ask(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    return None if version is None else "{}.{}".format(*version)


def _state(_: int, handle: Any) -> str:
    return performance_state(handle)


def _reasons(_: int, handle: Any) -> object:
    reasons = ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    return None if reasons is None else f"0x{reasons:016X}"


_CORRECTED: Final = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
_UNCORRECTED: Final = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED

PROPERTIES: Final[dict[str, Property]] = {
    "timestamp": Property(_timestamp),
    "driver_version": Property(lambda _, __: pynvml.nvmlSystemGetDriverVersion()),
    "count": Property(lambda _, __: pynvml.nvmlDeviceGetCount()),
    "name": _asked(pynvml.nvmlDeviceGetName),
    "serial": _asked(pynvml.nvmlDeviceGetSerial),
    "uuid": _asked(pynvml.nvmlDeviceGetUUID),
    "index": Property(lambda index, _: index),
    "pci.bus_id": _pci("busId", "{}"),
    "pci.domain": _pci("domain", "0x{:04X}"),
    "pci.bus": _pci("bus", "0x{:02X}"),
    "pci.device": _pci("device", "0x{:02X}"),
    "pci.device_id": _pci("pciDeviceId", "0x{:08X}"),
    "pci.sub_device_id": _pci("pciSubSystemId", "0x{:08X}"),
    "pcie.link.gen.current": _asked(pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
    "pcie.link.gen.gpucurrent": _asked(pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
    "pcie.link.gen.max": _asked(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
    "pcie.link.gen.gpumax": _asked(pynvml.nvmlDeviceGetGpuMaxPcieLinkGeneration),
    "pcie.link.gen.hostmax": _asked(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
    "pcie.link.width.current": _asked(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
    "pcie.link.width.max": _asked(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
    "display_mode": _word(pynvml.nvmlDeviceGetDisplayMode),
    "display_active": _word(pynvml.nvmlDeviceGetDisplayActive),
    "persistence_mode": _word(pynvml.nvmlDeviceGetPersistenceMode),
    "accounting.mode": _word(pynvml.nvmlDeviceGetAccountingMode),
    "accounting.buffer_size": _asked(pynvml.nvmlDeviceGetAccountingBufferSize),
    "vbios_version": _asked(pynvml.nvmlDeviceGetVbiosVersion),
    "inforom.img": _asked(pynvml.nvmlDeviceGetInforomImageVersion),
    "inforom.oem": _asked(pynvml.nvmlDeviceGetInforomVersion, pynvml.NVML_INFOROM_OEM),
    "inforom.ecc": _asked(pynvml.nvmlDeviceGetInforomVersion, pynvml.NVML_INFOROM_ECC),
    "inforom.pwr": _asked(pynvml.nvmlDeviceGetInforomVersion, pynvml.NVML_INFOROM_POWER),
    "fan.speed": _asked(pynvml.nvmlDeviceGetFanSpeed, unit="%"),
    "pstate": Property(_state),
    "clocks_event_reasons.active": Property(_reasons),
    "memory.total": _memory("total"),
    "memory.reserved": _memory("reserved"),
    "memory.used": _memory("used"),
    "memory.free": _memory("free"),
    "compute_mode": Property(lambda _, handle: compute_mode(handle)),
    "compute_cap": Property(_capability),
    "utilization.gpu": _member(pynvml.nvmlDeviceGetUtilizationRates, "gpu", "%"),
    "utilization.memory": _member(pynvml.nvmlDeviceGetUtilizationRates, "memory", "%"),
    "utilization.encoder": _part(pynvml.nvmlDeviceGetEncoderUtilization, 0, "%"),
    "utilization.decoder": _part(pynvml.nvmlDeviceGetDecoderUtilization, 0, "%"),
    "encoder.stats.sessionCount": _part(pynvml.nvmlDeviceGetEncoderStats, 0),
    "encoder.stats.averageFps": _part(pynvml.nvmlDeviceGetEncoderStats, 1),
    "encoder.stats.averageLatency": _part(pynvml.nvmlDeviceGetEncoderStats, 2),
    "ecc.mode.current": _word(pynvml.nvmlDeviceGetEccMode, part=0),
    "ecc.mode.pending": _word(pynvml.nvmlDeviceGetEccMode, part=1),
    "ecc.errors.corrected.volatile.total": _errors(_CORRECTED, pynvml.NVML_VOLATILE_ECC),
    "ecc.errors.corrected.aggregate.total": _errors(_CORRECTED, pynvml.NVML_AGGREGATE_ECC),
    "ecc.errors.uncorrected.volatile.total": _errors(_UNCORRECTED, pynvml.NVML_VOLATILE_ECC),
    "ecc.errors.uncorrected.aggregate.total": _errors(_UNCORRECTED, pynvml.NVML_AGGREGATE_ECC),
    "retired_pages.single_bit_ecc.count": _pages(pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
    "retired_pages.double_bit.count": _pages(pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
    "retired_pages.pending": _word(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, ("No", "Yes")),
    "temperature.gpu": _asked(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
    "temperature.gpu.tlimit": _asked(pynvml.nvmlDeviceGetMarginTemperature),
    "temperature.memory": Property(lambda _, handle: field_value(handle, pynvml.NVML_FI_DEV_MEMORY_TEMP)),
    "power.management": _word(pynvml.nvmlDeviceGetPowerManagementMode),
    "power.draw": _watts(pynvml.nvmlDeviceGetPowerUsage),
    "power.draw.average": _watts_field(pynvml.NVML_FI_DEV_POWER_AVERAGE),
    "power.draw.instant": _watts_field(pynvml.NVML_FI_DEV_POWER_INSTANT),
    "power.limit": _watts(pynvml.nvmlDeviceGetPowerManagementLimit),
    "enforced.power.limit": _watts(pynvml.nvmlDeviceGetEnforcedPowerLimit),
    "power.default_limit": _watts(pynvml.nvmlDeviceGetPowerManagementDefaultLimit),
    "power.min_limit": _watts(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, 0),
    "power.max_limit": _watts(pynvml.nvmlDeviceGetPowerManagementLimitConstraints, 1),
    "clocks.current.graphics": _clock(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_GRAPHICS),
    "clocks.current.sm": _clock(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
    "clocks.current.memory": _clock(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
    "clocks.current.video": _clock(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_VIDEO),
    "clocks.applications.graphics": _clock(pynvml.nvmlDeviceGetApplicationsClock, pynvml.NVML_CLOCK_GRAPHICS),
    "clocks.applications.memory": _clock(pynvml.nvmlDeviceGetApplicationsClock, pynvml.NVML_CLOCK_MEM),
    "clocks.default_applications.graphics": _clock(
        pynvml.nvmlDeviceGetDefaultApplicationsClock, pynvml.NVML_CLOCK_GRAPHICS
    ),
    "clocks.default_applications.memory": _clock(pynvml.nvmlDeviceGetDefaultApplicationsClock, pynvml.NVML_CLOCK_MEM),
    "clocks.max.graphics": _clock(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_GRAPHICS),
    "clocks.max.sm": _clock(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
    "clocks.max.memory": _clock(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_MEM),
    "mig.mode.current": _word(pynvml.nvmlDeviceGetMigMode, part=0),
    "mig.mode.pending": _word(pynvml.nvmlDeviceGetMigMode, part=1),
}

ALIASES: Final = {
    "gpu_name": "name",
    "gpu_serial": "serial",
    "gpu_uuid": "uuid",
    "gpu_bus_id": "pci.bus_id",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.applications.mem": "clocks.applications.memory",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
}
"""Other names of properties, which the header gives in full."""
