"""The files around the segment that make a folder a machine: library, device nodes, PCI folders of sysfs.

Device nodes are plain empty files: making real ones needs a privilege, and what looks for ``/dev/nvidia0`` in a fake
machine looks whether it is there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from . import _layout
from .gpu import Gpu
from .library import NAME, find_library

SEGMENT: Final = "segment"
PARTS: Final = frozenset({SEGMENT, "lib", "dev", "sys", "profile.yaml"})
"""Everything that lies at the top of a machine's folder."""

_PCI_CLASS_3D: Final = 0x030200
SHARED_DEVICES: Final = ("nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools")


def write_tree(root: Path, states: Iterable[_layout.GpuState], profile_text: str) -> None:
    """Fills the new folder ``root`` with everything but the segment.

    Raises:
        HostError: the library was not built.
        OSError: the host does not let us write.
    """
    (root / "lib").mkdir()
    # A copy, not a link: a later build of the library must not change under the processes of a running machine.
    shutil.copyfile(find_library(), root / "lib" / NAME)
    (root / "profile.yaml").write_text(profile_text, encoding="utf-8")
    devices = root / "dev"
    devices.mkdir()
    for name in SHARED_DEVICES:
        (devices / name).touch()
    for index, state in enumerate(states):
        gpu = Gpu.from_state(index, state)
        (devices / f"nvidia{gpu.minor}").touch()
        _write_pci_folder(pci_folder(root, gpu), state)


def pci_folder(root: Path, gpu: Gpu) -> Path:
    """The sysfs folder of a GPU's PCI function."""
    return root / "sys" / "bus" / "pci" / "devices" / gpu.sysfs_name


def write_numa_node(root: Path, gpu: Gpu) -> None:
    """Lets sysfs tell the NUMA node that ``gpu`` has: a reader finds the old one or the new one, no empty file."""
    folder = pci_folder(root, gpu)
    file, name = tempfile.mkstemp(prefix=".numa_node.", dir=folder)
    try:
        with os.fdopen(file, "w", encoding="ascii") as draft:
            draft.write(f"{gpu.numa_node}\n")
            os.fchmod(draft.fileno(), 0o644)
        Path(name).replace(folder / "numa_node")
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_pci_folder(folder: Path, state: _layout.GpuState) -> None:
    folder.mkdir(parents=True)
    pci = state.pci
    for name, content in {
        "vendor": f"0x{pci.device_id & 0xFFFF:04x}",
        "device": f"0x{pci.device_id >> 16:04x}",
        "subsystem_vendor": f"0x{pci.subsystem_id & 0xFFFF:04x}",
        "subsystem_device": f"0x{pci.subsystem_id >> 16:04x}",
        "class": f"0x{_PCI_CLASS_3D:06x}",
        "numa_node": f"{state.placement.numa_node}",
        "current_link_width": f"{pci.link_width}",
        "max_link_width": f"{pci.link_width_max}",
    }.items():
        (folder / name).write_text(f"{content}\n", encoding="ascii")
