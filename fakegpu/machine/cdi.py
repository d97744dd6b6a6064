"""A machine as a CDI specification: what a container runtime gives to a container so that it sees some of the GPUs.

Devices are those that ``nvidia-ctk cdi generate`` names: GPUs by UUID and by index, MIG devices by UUID and as
``0:1``, and ``all`` of them. A GPU in MIG mode is given by its MIG devices only.

`make_cdi_hook` makes a stand-in for ``nvidia-cdi-hook`` and ``nvidia-ctk hook``, which NVIDIA's specifications name for
their hooks. An OCI runtime runs it while it creates a container: it makes the links that it is given. The rest, the
cache of the loader for one, is left: the driver's libraries lie where a loader looks anyway.

Source: the layout of specifications: container-device-interface v1.0.1, SPEC.md, version 0.5.0; names and what is
given: nvidia-container-toolkit 1.20.0, pkg/nvcdi, ``getDeviceSpecGeneratorsForAllDevices``, ``NewDeviceNamer``; hooks:
cmd/nvidia-cdi-hook, cmd/nvidia-ctk/hook (v1.19.0); the state on standard input: OCI runtime specification, runtime.md,
"State".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import InputError
from ..files.capabilities import capability_node
from ..files.tree import device_nodes
from ..state.segment import SEGMENT

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["make_cdi_hook"]

DEFAULT_KIND: Final = "nvidia.com/gpu"
_VERSION: Final = "0.5.0"
_INSIDE: Final = "/opt/fakegpu"
"""The machine's folder in a container; the library finds the segment beside its own folder."""

_NAME: Final = r"[A-Za-z]([A-Za-z0-9_{}-]*[A-Za-z0-9])?"
_KIND: Final = re.compile(f"{_NAME.format('.')}/{_NAME.format('')}")


@dataclass(frozen=True, slots=True)
class _Device:
    """A GPU or a MIG device, with the names of its nodes below ``/dev``."""

    uuid: str
    index: str
    nodes: Sequence[str]


def cdi_spec(machine: Machine, kind: str = DEFAULT_KIND) -> dict[str, Any]:
    """Describe a machine's GPUs and MIG devices as they are now.

    Device nodes are bind mounts of the machine's plain files, since making real nodes needs a privilege.

    Args:
        machine: Its folder must stay where it is while containers use it.
        kind: Vendor and class of the devices, such as ``nvidia.com/gpu``.

    Raises:
        InputError: the kind is none, or the machine has no device to give: its GPUs are in MIG mode, without instances.
    """
    if not _KIND.fullmatch(kind):
        raise InputError(f"no CDI kind '{kind}': write VENDOR/CLASS, such as {DEFAULT_KIND}")
    devices = list(_devices(machine))
    if not devices:
        raise InputError(
            f"{machine.directory} has GPUs in MIG mode and no MIG devices: `fakegpu mig create` makes some"
        )
    named = [(device.uuid, device.nodes) for device in devices] + [(device.index, device.nodes) for device in devices]
    every = tuple(dict.fromkeys(node for device in devices for node in device.nodes))
    shared = [name for name in device_nodes(machine.directory) if not re.fullmatch(r"nvidia\d+", name)]
    library = f"{_INSIDE}/lib/{machine.library.name}"
    return {
        "cdiVersion": _VERSION,
        "kind": kind,
        "devices": [
            {"name": name, "containerEdits": {"mounts": [_node(machine, node) for node in nodes]}}
            for name, nodes in [*named, ("all", every)]
        ],
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "FAKEGPU_DEV=/dev", f"LD_LIBRARY_PATH={_INSIDE}/lib"],
            "mounts": [
                _mount(machine.library, library),
                _mount(machine.directory / SEGMENT, f"{_INSIDE}/{SEGMENT}"),
                *(_node(machine, name) for name in shared),
            ],
        },
    }


def _devices(machine: Machine) -> Iterator[_Device]:
    for gpu in machine.gpus:
        node = f"nvidia{gpu.minor}"
        if not (machine.has_mig(gpu.index) and machine.mig(gpu.index).mode[0]):
            yield _Device(gpu.uuid, f"{gpu.index}", [node])
            continue
        for part in machine.mig(gpu.index).devices:
            whole = capability_node(gpu.minor, part.gpu_instance)
            own = capability_node(gpu.minor, part.gpu_instance, part.compute_instance)
            yield _Device(part.uuid, f"{gpu.index}:{part.index}", [node, whole, own])


def _node(machine: Machine, name: str) -> dict[str, Any]:
    return _mount(machine.dev / name, f"/dev/{name}")


def _mount(place: Path, inside: str) -> dict[str, Any]:
    return {"hostPath": str(place), "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}


_SCRIPT: Final = r"""#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
bundle=$(sed -n 's/.*"bundle" *: *"\([^"]*\)".*/\1/p')
root=$(realpath -e -- "${bundle:?no state of a container on standard input}/rootfs") || exit 1
[ "$1" != hook ] || shift
[ "$1" = create-symlinks ] || exit 0
for word; do
    case $word in
        *::*)
            link=$root/${word#*::}
            # A link of the image may lead out of the container.
            case $(realpath -m -- "$(dirname "$link")") in
                "$root" | "$root"/*) ;;
                *) echo "$link leads out of the container" >&2; exit 1 ;;
            esac
            mkdir -p "$(dirname "$link")"
            ln -sfn "${word%%::*}" "$link"
            ;;
    esac
done
"""


def make_cdi_hook(path: Path) -> None:
    """Makes the program.

    Raises:
        OSError: it is there, or the host does not let us write.
    """
    with path.open("x", encoding="ascii") as file:
        file.write(_SCRIPT)
    path.chmod(0o755)
