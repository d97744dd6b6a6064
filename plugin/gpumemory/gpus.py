"""The GPUs of the node: what they are, which fail; and the API server, as the dialects' commands find it.

Source: pkg/gpu/nvidia/nvidia.go, ``watchXIDs`` (gpushare-device-plugin 45fb8b8); pkg/plugin/nvidia/nvidia.go,
``checkHealth`` (volcano-sh/devices 95b591b).
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from ..apiserver import AccessError, ServerAccess, access_from_environment
from ..errors import FatalError
from ..nvml.events import event_reports
from ..nvml.nvml import EventSet, EventType, Nvml, NvmlError, NvmlEvent, NvmlReturn, session

__all__ = [
    "Gpu",
    "Uuids",
    "api_server",
    "gpus_of_node",
    "ignored_by_sharing_plugins",
    "wait_for_ever",
    "xid_failures",
]

_log = logging.getLogger(__name__)

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


def _read_gpus(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
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


def gpus_of_node(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
    """The GPUs there are now.

    Raises:
        FatalError: NVML is missing or fails.
    """
    try:
        with session(nvml):
            return _read_gpus(nvml, sysfs)
    except NvmlError as error:
        _log.warning("Failed to initialize NVML: %s.", error)
        raise FatalError(f"the GPUs cannot be read: {error}; NVML is installed with the driver of the GPUs") from None


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


Uuids: TypeAlias = frozenset[str]

_OF_APPLICATIONS: Final = frozenset((31, 43, 45))


def ignored_by_sharing_plugins(xid: int) -> bool:
    """Whether an XID is an application's fault by the list of gpushare and volcano."""
    return xid in _OF_APPLICATIONS


async def xid_failures(
    nvml: Nvml, uuids: Sequence[str], ignores: Callable[[int], bool], fatal_status: int
) -> AsyncGenerator[Uuids, None]:
    """The UUIDs of GPUs that have just failed, each time that some do.

    The first item comes as soon as no XID can be missed any more: the GPUs that cannot report any. An empty item means
    that a wait has ended without a failure.

    Raises:
        FatalError: The XIDs of a GPU cannot be asked for; `fatal_status` is the exit status.
    """
    watch = event_reports(nvml, partial(_subscribe, nvml, uuids), partial(_judge, nvml, uuids, ignores))
    try:
        async with aclosing(watch) as reports:
            async for failed in reports:
                yield failed
    except NvmlError as error:
        raise FatalError(f"Fatal: {error}", fatal_status) from None


def _subscribe(nvml: Nvml, uuids: Sequence[str], events: EventSet) -> list[Uuids]:
    """Ask for the XIDs of all GPUs; those that are too old for that."""
    too_old = set()
    for uuid in uuids:
        try:
            nvml.register_events(nvml.gpu_by_uuid(uuid), EventType.XID_CRITICAL_ERROR, events)
        except NvmlError as error:
            if error.code != NvmlReturn.NOT_SUPPORTED:
                raise
            _log.warning("%s is too old to support healthchecking: %s. Marking it unhealthy.", uuid, error)
            too_old.add(uuid)
    return [frozenset(too_old)]


def _judge(nvml: Nvml, uuids: Sequence[str], ignores: Callable[[int], bool], event: NvmlEvent | NvmlError) -> Uuids:
    """What an event says has failed; a wait that fails counts as one without an event."""
    if isinstance(event, NvmlError) or event.event_type != EventType.XID_CRITICAL_ERROR or ignores(event.data):
        return frozenset()
    try:
        uuid = nvml.uuid(event.gpu)
    except NvmlError:
        _log.info("XidCriticalError: Xid=%d, All devices will go unhealthy.", event.data)
        return frozenset(uuids)
    _log.info("XidCriticalError: Xid=%d on Device=%s, the device will go unhealthy.", event.data, uuid)
    return frozenset((uuid,)) & frozenset(uuids)
