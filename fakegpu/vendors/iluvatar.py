"""Iluvatar chips as files: the device nodes and PCI folders, and what their library IXML reports of each.

::

    dev/iluvatar<minor>  dev/itrctl
    sys/bus/pci/devices/<address>/vendor, device, class, numa_node
    sys/bus/pci/devices/<address>/ixml/uuid      GPU-…
    sys/bus/pci/devices/<address>/ixml/name      of the model
    sys/bus/pci/devices/<address>/ixml/minor     the number in the device node's name
    sys/bus/pci/devices/<address>/ixml/board     a number that chips of one board share
    sys/bus/pci/devices/<address>/ixml/position  0 or 1 on a board of two chips; missing on any other
    sys/bus/pci/devices/<address>/ixml/health    bits of errors, 0x0 when there is none

The library itself is not part of it; the folders ``ixml`` stand for it, and ``simkubelet plugin iluvatar`` reads them.

Source: Deep-Spark/go-ixml, pkg/ixml/api.h: ``ixmlDeviceGetHealth``, ``ixmlDeviceGetBoardPosition``.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from ..errors import InputError
from ..files.inside import read_inside, remove_inside, touch_inside, write_all_inside, write_inside

__all__ = ["ECC_ERROR", "IluvatarChip", "iluvatar_files", "remove_iluvatar", "set_health", "write_iluvatar"]

ECC_ERROR: Final = 0x10
_VENDOR: Final = 0x1E3E
_DEVICE: Final = 0x0001
_CLASS: Final = 0x030200
_CHIPS_MAX: Final = 64
_NODES: Final = 2
# A PCI domain that GPUs of other vendors in the same folder do not use.
_DOMAIN: Final = 0x0100
_NAMES: Final = {1: "Iluvatar BI-V100", 2: "Iluvatar BI-V150"}
_SEED: Final = uuid.UUID("0b6d5c1e-7a44-4c53-9a06-9d3c2f1e8b77")


@dataclass(frozen=True, slots=True)
class IluvatarChip:
    """A chip: the minor number of its device node, its UUID and its PCI address."""

    minor: int
    uuid: str
    address: str


def write_iluvatar(root: Path, count: int, chips_per_board: int = 1, seed: str = "iluvatar") -> Sequence[IluvatarChip]:
    """Make ``count`` chips below ``root``, half of them at each of two NUMA nodes; those that are there are replaced.

    Args:
        root: a folder, of a machine or not; made if it is missing.
        count: number of chips.
        chips_per_board: 1 or 2; the last of an odd number is alone on its board of two.
        seed: UUIDs follow from it.

    Raises:
        InputError: a number that cannot be.
    """
    if not 1 <= count <= _CHIPS_MAX:
        raise InputError(f"cannot make {count} chips: 1 to {_CHIPS_MAX}")
    if chips_per_board not in _NAMES:
        raise InputError(f"cannot put {chips_per_board} chips on a board: 1 or 2")
    root.mkdir(parents=True, exist_ok=True)
    root = root.resolve()
    remove_iluvatar(root)
    touch_inside(root, "dev/itrctl")
    chips = []
    for minor in range(count):
        touch_inside(root, f"dev/iluvatar{minor}")
        chip = IluvatarChip(minor, f"GPU-{uuid.uuid5(_SEED, f'{seed}/{minor}')}", f"{_DOMAIN:04x}:{minor + 1:02x}:00.0")
        board, position = divmod(minor, chips_per_board)
        _write_chip(root, chip, board, position if chips_per_board > 1 else None, board * chips_per_board * 2 // count)
        chips.append(chip)
    return chips


def iluvatar_files(root: Path) -> Sequence[Path]:
    """The folders and device nodes of all chips below ``root``."""
    nodes = [*(root / "dev").glob("iluvatar*"), root / "dev" / "itrctl"]
    return [*_folders(root), *(node for node in nodes if node.is_symlink() or node.exists())]


def remove_iluvatar(root: Path) -> None:
    """Remove all chips below ``root``."""
    for path in iluvatar_files(root):
        remove_inside(root.resolve(), path.relative_to(root))


def set_health(root: Path, chip: str, errors: int) -> None:
    """What IXML reports of the chip with this UUID from now on: bits of errors, 0 for none.

    Raises:
        InputError: there is no such chip.
    """
    for folder in _folders(root):
        library = folder.relative_to(root) / "ixml"
        if (read_inside(root, library / "uuid") or "").strip() == chip:
            write_inside(root, library / "health", f"{errors:#x}\n")
            return
    raise InputError(f"no Iluvatar chip '{chip}' in {root}")


def _folders(root: Path) -> Sequence[Path]:
    return sorted(place.parent for place in (root / "sys" / "bus" / "pci" / "devices").glob("*/ixml"))


def _write_chip(root: Path, chip: IluvatarChip, board: int, position: int | None, numa_node: int) -> None:
    folder = PurePath("sys/bus/pci/devices", chip.address)
    files = {
        "vendor": f"0x{_VENDOR:04x}",
        "device": f"0x{_DEVICE:04x}",
        "class": f"0x{_CLASS:06x}",
        "numa_node": f"{numa_node}",
        "ixml/uuid": chip.uuid,
        "ixml/name": _NAMES[1 if position is None else 2],
        "ixml/minor": f"{chip.minor}",
        "ixml/board": f"{board}",
        "ixml/health": "0x0",
    }
    if position is not None:
        files["ixml/position"] = f"{position}"
    for name, content in files.items():
        place = folder / name
        write_all_inside(root, place.parent, {place.name: f"{content}\n"})
