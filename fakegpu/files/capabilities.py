"""What a driver shows of MIG beside NVML: lists of device minors and capabilities in ``/proc``, nodes in ``/dev``.

::

    proc/driver/nvidia-caps/mig-minors                           minors of whatever instances may come
    proc/driver/nvidia/capabilities/mig/config, monitor          who may partition, who may look at all instances
    proc/driver/nvidia/capabilities/gpu0/mig/gi7/access          of the instances that are there
    proc/driver/nvidia/capabilities/gpu0/mig/gi7/ci0/access
    dev/nvidia-caps/nvidia-cap66                                 a plain file for each of these, numbered by its minor
    dev/nvidia-caps-imex-channels/channel0                       where channels are asked for

The library creates and removes an instance's files with the instance, in whichever process that happens.

Source: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and Capabilities"; open-gpu-kernel-modules 595.45.04,
kernel-open/nvidia/nv-caps.c: numbers and their order; nv-reg.h, ``NVreg_ImexChannelCount``.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path, PurePath
from typing import Final

from ..errors import InputError
from ..state import layout
from ..state.library import load_writer
from .inside import make_folder_inside, remove_inside, touch_inside

IMEX_CHANNELS_MAX: Final = 2048
"""That a driver has by default."""

_GPUS: Final = 32
"""That a driver reserves minors for."""

_GPU_INSTANCES: Final = 15
_COMPUTE_INSTANCES: Final = 8
_OWNER_MAY_READ: Final = 0o400
_ALL_MAY_READ: Final = 0o444
_CAPABILITIES: Final = PurePath("proc", "driver", "nvidia", "capabilities")


def write_shared_capabilities(root: Path, gpu_count: int) -> None:
    """Make the lists of minors and what belongs to no GPU.

    Raises:
        OSError: the host does not let us write.
    """
    lists = root / "proc" / "driver" / "nvidia-caps"
    (root / _CAPABILITIES / "mig").mkdir(parents=True)
    (root / "dev" / "nvidia-caps").mkdir(parents=True)
    lists.mkdir(parents=True)
    minors = _mig_minors(max(gpu_count, _GPUS))
    after = minors.count("\n") + 1
    (lists / "mig-minors").write_text(minors, encoding="ascii")
    (lists / "nvlink-minors").write_text("fabric-mgmt 0\n", encoding="ascii")
    (lists / "sys-minors").write_text(f"fabric-imex-mgmt {after}\n", encoding="ascii")
    for name, minor, mode in (
        ("mig/config", 1, _OWNER_MAY_READ),
        ("mig/monitor", 2, _ALL_MAY_READ),
        ("fabric-imex-mgmt", after, _OWNER_MAY_READ),
    ):
        file = root / _CAPABILITIES / name
        file.write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: {mode}\nDeviceFileModify: 1\n", encoding="ascii")
        file.chmod(mode)
    for minor in (1, 2):
        (root / "dev" / "nvidia-caps" / f"nvidia-cap{minor}").touch()


@cache
def _mig_minors(gpu_count: int) -> str:
    names = ["config", "monitor"]
    for gpu in range(gpu_count):
        for instance in range(_GPU_INSTANCES):
            names.append(f"gpu{gpu}/gi{instance}/access")
            names += [f"gpu{gpu}/gi{instance}/ci{part}/access" for part in range(_COMPUTE_INSTANCES)]
    return "".join(f"{name} {minor}\n" for minor, name in enumerate(names, 1))


def add_capabilities(root: Path, state: layout.GpuState) -> None:
    """Make the capabilities of a GPU that is new in the machine, with those of its instances.

    Raises:
        OSError: the host does not let us write.
    """
    make_folder_inside(root, _of_gpu(state.identity.minor_number) / "mig")
    write_capabilities(root, state)


def write_capabilities(root: Path, state: layout.GpuState) -> None:
    """Let the files of a GPU's instances agree with its state.

    Raises:
        InputError: something in the place of a folder is none, such as a link.
        OSError: the host does not let us write.
    """
    if code := load_writer().fakegpu_write_capabilities(os.fsencode(root), ctypes.byref(state)):
        if code in {errno.ENOTDIR, errno.ELOOP}:
            folders = f"{root / _CAPABILITIES} or {root / 'dev/nvidia-caps'}"
            raise InputError(f"{folders}: is a link, a file or a pipe in place of a folder; remove it")
        raise OSError(code, os.strerror(code), str(root))


def remove_capabilities(root: Path, minor: int) -> None:
    """Remove the capabilities of a GPU and of its instances.

    Raises:
        OSError: the host does not let us.
    """
    write_capabilities(root, layout.GpuState(identity=layout.Identity(minor_number=minor)))
    remove_inside(root, _of_gpu(minor))


def capability_node(gpu_minor: int, gpu_instance: int, compute_instance: int | None = None) -> str:
    """Name below ``/dev`` of the node of an instance's capability: ``nvidia-caps/nvidia-cap66``."""
    part = -1 if compute_instance is None else compute_instance
    return f"nvidia-caps/nvidia-cap{load_writer().fakegpu_capability_minor(gpu_minor, gpu_instance, part)}"


def add_imex_channels(root: Path, count: int) -> None:
    """Make nodes of the first ``count`` IMEX channels; those that are there stay.

    Raises:
        InputError: a number that no driver has.
        OSError: the host does not let us write.
    """
    if not 0 <= count <= IMEX_CHANNELS_MAX:
        raise InputError(f"cannot make {count} IMEX channels: a driver has 0 to {IMEX_CHANNELS_MAX}")
    for number in range(count):
        touch_inside(root, f"dev/nvidia-caps-imex-channels/channel{number}")


def _of_gpu(minor: int) -> PurePath:
    return _CAPABILITIES / f"gpu{minor}"
