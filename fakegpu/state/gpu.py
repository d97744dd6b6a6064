"""One GPU of a machine as it was at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from . import layout

_SLOWDOWN: Final = 1
"""``NVML_TEMPERATURE_THRESHOLD_SLOWDOWN``."""
_VOLATILE: Final = 0
"""``NVML_VOLATILE_ECC``: since the driver was loaded."""


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
        faults: all that is wrong with it at this moment, in words; what ``Machine.heal`` ends, and heat.
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
    faults: tuple[str, ...]

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
            faults=tuple(_faults(state)),
        )

    @property
    def sysfs_name(self) -> str:
        """Name of its folder below ``sys/bus/pci/devices``: the PCI address with a four-digit domain, lower case."""
        return self.pci_bus_id[4:].lower()

    @property
    def health(self) -> str:
        """``ok``, or all faults: ``lost, xid 79``."""
        return ", ".join(self.faults) or "ok"


def link_numbers(mask: int) -> str:
    """The NVLinks of a mask: ``0 3``."""
    return " ".join(str(link) for link in range(layout.LINKS_MAX) if mask >> link & 1)


def _faults(state: layout.GpuState) -> Iterator[str]:
    fault, slowdown_c = state.fault, state.thermal.threshold_c[_SLOWDOWN]
    if fault.is_unplugged:
        yield "unplugged"
    elif fault.is_lost:
        yield "lost"
    if fault.xid_count:
        yield f"xid {fault.last_xid}"
    if fault.is_throttled:
        yield "hot"
    elif 0 < slowdown_c <= state.thermal.gpu_c:
        yield f"{state.thermal.gpu_c} °C"
    if fault.links_down:
        yield f"links {link_numbers(fault.links_down)} down"
    for kind, errors in zip(("corrected", "uncorrected"), state.ecc.errors, strict=True):
        if count := sum(errors[_VOLATILE]):
            yield f"ecc {kind} {count}"
    if state.remap.is_pending:
        yield "repair pending"
