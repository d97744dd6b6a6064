"""A machine as a CDI specification: what a container runtime gives to a container so that it sees some of the GPUs.

Source: the layout of specifications: container-device-interface v1.0.1, SPEC.md, version 0.5.0.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .tree import SEGMENT, SHARED_DEVICES

if TYPE_CHECKING:
    from .machine import Machine

_VERSION: Final = "0.5.0"
_INSIDE: Final = "/opt/fakegpu"
"""The machine's folder in a container; the library finds the segment beside its own folder."""


def cdi_spec(machine: Machine, kind: str) -> dict[str, Any]:
    """Describe a machine's GPUs, by UUID, and ``all`` of them.

    Args:
        machine: Its folder must stay where it is while containers use it.
        kind: Vendor and class of the devices, such as ``nvidia.com/gpu``.
    """
    nodes = {gpu.uuid: _device(machine, f"nvidia{gpu.minor}") for gpu in machine.gpus}
    devices = [*((uuid, [node]) for uuid, node in nodes.items()), ("all", list(nodes.values()))]
    library = f"{_INSIDE}/lib/{machine.library.name}"
    return {
        "cdiVersion": _VERSION,
        "kind": kind,
        "devices": [{"name": name, "containerEdits": {"mounts": mounts}} for name, mounts in devices],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "FAKEGPU_DEV=/dev", f"LD_LIBRARY_PATH={_INSIDE}/lib"],
            "mounts": [
                _mount(machine.library, library),
                _mount(machine.directory / SEGMENT, f"{_INSIDE}/{SEGMENT}"),
                *(_device(machine, name) for name in SHARED_DEVICES),
            ],
        },
    }


def _device(machine: Machine, name: str) -> dict[str, Any]:
    return _mount(machine.dev / name, f"/dev/{name}")


def _mount(place: Path, inside: str) -> dict[str, Any]:
    return {"hostPath": str(place), "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}
