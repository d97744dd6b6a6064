"""The files around the segment that make a folder a machine: library, device nodes, capabilities, PCI folders of sysfs.

Device nodes are plain empty files: making real ones needs a privilege, and what looks for ``/dev/nvidia0`` in a fake
machine looks whether it is there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from . import _layout
from .capabilities import add_capabilities, remove_capabilities, write_shared_capabilities
from .gpu import Gpu
from .library import NAME, find_library

SEGMENT: Final = "segment"
SAMPLES: Final = "samples.csv"
PARTS: Final = frozenset({SEGMENT, "bin", "lib", "dev", "sys", "proc", "etc", "exporter", "profile.yaml", SAMPLES})
"""Everything that lies at the top of a machine's folder."""

SHARED_DEVICES: Final = ("nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools")
_PCI_CLASS_3D: Final = 0x030200
_PCI_CLASS_BRIDGE: Final = 0x068000
# GT/s of one lane by generation, as sysfs writes it.
_LINK_SPEEDS: Final = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}


def write_tree(root: Path, states: Sequence[_layout.GpuState], profile_text: str) -> None:
    """Fills the new folder ``root`` with everything but the segment.

    Raises:
        HostError: the library was not built.
        OSError: the host does not let us write.
    """
    (root / "lib").mkdir()
    # A copy, not a link: a later build of the library must not change under the processes of a running machine.
    shutil.copyfile(find_library(), root / "lib" / NAME)
    (root / "profile.yaml").write_text(profile_text, encoding="utf-8")
    (root / "bin").mkdir()
    _write_program(root / "bin" / "nvidia-smi", f"{__package__}.smi")
    _write_program(root / "bin" / "nvidia-cuda-mps-control", f"{__package__}.mps")
    devices = root / "dev"
    devices.mkdir()
    for name in SHARED_DEVICES:
        (devices / name).touch()
    write_shared_capabilities(root, 1 + max((state.identity.minor_number for state in states), default=0))
    for index, state in enumerate(states):
        write_gpu(root, Gpu.from_state(index, state), state)
    switches = _switches(states)
    if switches:
        (devices / "nvidia-nvswitchctl").touch()
    for number, (address, device_id) in enumerate(switches.items()):
        (devices / f"nvidia-nvswitch{number}").touch()
        _write_folder(_pci_devices(root) / address, _pci_files(device_id, _PCI_CLASS_BRIDGE))


def _write_program(path: Path, module: str) -> None:
    """Makes a program that runs a module with this Python, wherever it is called from and with whatever environment."""
    modules = os.environ.get("PYTHONPATH")
    setting = f": ${{PYTHONPATH={shlex.quote(modules)}}}\nexport PYTHONPATH\n" if modules else ""
    command = f'exec {shlex.quote(sys.executable)} -P -m {module} "$@"\n'
    path.write_text(f"#!/bin/sh\n{setting}{command}", encoding="utf-8")
    path.chmod(0o755)


def device_nodes(root: Path) -> Sequence[str]:
    """Names of everything in the machine's ``dev``, sorted."""
    return sorted(entry.name for entry in (root / "dev").iterdir() if entry.is_file())


def write_gpu(root: Path, gpu: Gpu, state: _layout.GpuState) -> None:
    """Makes the device node, the capabilities and the PCI folder of one GPU."""
    add_capabilities(root, state)
    (root / "dev" / f"nvidia{gpu.minor}").touch()
    pci, cpus = state.pci, state.placement.cpu_mask
    own = {
        "subsystem_vendor": f"0x{pci.subsystem_id & 0xFFFF:04x}",
        "subsystem_device": f"0x{pci.subsystem_id >> 16:04x}",
        "numa_node": f"{state.placement.numa_node}",
        "local_cpulist": _cpu_list(cpus),
        "current_link_speed": _link_speed(pci.link_generation),
        "max_link_speed": _link_speed(pci.link_generation_max),
        "current_link_width": f"{pci.link_width}",
        "max_link_width": f"{pci.link_width_max}",
    }
    _write_folder(pci_folder(root, gpu), _pci_files(pci.device_id, _PCI_CLASS_3D) | own)


def remove_gpu(root: Path, gpu: Gpu) -> None:
    """Takes the device node, the capabilities and the PCI folder of one GPU away, where they are there."""
    remove_capabilities(root, gpu.minor)
    (root / "dev" / f"nvidia{gpu.minor}").unlink(missing_ok=True)
    if pci_folder(root, gpu).exists():
        shutil.rmtree(pci_folder(root, gpu))


def pci_folder(root: Path, gpu: Gpu) -> Path:
    """The sysfs folder of a GPU's PCI function."""
    return _pci_devices(root) / gpu.sysfs_name


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


def _pci_devices(root: Path) -> Path:
    return root / "sys" / "bus" / "pci" / "devices"


def _switches(states: Iterable[_layout.GpuState]) -> dict[str, int]:
    """PCI device ids of the NVSwitches in the server, by address: those that links end in and that have an address."""
    ends = (
        link
        for state in states
        for link in state.links
        if link.is_active and link.remote_type == _layout.LINK_TO_SWITCH
    )
    return {
        f"{end.remote_domain:04x}:{end.remote_bus:02x}:{end.remote_device:02x}.0": end.remote_device_id
        for end in ends
        if end.remote_device_id
    }


def _link_speed(generation: int) -> str:
    return f"{_LINK_SPEEDS[generation]} GT/s PCIe" if generation in _LINK_SPEEDS else "Unknown"


def _pci_files(device_id: int, pci_class: int) -> dict[str, str]:
    return {
        "vendor": f"0x{device_id & 0xFFFF:04x}",
        "device": f"0x{device_id >> 16:04x}",
        "class": f"0x{pci_class:06x}",
    }


def _cpu_list(mask: Sequence[int]) -> str:
    """CPUs as sysfs lists them: ``0-55,112-167``."""
    cpus = [64 * word + bit for word, bits in enumerate(mask) for bit in range(64) if bits >> bit & 1]
    known = set(cpus)
    firsts = [cpu for cpu in cpus if cpu - 1 not in known]
    lasts = [cpu for cpu in cpus if cpu + 1 not in known]
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in zip(firsts, lasts, strict=True))


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_text(f"{content}\n", encoding="ascii")
