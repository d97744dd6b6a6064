"""The files of an installed driver, as a container sees them that mounts the root of the driver.

Programs that make CDI specifications look there for the driver's libraries and programs, and for all else that is named
as a library of this version: so the machine's segment, as `libfakegpu.so`, comes into a container too. The libraries of
CUDA are empty: nothing computes on a fake GPU.

On a host without a driver a single command can see one as installed: ``as_installed`` runs it in a mount namespace of
its own, with device nodes, PCI folders and ``/proc/driver`` of the machine laid over those of the host.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import HostError
from ..files.folder import host_errors
from ..files.tree import DRIVER
from ..state.library import NAME
from ..state.segment import SEGMENT

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["as_installed", "make_driver_root"]

_LIBRARIES: Final = f"usr/lib/{os.uname().machine}-linux-gnu"
_PROGRAMS: Final = "usr/bin"


def make_driver_root(machine: Machine, folder: Path) -> None:
    """Makes the files of the machine's driver below a folder, which is in the same file system as the machine.

    Raises:
        InputError: they cannot be there, or some are.
        HostError: the host does not let us write.
    """
    version = machine.driver_version
    libraries, programs = folder / _LIBRARIES, folder / _PROGRAMS
    with host_errors(folder, "choose another folder"):
        libraries.mkdir(parents=True)
        programs.mkdir(parents=True)
        shutil.copyfile(machine.library, libraries / f"libnvidia-ml.so.{version}")
        (libraries / f"libfakegpu.so.{version}").hardlink_to(machine.directory / SEGMENT)
        (libraries / f"libcuda.so.{version}").touch()
        for name in (NAME, "libcuda.so.1"):
            (libraries / name).symlink_to(f"{name.removesuffix('1')}{version}")
        for program in sorted((machine.directory / "bin").iterdir()):
            shutil.copy(program, programs / program.name)


def as_installed(machine: Machine, command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return a command line, and variables to add, that run a command as on a host where the driver is installed.

    It takes bwrap, as root or with user namespaces. Device nodes are ``/dev/null`` there, as many programs look for
    nothing but character devices; libraries and programs are in the machine's folder, where NVIDIA's tools look for
    those of a driver that is not installed in ``/``.

    Raises:
        HostError: bwrap is missing, or may not make a namespace here.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise HostError("--driver-root needs bwrap: install bubblewrap, or leave the option out")
    check = subprocess.run([bwrap, "--dev-bind", "/", "/", "true"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        raise HostError(f"--driver-root: bwrap cannot make a mount namespace here: {check.stderr.strip()}")
    root = str(_own_root(machine))
    environment = {
        "NVIDIA_DRIVER_ROOT": root,
        "NVIDIA_CTK_DRIVER_ROOT": root,
        "NVIDIA_DEV_ROOT": "/",
        "NVIDIA_CTK_DEV_ROOT": "/",
    }
    view = chain.from_iterable((*_devices(machine), *_folders(machine)))
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


def _devices(machine: Machine) -> Iterator[Sequence[str]]:
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


def _folders(machine: Machine) -> Iterator[Sequence[str]]:
    """Yield bwrap's options for sysfs and procfs, where no file can be added that the kernel does not have."""
    for own, place in (
        (machine.sys / "bus/pci/devices", "/sys/bus/pci/devices"),
        (machine.proc / "driver", "/proc/driver"),
        (machine.proc / "modules", "/proc/modules"),
    ):
        if Path(place).exists():
            yield ("--ro-bind", str(own), place)
