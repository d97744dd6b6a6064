"""The GPUs that have reported an XID, as the sharing plugins look for them.

Source: pkg/gpu/nvidia/nvidia.go, ``watchXIDs`` (gpushare-device-plugin 45fb8b8); pkg/plugin/nvidia/nvidia.go,
``checkHealth`` (volcano-sh/devices 95b591b).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, TypeAlias

from ..errors import FatalError
from ..nvml.event_watch import event_reports
from ..nvml.nvml import EventSet, EventType, Nvml, NvmlError, NvmlEvent, NvmlReturn

__all__ = ["Uuids", "ignored_by_sharing_plugins", "xid_failures"]

_log = logging.getLogger(__name__)

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
