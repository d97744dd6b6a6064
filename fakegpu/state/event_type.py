"""The NVML events that a fake GPU can send."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class EventType(StrEnum):
    """An event by the name that profiles use."""

    SINGLE_BIT_ECC = "singleBitEcc"
    DOUBLE_BIT_ECC = "doubleBitEcc"
    PSTATE = "pstate"
    XID = "xid"
    CLOCK = "clock"
    POWER_SOURCE = "powerSource"
    MIG_CONFIG = "migConfig"
    SINGLE_BIT_ECC_STORM = "singleBitEccStorm"
    DRAM_RETIREMENT = "dramRetirement"
    DRAM_RETIREMENT_FAILURE = "dramRetirementFailure"
    NON_FATAL_POISON = "nonFatalPoison"
    FATAL_POISON = "fatalPoison"
    GPU_UNAVAILABLE = "gpuUnavailable"
    GPU_RECOVERY = "gpuRecovery"

    @property
    def nvml_bit(self) -> int:
        """Its ``nvmlEventType*`` in nvml.h."""
        return _NVML_BITS[self]


_NVML_BITS: Final = {
    EventType.SINGLE_BIT_ECC: 0x1,
    EventType.DOUBLE_BIT_ECC: 0x2,
    EventType.PSTATE: 0x4,
    EventType.XID: 0x8,
    EventType.CLOCK: 0x10,
    EventType.POWER_SOURCE: 0x80,
    EventType.MIG_CONFIG: 0x100,
    EventType.SINGLE_BIT_ECC_STORM: 0x200,
    EventType.DRAM_RETIREMENT: 0x400,
    EventType.DRAM_RETIREMENT_FAILURE: 0x800,
    EventType.NON_FATAL_POISON: 0x1000,
    EventType.FATAL_POISON: 0x2000,
    EventType.GPU_UNAVAILABLE: 0x4000,
    EventType.GPU_RECOVERY: 0x8000,
}
