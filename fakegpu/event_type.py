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
    MIG_CONFIG = "migConfig"

    @property
    def nvml_bit(self) -> int:
        """Its ``nvmlEventType*`` in nvml.h."""
        return _NVML_BITS[self]


_NVML_BITS: Final = {
    EventType.SINGLE_BIT_ECC: 0x1,
    EventType.DOUBLE_BIT_ECC: 0x2,
    EventType.PSTATE: 0x4,
    EventType.XID: 0x8,
    EventType.MIG_CONFIG: 0x100,
}
