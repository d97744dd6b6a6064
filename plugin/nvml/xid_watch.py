"""Tells which GPUs have reported an XID, as the sharing plugins look for it.

A thread waits in NVML, since that wait cannot be awaited; NVML offers no way to end it early, so a stopped thread
lingers until its wait of 5 s is over. It holds an NVML session of its own and is a daemon.

Source: pkg/gpu/nvidia/nvidia.go, ``watchXIDs`` (gpushare-device-plugin 45fb8b8); pkg/plugin/nvidia/nvidia.go,
``checkHealth`` (volcano-sh/devices 95b591b).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TypeAlias

from ..errors import FatalError
from .nvml import EventSet, EventType, Nvml, NvmlError, NvmlReturn, session

__all__ = ["Uuids", "ignored_by_sharing_plugins", "xid_failures"]

_log = logging.getLogger(__name__)

Uuids: TypeAlias = frozenset[str]

_WAIT_MS: Final = 5000
_OF_APPLICATIONS: Final = frozenset((31, 43, 45))


def ignored_by_sharing_plugins(xid: int) -> bool:
    """Whether an XID is an application's fault by the list of gpushare and volcano."""
    return xid in _OF_APPLICATIONS


async def xid_failures(
    nvml: Nvml, uuids: Sequence[str], ignores: Callable[[int], bool], fatal_status: int
) -> AsyncGenerator[Uuids, None]:
    """The UUIDs of GPUs that have just failed, each time that some do.

    The first item comes as soon as no XID can be missed any more: the GPUs that cannot report any. An empty item says
    that a wait has ended without a failure.

    Raises:
        FatalError: The XIDs of a GPU cannot be asked for; `fatal_status` is the exit status.
    """
    loop = asyncio.get_running_loop()
    reports: asyncio.Queue[Uuids | NvmlError] = asyncio.Queue()
    stopped = threading.Event()

    def tell(report: Uuids | NvmlError) -> None:
        if not stopped.is_set():
            try:
                loop.call_soon_threadsafe(reports.put_nowait, report)
            except RuntimeError:
                # The loop has been closed since.
                stopped.set()

    def watch() -> None:
        try:
            with session(nvml):
                events = nvml.create_event_set()
                try:
                    tell(_register(nvml, uuids, events))
                    while not stopped.is_set():
                        tell(_next(nvml, uuids, events, ignores))
                finally:
                    nvml.free_event_set(events)
        except NvmlError as error:
            tell(error)

    threading.Thread(target=watch, name="xid watch", daemon=True).start()
    try:
        while True:
            report = await reports.get()
            if isinstance(report, NvmlError):
                raise FatalError(f"Fatal: {report}", fatal_status)
            yield report
    finally:
        stopped.set()


def _register(nvml: Nvml, uuids: Sequence[str], events: EventSet) -> Uuids:
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
    return frozenset(too_old)


def _next(nvml: Nvml, uuids: Sequence[str], events: EventSet, ignores: Callable[[int], bool]) -> Uuids:
    """Wait for one event; what fails but the event itself counts as none."""
    try:
        event = nvml.wait(events, _WAIT_MS)
    except NvmlError:
        return frozenset()
    if event.event_type != EventType.XID_CRITICAL_ERROR or ignores(event.data):
        return frozenset()
    try:
        uuid = nvml.uuid(event.gpu)
    except NvmlError:
        _log.info("XidCriticalError: Xid=%d, All devices will go unhealthy.", event.data)
        return frozenset(uuids)
    _log.info("XidCriticalError: Xid=%d on Device=%s, the device will go unhealthy.", event.data, uuid)
    return frozenset((uuid,)) & frozenset(uuids)
