"""What the dialects' commands do at every start: read the node's GPUs, find the API server."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from ..apiserver import AccessError, ServerAccess, access_from_environment
from ..errors import FatalError
from ..nvml.nvml import Nvml, NvmlError, session

__all__ = ["Gpu", "api_server", "gpus_of_node", "read_gpus", "wait_for_ever"]

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        index: NVML's.
        minor: The number in the name of its device node.
        numa_node: None where the machine does not say.
    """

    index: int
    uuid: str
    name: str
    minor: int
    memory_mib: int
    numa_node: int | None


def read_gpus(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
    """All GPUs in NVML's order; NVML must be initialised.

    Raises:
        NvmlError: A call failed.
    """
    return tuple(_read(nvml, index, sysfs) for index in range(nvml.gpu_count()))


def _read(nvml: Nvml, index: int, sysfs: Path) -> Gpu:
    gpu = nvml.gpu_by_index(index)
    return Gpu(
        index,
        nvml.uuid(gpu),
        nvml.name(gpu),
        nvml.minor_number(gpu),
        nvml.total_memory_bytes(gpu) // _MIB,
        _numa_node(sysfs / "bus/pci/devices" / nvml.pci_bus_id(gpu) / "numa_node"),
    )


def _numa_node(file: Path) -> int | None:
    try:
        node = int(file.read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


_log = logging.getLogger(__name__)


def gpus_of_node(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
    """The GPUs there are now.

    Raises:
        FatalError: NVML is missing or fails.
    """
    try:
        with session(nvml):
            return read_gpus(nvml, sysfs)
    except NvmlError as error:
        _log.warning("Failed to initialize NVML: %s.", error)
        raise FatalError(f"the GPUs cannot be read: {error}; on a GPU node NVML comes with the driver") from None


def api_server(exit_status: int) -> ServerAccess:
    """The API server that the environment names.

    Raises:
        FatalError: it names none that can be used; with `exit_status`.
    """
    try:
        return access_from_environment(os.environ)
    except AccessError as error:
        raise FatalError(str(error), exit_status) from None


def wait_for_ever() -> NoReturn:
    """Do nothing until a signal ends the process, as a Go program does that catches none."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    while True:
        signal.pause()
