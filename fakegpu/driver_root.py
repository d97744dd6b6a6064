"""The files of an installed driver, as a container sees them that mounts the root of the driver.

Programs that make CDI specifications look there for the driver's libraries and programs, and for all else that is named
as a library of this version: so the machine's segment, as `libfakegpu.so`, comes into a container too. The libraries of
CUDA are empty: nothing computes on a fake GPU.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .folder import host_errors
from .library import NAME
from .segment import SEGMENT

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["make_driver_root"]

_LIBRARIES: Final = f"usr/lib/{os.uname().machine}-linux-gnu"
_PROGRAMS: Final = "usr/bin"


def make_driver_root(machine: Machine, folder: Path) -> None:
    """Makes the files of the machine's driver below a folder, which lies in the same file system as the machine.

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
