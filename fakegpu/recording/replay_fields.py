"""Which call of a recording has which number or text of a GPU's state, and its recorded answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from .survey import Answers

_MEMORY: Final = "nvmlDeviceGetMemoryInfo 33554472"
PCI: Final = "nvmlDeviceGetPciInfo"
_REMAP: Final = "nvmlDeviceGetRowRemapperHistogram"
_MEMORY_TEMPERATURE: Final = "nvmlDeviceGetFieldValues 82"

NVLINK_GENERATIONS: Final = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5, 8: 6}
"""NVML numbers minor versions too; nvml.h, nvmlNvlinkVersion_t."""

Pick = Callable[[Any], Any]
"""What of an answer is meant."""


def same(answer: Any) -> Any:
    """The whole answer."""
    return answer


def _at(*path: int | str) -> Pick:
    def pick(answer: Any) -> Any:
        for step in path:
            answer = answer[step]
        return answer

    return pick


TEXTS: Final = {
    "name": "nvmlDeviceGetName",
    "uuid": "nvmlDeviceGetUUID",
    "serial": "nvmlDeviceGetSerial",
    "part_number": "nvmlDeviceGetBoardPartNumber",
    "vbios_version": "nvmlDeviceGetVbiosVersion",
    "inforom_image": "nvmlDeviceGetInforomImageVersion",
    "inforom_oem": "nvmlDeviceGetInforomVersion 0",
    "inforom_ecc": "nvmlDeviceGetInforomVersion 1",
    "inforom_power": "nvmlDeviceGetInforomVersion 2",
    "gsp_firmware": "nvmlDeviceGetGspFirmwareVersion",
}
"""Texts of the identity by the call that has each."""

NUMBERS: Final[dict[tuple[str, str], tuple[str, Pick]]] = {
    ("fault", "supported_events"): ("nvmlDeviceGetSupportedEventTypes", same),
    ("identity", "minor_number"): ("nvmlDeviceGetMinorNumber", same),
    ("identity", "brand"): ("nvmlDeviceGetBrand", same),
    ("identity", "architecture"): ("nvmlDeviceGetArchitecture", same),
    ("identity", "board_id"): ("nvmlDeviceGetBoardId", same),
    ("identity", "module_id"): ("nvmlDeviceGetModuleId", same),
    ("identity", "compute_major"): ("nvmlDeviceGetCudaComputeCapability", _at(0)),
    ("identity", "compute_minor"): ("nvmlDeviceGetCudaComputeCapability", _at(1)),
    ("identity", "core_count"): ("nvmlDeviceGetNumGpuCores", same),
    ("pci", "domain"): (PCI, _at("domain")),
    ("pci", "bus"): (PCI, _at("bus")),
    ("pci", "device"): (PCI, _at("device")),
    ("pci", "device_id"): (PCI, _at("pciDeviceId")),
    ("pci", "subsystem_id"): (PCI, _at("pciSubSystemId")),
    ("pci", "link_generation"): ("nvmlDeviceGetCurrPcieLinkGeneration", same),
    ("pci", "link_generation_max"): ("nvmlDeviceGetMaxPcieLinkGeneration", same),
    ("pci", "gpu_link_generation_max"): ("nvmlDeviceGetGpuMaxPcieLinkGeneration", same),
    ("pci", "link_width"): ("nvmlDeviceGetCurrPcieLinkWidth", same),
    ("pci", "link_width_max"): ("nvmlDeviceGetMaxPcieLinkWidth", same),
    ("pci", "replay_count"): ("nvmlDeviceGetPcieReplayCounter", same),
    ("pci", "tx_kb_per_s"): ("nvmlDeviceGetPcieThroughput 0", same),
    ("pci", "rx_kb_per_s"): ("nvmlDeviceGetPcieThroughput 1", same),
    ("pci", "irq"): ("nvmlDeviceGetIrqNum", same),
    ("memory", "total_bytes"): (_MEMORY, _at("total")),
    ("memory", "reserved_bytes"): (_MEMORY, lambda memory: memory["total"] - memory["free"] - memory["used"]),
    ("memory", "used_bytes"): (_MEMORY, _at("used")),
    ("memory", "bar1_total_bytes"): ("nvmlDeviceGetBAR1MemoryInfo", _at("bar1Total")),
    ("memory", "bar1_used_bytes"): ("nvmlDeviceGetBAR1MemoryInfo", _at("bar1Used")),
    ("memory", "bus_width_bits"): ("nvmlDeviceGetMemoryBusWidth", same),
    ("thermal", "gpu_c"): ("nvmlDeviceGetTemperature 0", same),
    ("thermal", "memory_c"): (_MEMORY_TEMPERATURE, same),
    ("thermal", "has_memory_sensor"): (_MEMORY_TEMPERATURE, lambda _: 1),
    ("fans", "count"): ("nvmlDeviceGetNumFans", same),
    ("fans", "min_percent"): ("nvmlDeviceGetMinMaxFanSpeed", _at(0)),
    ("fans", "max_percent"): ("nvmlDeviceGetMinMaxFanSpeed", _at(1)),
    ("power", "usage_mw"): ("nvmlDeviceGetPowerUsage", same),
    ("power", "limit_mw"): ("nvmlDeviceGetPowerManagementLimit", same),
    ("power", "default_limit_mw"): ("nvmlDeviceGetPowerManagementDefaultLimit", same),
    ("power", "limit_min_mw"): ("nvmlDeviceGetPowerManagementLimitConstraints", _at(0)),
    ("power", "limit_max_mw"): ("nvmlDeviceGetPowerManagementLimitConstraints", _at(1)),
    ("power", "memory_usage_mw"): ("nvmlDeviceGetFieldValues 185 2", same),
    ("power", "energy_mj"): ("nvmlDeviceGetTotalEnergyConsumption", same),
    ("module_power", "usage_mw"): ("nvmlDeviceGetFieldValues 186 1", same),
    ("module_power", "limit_mw"): ("nvmlDeviceGetFieldValues 190 1", same),
    ("module_power", "default_limit_mw"): ("nvmlDeviceGetFieldValues 189 1", same),
    ("module_power", "limit_min_mw"): ("nvmlDeviceGetFieldValues 187 1", same),
    ("module_power", "limit_max_mw"): ("nvmlDeviceGetFieldValues 188 1", same),
    ("clocks", "performance_state"): ("nvmlDeviceGetPerformanceState", same),
    ("clocks", "event_reasons"): ("nvmlDeviceGetCurrentClocksEventReasons", same),
    ("clocks", "supported_event_reasons"): ("nvmlDeviceGetSupportedClocksEventReasons", same),
    ("clocks", "anyone_sets_applications_clocks"): ("nvmlDeviceGetAPIRestriction 0", lambda is_root: not is_root),
    ("utilization", "gpu_percent"): ("nvmlDeviceGetUtilizationRates", _at("gpu")),
    ("utilization", "memory_percent"): ("nvmlDeviceGetUtilizationRates", _at("memory")),
    ("utilization", "encoder_percent"): ("nvmlDeviceGetEncoderUtilization", _at(0)),
    ("utilization", "decoder_percent"): ("nvmlDeviceGetDecoderUtilization", _at(0)),
    ("utilization", "jpeg_percent"): ("nvmlDeviceGetJpgUtilization", _at(0)),
    ("utilization", "ofa_percent"): ("nvmlDeviceGetOfaUtilization", _at(0)),
    ("utilization", "has_jpeg"): ("nvmlDeviceGetJpgUtilization", lambda _: 1),
    ("utilization", "has_ofa"): ("nvmlDeviceGetOfaUtilization", lambda _: 1),
    ("utilization", "has_encoder"): ("nvmlDeviceGetEncoderCapacity 0", lambda _: 1),
    ("utilization", "period_us"): ("nvmlDeviceGetDecoderUtilization", _at(1)),
    ("ecc", "is_supported"): ("nvmlDeviceGetEccMode", lambda _: 1),
    ("ecc", "current"): ("nvmlDeviceGetEccMode", _at(0)),
    ("ecc", "pending"): ("nvmlDeviceGetEccMode", _at(1)),
    ("ecc", "default_mode"): ("nvmlDeviceGetDefaultEccMode", lambda mode: mode[0] if isinstance(mode, list) else mode),
    ("remap", "is_supported"): (_REMAP, lambda _: 1),
    ("remap", "corrected_rows"): ("nvmlDeviceGetRemappedRows", _at(0)),
    ("remap", "uncorrected_rows"): ("nvmlDeviceGetRemappedRows", _at(1)),
    ("remap", "is_pending"): ("nvmlDeviceGetRemappedRows", _at(2)),
    ("remap", "has_failed"): ("nvmlDeviceGetRemappedRows", _at(3)),
    ("remap", "banks_max"): (_REMAP, _at("max")),
    ("remap", "banks_high"): (_REMAP, _at("high")),
    ("remap", "banks_partial"): (_REMAP, _at("partial")),
    ("remap", "banks_low"): (_REMAP, _at("low")),
    ("remap", "banks_none"): (_REMAP, _at("none")),
    ("modes", "persistence"): ("nvmlDeviceGetPersistenceMode", same),
    ("modes", "compute"): ("nvmlDeviceGetComputeMode", same),
    ("modes", "display"): ("nvmlDeviceGetDisplayMode", same),
    ("modes", "display_active"): ("nvmlDeviceGetDisplayActive", same),
    ("modes", "accounting"): ("nvmlDeviceGetAccountingMode", same),
    ("modes", "mig_supported"): ("nvmlDeviceGetMigMode", lambda _: 1),
    ("modes", "addressing"): ("nvmlDeviceGetAddressingMode", same),
    ("modes", "virtualization"): ("nvmlDeviceGetVirtualizationMode", same),
    ("fabric", "is_supported"): ("nvmlDeviceGetGpuFabricInfo", lambda _: 1),
    ("fabric", "state"): ("nvmlDeviceGetGpuFabricInfo", _at("state")),
    ("fabric", "status"): ("nvmlDeviceGetGpuFabricInfo", _at("status")),
    ("fabric", "clique_id"): ("nvmlDeviceGetGpuFabricInfo", _at("cliqueId")),
    ("fabric", "health_mask"): ("nvmlDeviceGetGpuFabricInfoV", _at("healthMask")),
    ("fabric", "health_summary"): ("nvmlDeviceGetGpuFabricInfoV", _at("healthSummary")),
    ("nvlink", "low_power_threshold"): ("nvmlDeviceGetFieldValues 168", same),
    ("counters", "nvlink_tx_kib"): ("nvmlDeviceGetFieldValues 138 4294967295", same),
    ("counters", "nvlink_rx_kib"): ("nvmlDeviceGetFieldValues 139 4294967295", same),
    ("counters", "pcie_tx_bytes"): ("nvmlDeviceGetFieldValues 197", same),
    ("counters", "pcie_rx_bytes"): ("nvmlDeviceGetFieldValues 198", same),
    ("firmware", "flushed_at_us"): ("nvmlDeviceGetLastBBXFlushTime", _at(0)),
    ("firmware", "flush_us"): ("nvmlDeviceGetLastBBXFlushTime", _at(1)),
    ("firmware", "pdi"): ("nvmlDeviceGetPdi", same),
    ("firmware", "inforom_checksum"): ("nvmlDeviceGetInforomConfigurationChecksum", same),
    ("firmware", "c2c"): ("nvmlDeviceGetC2cModeInfoV", lambda info: info["isC2cEnabled"] + 1),
}
"""Numbers of the state by the call that has each, and what of its answer."""


class RecordedAnswers:
    """Answers of one subject, where a refusal counts as nothing.

    Attributes:
        call: whose answer was taken last; "" before the first.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.call = ""

    def of(self, call: str) -> Any:
        """The answer; None without one."""
        self.call = call
        answer = self._answers.get(call)
        return None if isinstance(answer, dict) and answer.keys() == {"error"} else answer

    def text(self, call: str) -> bytes:
        """The answer as a text, which a driver has in ASCII alone."""
        return str(self.of(call) or "").encode("ascii", errors="replace")

    def number(self, call: str, pick: Pick = same) -> int:
        """A number in the answer; 0 without one."""
        answer = self.of(call)
        return 0 if answer is None else int(pick(answer))

    def items(self, call: str) -> list[Any]:
        """The answer as a list."""
        found = self.of(call)
        return found if isinstance(found, list) else []


def put(holder: Any, place: str | int, number: int) -> None:
    """Set a member of a struct, or an element of an array; by themselves these keep what fits of a number.

    Raises:
        OverflowError: the number does not fit.
    """
    if isinstance(place, str):
        setattr(holder, place, number)
        kept = getattr(holder, place)
    else:
        holder[place] = number
        kept = holder[place]
    if kept != number:
        raise OverflowError(f"{number} is out of range")


def put_all(array: Any, numbers: Iterable[int]) -> None:
    """Set the first elements of an array.

    Raises:
        OverflowError: a number does not fit.
        IndexError: there are more numbers than elements.
    """
    for position, number in enumerate(numbers):
        put(array, position, number)
