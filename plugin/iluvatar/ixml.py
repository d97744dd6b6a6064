"""What Iluvatar's library IXML reports of the chips, read from files that stand for it.

The original loads ``libixml.so``, whose calls are NVML's with two of its own: the position of a chip on its board and
its health. Here each chip has a folder with what these calls answer, below its PCI folder in sysfs::

    /sys/bus/pci/devices/<address>/numa_node
    /sys/bus/pci/devices/<address>/ixml/uuid      GPU-…
    /sys/bus/pci/devices/<address>/ixml/name      of the model
    /sys/bus/pci/devices/<address>/ixml/minor     the number in the name of the device file
    /sys/bus/pci/devices/<address>/ixml/board     a number that chips of one board share
    /sys/bus/pci/devices/<address>/ixml/position  0 or 1 on a board of two chips; missing on any other
    /sys/bus/pci/devices/<address>/ixml/health    bits of errors, 0x0 when there is none

A chip's index is its place in the order of addresses. A chip that is lost has no folder any more.

Source: Deep-Spark/ix-device-plugin, pkg/ixml/device.go (v4.4.0); Deep-Spark/go-ixml, pkg/ixml/api.h.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import FatalError

__all__ = ["Chip", "Ixml"]

_log = logging.getLogger(__name__)

_DEVICES: Final = "bus/pci/devices"
_ERRORS: Final = 0x7F
"""SYSHUB, MC, OverTemp, OverVoltage, ECC, Memory, PCIE."""
_UNKNOWN_MINOR: Final = 100


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip.

    Attributes:
        uuid: Of the chip.
        minor: The number in the name of its device file.
        numa_node: None where nothing is known of it.
        board: A number that chips of one board share; None where nothing is known of it.
        position: On a board of two chips; None on any other.
        address: Of PCI.
    """

    uuid: str
    minor: int
    numa_node: int | None
    board: int | None
    position: int | None
    address: str


class Ixml:
    """The chips below ``/sys``, for which `system` stands.

    Raises:
        FatalError: nothing stands for the library.
    """

    def __init__(self, system: Path) -> None:
        self._devices = system / _DEVICES
        if not any(self._devices.glob("*/ixml")):
            raise FatalError("Failed to init ixml.")

    def chips(self) -> tuple[Chip, ...]:
        """Those that are there, in the order of their indices."""
        found = (_chip(folder.parent) for folder in sorted(self._devices.glob("*/ixml")))
        return tuple(chip for chip in found if chip is not None)

    def is_healthy(self, chip: Chip) -> bool:
        """Whether a chip answers and reports no error."""
        errors = _read(self._devices / chip.address / "ixml" / "health")
        try:
            return not int(errors, 0) & _ERRORS
        except ValueError:
            _log.warning("Unhealthy: dev:%s   err:Failed to get Health status of GPU", chip.uuid)
            return False


def _chip(folder: Path) -> Chip | None:
    uuid = _read(folder / "ixml" / "uuid")
    if not uuid:
        _log.error("Undetected Chip")
        return None
    minor = _number(folder / "ixml" / "minor")
    numa_node = _number(folder / "numa_node")
    return Chip(
        uuid,
        _UNKNOWN_MINOR if minor is None else minor,
        numa_node,
        _number(folder / "ixml" / "board"),
        _number(folder / "ixml" / "position"),
        folder.name,
    )


def _number(path: Path) -> int | None:
    """What a file says, None where it cannot be read or is negative."""
    text = _read(path)
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
