"""One GPU of a machine as it was at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from . import layout


@dataclass(frozen=True, slots=True)
class Gpu:
    """What a machine's owner sees of a GPU; read again for news.

    Attributes:
        index: NVML index.
        uuid: ``GPU-`` and five groups of hex digits.
        name: product name.
        minor: number of ``/dev/nvidia<minor>``.
        pci_bus_id: as NVML writes it, ``00000000:1B:00.0``.
        numa_node: node of the nearest CPUs.
        memory_bytes: whole device memory.
        memory_used_bytes: allocated, without what the driver reserves.
        temperature_c: of the GPU, in degrees Celsius.
        is_lost: whether it has fallen off the bus.
        last_xid: the last XID since the GPU was healed; None without one.
    """

    index: int
    uuid: str
    name: str
    minor: int
    pci_bus_id: str
    numa_node: int
    memory_bytes: int
    memory_used_bytes: int
    temperature_c: int
    is_lost: bool
    last_xid: int | None

    @classmethod
    def from_state(cls, index: int, state: layout.GpuState) -> Self:
        """The view of a state."""
        pci = state.pci
        return cls(
            index=index,
            uuid=state.identity.uuid.decode(errors="replace"),
            name=state.identity.name.decode(errors="replace"),
            minor=state.identity.minor_number,
            pci_bus_id=f"{pci.domain:08X}:{pci.bus:02X}:{pci.device:02X}.0",
            numa_node=state.placement.numa_node,
            memory_bytes=state.memory.total_bytes,
            memory_used_bytes=state.memory.used_bytes,
            temperature_c=state.thermal.gpu_c,
            is_lost=bool(state.fault.is_lost),
            last_xid=state.fault.last_xid if state.fault.xid_count else None,
        )

    @property
    def sysfs_name(self) -> str:
        """Name of its folder below ``sys/bus/pci/devices``: the PCI address with a four-digit domain, lower case."""
        return self.pci_bus_id[4:].lower()

    @property
    def health(self) -> str:
        """``ok``, ``lost`` or ``xid <number>``, for people."""
        if self.is_lost:
            return "lost"
        return "ok" if self.last_xid is None else f"xid {self.last_xid}"
