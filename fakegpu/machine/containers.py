"""What container tools see of a machine: a CDI specification, a stand-in for its hooks, an installed driver's files.

`cdi_spec` names the devices that ``nvidia-ctk cdi generate`` names: GPUs by UUID and by index, MIG devices by UUID and
as ``0:1``, and ``all`` of them. A GPU in MIG mode is given by its MIG devices only.

`make_cdi_hook` makes a stand-in for ``nvidia-cdi-hook`` and ``nvidia-ctk hook``, which NVIDIA's specifications name for
their hooks. An OCI runtime runs it while it creates a container: it makes the links that it is given. The rest, the
cache of the loader for one, is left: the driver's libraries lie where a loader looks anyway.

`make_driver_root` makes the files of an installed driver, as a container sees them that mounts the root of the driver.
Programs that make CDI specifications look there for the driver's libraries and programs, and for all else that is named
as a library of this version: so the machine's segment, as `libfakegpu.so`, comes into a container too. The libraries of
CUDA are empty: nothing computes on a fake GPU. On a host without a driver `as_installed` shows one to a single command:
it runs in a mount namespace of its own, with device nodes, PCI folders and ``/proc/driver`` of the machine laid over
those of the host.

Source: the layout of specifications: container-device-interface v1.0.1, SPEC.md, version 0.5.0; names and what is
given: nvidia-container-toolkit 1.20.0, pkg/nvcdi, ``getDeviceSpecGeneratorsForAllDevices``, ``NewDeviceNamer``; hooks:
cmd/nvidia-cdi-hook, cmd/nvidia-ctk/hook (v1.19.0); the state on standard input: OCI runtime specification, runtime.md,
"State".
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import InputError
from ..files.capabilities import capability_node
from ..files.folder import host_errors
from ..files.inside import copy_inside
from ..files.tree import DRIVER, PROGRAMS, device_nodes
from ..state.library import NAME
from ..state.segment import SEGMENT
from .installed_view import kernel_files, supervised

if TYPE_CHECKING:
    from .machine import Machine

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
    shared = [name for name in device_nodes(machine.directory) if not re.fullmatch(r"nvidia[0-9]+", name)]
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
    """Make the program.

    Raises:
        OSError: it is there, or the host does not let us write.
    """
    with path.open("x", encoding="ascii") as file:
        file.write(_SCRIPT)
    path.chmod(0o755)


_LIBRARIES: Final = f"usr/lib/{os.uname().machine}-linux-gnu"
_PROGRAMS: Final = "usr/bin"


def make_driver_root(machine: Machine, folder: Path) -> None:
    """Make the files of the machine's driver below a folder, which is in the same file system as the machine.

    Raises:
        InputError: they cannot be there, or some are; or something is in the place of the machine's own files.
        HostError: the host does not let us write.
    """
    version = machine.driver_version
    libraries, programs = folder / _LIBRARIES, folder / _PROGRAMS
    with host_errors(folder, "choose another folder"):
        libraries.mkdir(parents=True)
        programs.mkdir(parents=True)
        copy_inside(machine.directory, f"lib/{NAME}", libraries / f"libnvidia-ml.so.{version}")
        os.link(machine.directory / SEGMENT, libraries / f"libfakegpu.so.{version}", follow_symlinks=False)
        (libraries / f"libcuda.so.{version}").touch()
        for name in (NAME, "libcuda.so.1"):
            (libraries / name).symlink_to(f"{name.removesuffix('1')}{version}")
        for name in PROGRAMS:
            copy_inside(machine.directory, f"bin/{name}", programs / name)


def as_installed(machine: Machine, command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line, and variables to add, that run a command as on a host where the driver is installed.

    Device nodes are ``/dev/null`` there, as many programs look for nothing but character devices; libraries and
    programs are in the machine's folder, where NVIDIA's tools look for those of a driver that is not installed in
    ``/``. Bwrap shows them in a mount namespace, which takes root or user namespaces. Where it is missing or refused a
    supervisor translates the paths of the command's calls (`installed_view`).

    Raises:
        HostError: the host allows neither.
    """
    import subprocess

    bwrap = shutil.which("bwrap")
    if bwrap is None:
        refused = "bwrap is missing"
    else:
        check = subprocess.run([bwrap, "--dev-bind", "/", "/", "true"], capture_output=True, text=True, check=False)
        refused = "" if check.returncode == 0 else f"bwrap cannot make a mount namespace here: {check.stderr.strip()}"
    root = str(_own_root(machine))
    environment = {
        "NVIDIA_DRIVER_ROOT": root,
        "NVIDIA_CTK_DRIVER_ROOT": root,
        "NVIDIA_DEV_ROOT": "/",
        "NVIDIA_CTK_DEV_ROOT": "/",
    }
    if bwrap is None or refused:
        return supervised(machine, command, refused), environment
    view = chain.from_iterable((*_device_options(machine), *_folder_options(machine)))
    return [bwrap, "--die-with-parent", "--dev-bind", "/", "/", *view, "--", *command], environment


def _own_root(machine: Machine) -> Path:
    """Return the driver's files in the machine's folder, complete, also where several processes make them at once."""
    root = machine.directory / DRIVER
    if not root.exists():
        with (
            host_errors(machine.directory),
            tempfile.TemporaryDirectory(dir=machine.directory, prefix=".driver.") as new,
        ):
            make_driver_root(machine, Path(new, DRIVER))
            try:
                Path(new, DRIVER).rename(root)
            except OSError:
                if not root.exists():
                    raise
    return root


def _device_options(machine: Machine) -> Iterator[Sequence[str]]:
    """Yield bwrap's options for ``/dev``: the host's entries, without those that the machine has, and the machine's."""
    own = {entry.name for entry in machine.dev.iterdir()}
    yield ("--tmpfs", "/dev")
    for entry in sorted(Path("/dev").iterdir()):
        if entry.is_symlink():
            yield ("--symlink", str(entry.readlink()), str(entry))
        elif entry.name not in own:
            yield ("--dev-bind", str(entry), str(entry))
    for node in sorted(path for path in machine.dev.rglob("*") if path.is_file()):
        yield ("--dev-bind", "/dev/null", f"/dev/{node.relative_to(machine.dev)}")


def _folder_options(machine: Machine) -> Iterator[Sequence[str]]:
    """Yield bwrap's options for sysfs and procfs, where no file can be added that the kernel does not have."""
    for place, own in kernel_files(machine).items():
        if Path(place).exists():
            yield ("--ro-bind", str(own), place)
