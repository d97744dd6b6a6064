"""A machine as a CDI specification: what a container runtime gives to a container so that it sees some of the GPUs.

Source: the layout of specifications: container-device-interface v1.0.1, SPEC.md, version 0.5.0.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .errors import InputError
from .tree import SEGMENT, device_nodes

if TYPE_CHECKING:
    from .gpu import Gpu
    from .machine import Machine

DEFAULT_KIND: Final = "nvidia.com/gpu"
_VERSION: Final = "0.5.0"
_INSIDE: Final = "/opt/fakegpu"
"""The machine's folder in a container; the library finds the segment beside its own folder."""

_NAME: Final = r"[A-Za-z]([A-Za-z0-9_{}-]*[A-Za-z0-9])?"
_KIND: Final = re.compile(f"{_NAME.format('.')}/{_NAME.format('')}")


def cdi_spec(machine: Machine, kind: str = DEFAULT_KIND) -> dict[str, Any]:
    """Describe a machine's GPUs, by UUID and by index, and ``all`` of them.

    Device nodes are bind mounts of the machine's plain files, since making real nodes needs a privilege.

    Args:
        machine: Its folder must stay where it is while containers use it.
        kind: Vendor and class of the devices, such as ``nvidia.com/gpu``.

    Raises:
        InputError: the kind is none.
    """
    if not _KIND.fullmatch(kind):
        raise InputError(f"no CDI kind '{kind}': write VENDOR/CLASS, such as {DEFAULT_KIND}")
    gpus = machine.gpus
    named = [(gpu.uuid, [gpu]) for gpu in gpus] + [(str(gpu.index), [gpu]) for gpu in gpus] + [("all", list(gpus))]
    shared = [name for name in device_nodes(machine.directory) if not re.fullmatch(r"nvidia\d+", name)]
    library = f"{_INSIDE}/lib/{machine.library.name}"
    return {
        "cdiVersion": _VERSION,
        "kind": kind,
        "devices": [{"name": name, "containerEdits": {"mounts": _nodes(machine, some)}} for name, some in named],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "FAKEGPU_DEV=/dev", f"LD_LIBRARY_PATH={_INSIDE}/lib"],
            "mounts": [
                _mount(machine.library, library),
                _mount(machine.directory / SEGMENT, f"{_INSIDE}/{SEGMENT}"),
                *(_device(machine, name) for name in shared),
            ],
        },
    }


def _nodes(machine: Machine, gpus: list[Gpu]) -> list[dict[str, Any]]:
    return [_device(machine, f"nvidia{gpu.minor}") for gpu in gpus]


def _device(machine: Machine, name: str) -> dict[str, Any]:
    return _mount(machine.dev / name, f"/dev/{name}")


def _mount(place: Path, inside: str) -> dict[str, Any]:
    return {"hostPath": str(place), "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}
