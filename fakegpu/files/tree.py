"""The files around the segment that make a folder a machine: library, device nodes, capabilities, PCI folders of sysfs.

Device nodes are plain empty files: making real ones needs a privilege, and what looks for ``/dev/nvidia0`` in a fake
machine looks whether it is there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from ..state import layout
from ..state.gpu import Gpu
from ..state.library import NAME, find_library
from ..state.segment import SEGMENT
from .capabilities import add_capabilities, remove_capabilities, write_shared_capabilities
from .inside import remove_inside, touch_inside
from .pci_folder import gpu_folder, write_gpu_folder, write_switch_folder

_FAKEGPU = __name__.removesuffix(".files.tree")

SAMPLES: Final = "samples.csv"
DRIVER: Final = "driver"
VIEW: Final = "view"
PARTS: Final = frozenset(
    {SEGMENT, "bin", "lib", "dev", "sys", "proc", "etc", "exporter", "profile.yaml", SAMPLES, DRIVER, VIEW}
)
"""All entries at the top of a machine's folder."""

PROGRAMS: Final = {"nvidia-smi": "smi", "nvidia-cuda-mps-control": "machine.mps"}
"""Name in the folder ``bin`` -> our module that it runs."""

SHARED_DEVICES: Final = ("nvidiactl", "nvidia-modeset", "nvidia-uvm", "nvidia-uvm-tools")

_MODULES: Final = """\
nvidia_uvm 2154496 0 - Live 0x0000000000000000 (PO)
nvidia_drm 147456 0 - Live 0x0000000000000000 (PO)
nvidia_modeset 1839104 1 nvidia_drm, Live 0x0000000000000000 (PO)
nvidia 104370176 2 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (PO)
"""
"""The driver's lines of ``/proc/modules``, with the addresses that everybody but root sees."""


_HOST_DEVICES: Final = Path("/proc/devices")
_CHARACTER_DEVICES: Final = """\
195 nvidia
195 nvidia-modeset
195 nvidiactl
508 nvidia-caps-imex-channels
509 nvidia-uvm
510 nvidia-nvswitch
511 nvidia-caps
"""
"""The driver's lines of ``/proc/devices``: but for 195, the numbers are those that a kernel gives away first."""


def write_tree(root: Path, states: Sequence[layout.GpuState], profile_text: str) -> None:
    """Fill the new folder ``root`` with everything but the segment.

    Raises:
        HostError: the library was not built.
        OSError: the host does not let us write.
    """
    (root / "lib").mkdir()
    # A copy, not a link: a later build of the library must not change under the processes of a running machine.
    shutil.copyfile(find_library(), root / "lib" / NAME)
    (root / "profile.yaml").write_text(profile_text, encoding="utf-8")
    (root / "bin").mkdir()
    for name, module in PROGRAMS.items():
        _write_program(root / "bin" / name, f"{_FAKEGPU}.{module}")
    devices = root / "dev"
    devices.mkdir()
    for name in SHARED_DEVICES:
        (devices / name).touch()
    (root / "proc").mkdir()
    (root / "proc" / "modules").write_text(_MODULES, encoding="ascii")
    (root / "proc" / "devices").write_text(_devices(_HOST_DEVICES.read_text(encoding="ascii")), encoding="ascii")
    write_shared_capabilities(root, 1 + max((state.identity.minor_number for state in states), default=0))
    for index, state in enumerate(states):
        write_gpu(root, Gpu.from_state(index, state), state)
    switches = _switches(states)
    if switches:
        (devices / "nvidia-nvswitchctl").touch()
    for number, (address, device_id) in enumerate(switches.items()):
        (devices / f"nvidia-nvswitch{number}").touch()
        write_switch_folder(root, address, device_id, number)


def _devices(of_host: str) -> str:
    """``/proc/devices`` of a host as it is with the driver."""
    characters, blocks = of_host.split("\n\n", 1)
    return f"{characters}\n{_CHARACTER_DEVICES}\n{blocks}"


def _write_program(path: Path, module: str) -> None:
    """Make a program that runs a module with this Python, wherever it is called from and with whatever environment."""
    modules = os.environ.get("PYTHONPATH")
    setting = f": ${{PYTHONPATH={shlex.quote(modules)}}}\nexport PYTHONPATH\n" if modules else ""
    command = f'exec {shlex.quote(sys.executable)} -P -m {module} "$@"\n'
    path.write_text(f"#!/bin/sh\n{setting}{command}", encoding="utf-8")
    path.chmod(0o755)


def device_nodes(root: Path) -> Sequence[str]:
    """Names of everything in the machine's ``dev``, sorted."""
    return sorted(entry.name for entry in (root / "dev").iterdir() if entry.is_file())


def write_gpu(root: Path, gpu: Gpu, state: layout.GpuState) -> None:
    """Make the device node, the capabilities and the PCI folder of one GPU."""
    add_capabilities(root, state)
    touch_inside(root, f"dev/nvidia{gpu.minor}")
    write_gpu_folder(root, gpu, state)


def remove_gpu(root: Path, gpu: Gpu) -> None:
    """Take the device node, the capabilities and the PCI folder of one GPU away, where they are there."""
    remove_capabilities(root, gpu.minor)
    remove_inside(root, f"dev/nvidia{gpu.minor}")
    remove_inside(root, gpu_folder(gpu))


def _switches(states: Iterable[layout.GpuState]) -> dict[str, int]:
    """PCI device ids of the NVSwitches in the server, by address: those that links end in and that have an address."""
    ends = (
        link for state in states for link in state.links if link.is_active and link.remote_type == layout.LINK_TO_SWITCH
    )
    return {
        f"{end.remote_domain:04x}:{end.remote_bus:02x}:{end.remote_device:02x}.0": end.remote_device_id
        for end in ends
        if end.remote_device_id
    }
