"""Iluvatar GPUs as files: the device nodes and PCI folders that their device plugin names in its answers.

::

    dev/iluvatar<n>  dev/itrctl
    sys/bus/pci/devices/<address>/…

Their management library, IXML, is not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from .errors import InputError

_VENDOR: Final = 0x1E3E
_DEVICE: Final = 0x0001
_CLASS: Final = 0x030200
_CHIPS_MAX: Final = 64
_NODES: Final = 2
# A PCI domain that GPUs of other vendors in the same folder do not use.
_DOMAIN: Final = 0x0100


def write_iluvatar(root: Path, count: int) -> Sequence[str]:
    """Makes ``count`` chips below ``root``, half of them at each of two NUMA nodes.

    Returns:
        Names of the device nodes of the chips.

    Raises:
        InputError: a number that cannot be.
    """
    if not 1 <= count <= _CHIPS_MAX:
        raise InputError(f"cannot make {count} chips: 1 to {_CHIPS_MAX}")
    nodes = root / "dev"
    nodes.mkdir(parents=True, exist_ok=True)
    (nodes / "itrctl").touch()
    for chip in range(count):
        (nodes / f"iluvatar{chip}").touch()
        folder = root / "sys" / "bus" / "pci" / "devices" / f"{_DOMAIN:04x}:{chip + 1:02x}:00.0"
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            "vendor": f"0x{_VENDOR:04x}",
            "device": f"0x{_DEVICE:04x}",
            "class": f"0x{_CLASS:06x}",
            "numa_node": f"{chip * _NODES // count}",
        }
        for name, content in files.items():
            (folder / name).write_text(f"{content}\n", encoding="ascii")
    return [f"iluvatar{chip}" for chip in range(count)]
