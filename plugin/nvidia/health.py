"""Watches the GPUs of a resource for XIDs.

Source: internal/rm/health.go, ``checkHealth``, ``parseMigDeviceUUID`` (k8s-device-plugin v0.19.0). The original keeps
one device for each GPU, the last one enumerated: with replicas or several MIG devices the others stay healthy.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, TypeAlias

from ..command.plugin_command import Quirks
from ..framework import DeviceID
from ..nvml.events import WatchInitError, XidPolicy, event_reports
from ..nvml.nvml import EventSet, EventType, Nvml, NvmlError, NvmlEvent, NvmlReturn
from .discovery.resources import NvidiaDevice

__all__ = [
    "NO_INSTANCE",
    "DeviceIDs",
    "Placement",
    "Placements",
    "UnknownPlacementError",
    "failing_devices",
    "placement_in_uuid",
]

_log = logging.getLogger(__name__)

DeviceIDs: TypeAlias = frozenset[DeviceID]

_LOG_AFTER_S: Final = 0.005
"""A line of the log takes a fifth of the time from an XID to the kubelet's list: the list goes first."""
_EVENTS: Final = EventType.XID_CRITICAL_ERROR | EventType.DOUBLE_BIT_ECC_ERROR | EventType.SINGLE_BIT_ECC_ERROR


async def failing_devices(
    nvml: Nvml, devices: Sequence[NvidiaDevice], policy: XidPolicy, *, fail_on_init_error: bool, quirks: Quirks
) -> AsyncGenerator[DeviceIDs, None]:
    """The devices that have just failed, each time that some do, also when they had failed before.

    The first item is empty. It comes as soon as no event can be missed any more, or none will ever come.

    An XID affects every device of its GPU, or the MIG device that it names; with `Quirks.ORIGINAL` one device of its
    GPU.

    Ends by itself where nothing is watched: the policy ignores everything, or the check cannot start, which is logged.
    The devices then stay healthy, as in the original.
    """
    if policy.ignores_everything:
        yield frozenset()
        return
    check = _Check(nvml, devices, policy, Placements(one_for_each_gpu=quirks is Quirks.ORIGINAL))
    loop = asyncio.get_running_loop()
    try:
        async with aclosing(event_reports(nvml, check.subscribe, check.judge)) as reports:
            async for failing, xid in reports:
                if xid is not None:
                    loop.call_later(_LOG_AFTER_S, _log_fault, xid, failing)
                yield failing
    except NvmlError as error:
        is_init = isinstance(error, WatchInitError)
        if fail_on_init_error or not is_init:
            what = "failed to initialize NVML" if is_init else "failed to create event set"
            _log.error("Failed to start health check: %s: %s; continuing with health checks disabled", what, error)
        yield frozenset()


def _log_fault(xid: int, failing: DeviceIDs) -> None:
    named = ",".join(sorted(failing))
    _log.info("XidCriticalError: Xid=%d on Device=%s; marking device as unhealthy.", xid, named)


class _Report(NamedTuple):
    """Devices that have failed, and the XID that they failed with, if it was one."""

    failing: DeviceIDs
    xid: int | None = None


class _Check:
    """What the thread that watches asks: see `event_reports`."""

    def __init__(self, nvml: Nvml, devices: Sequence[NvidiaDevice], policy: XidPolicy, placements: Placements) -> None:
        self._nvml = nvml
        self._devices = devices
        self._policy = policy
        self._placements = placements

    def subscribe(self, events: EventSet) -> list[_Report]:
        """Nothing has failed at first; then each device that reports no events."""
        ignored = ",".join(str(xid) for xid in sorted(self._policy.ignored))
        _log.info("Health checks: XIDs %s leave a GPU healthy.", ignored)
        lost = [device.device_id for device in self._devices if not self._register(device, events)]
        return [_Report(frozenset()), *(_Report(frozenset((device_id,))) for device_id in lost)]

    def judge(self, event: NvmlEvent | NvmlError) -> _Report | None:
        if isinstance(event, NvmlError):
            return None if event.code == NvmlReturn.TIMEOUT else self._all_fail("Waiting for GPU events failed", event)
        if event.event_type != EventType.XID_CRITICAL_ERROR or self._policy.ignores(event.data):
            _log.info("Skipping event of type 0x%x with data %d", event.event_type, event.data)
            return None
        try:
            uuid = self._nvml.uuid(event.gpu)
        except NvmlError as error:
            return self._all_fail(f"Cannot tell which GPU reported XID {event.data}", error)
        if not self._placements.has_gpu(uuid):
            _log.info("Ignoring event for unexpected device: %s", uuid)
            return None
        failing = frozenset(self._placements.affected(Placement(uuid, event.gpu_instance, event.compute_instance)))
        return _Report(failing, event.data) if failing else None

    def _all_fail(self, what: str, error: NvmlError) -> _Report:
        _log.info("%s: %s; marking all devices as unhealthy", what, error)
        return _Report(frozenset(device.device_id for device in self._devices))

    def _register(self, device: NvidiaDevice, events: EventSet) -> bool:
        """Subscribe to the events of a device's GPU; whether this works, or the GPU has none."""
        try:
            placement = self._placement(device)
            self._placements.add(device.device_id, placement)
            gpu = self._nvml.gpu_by_uuid(placement.gpu_uuid)
            supported = self._nvml.supported_events(gpu)
        except (NvmlError, UnknownPlacementError) as error:
            _log.warning("Cannot watch device %s: %s; marking it as unhealthy", device.device_id, error)
            return False
        try:
            self._nvml.register_events(gpu, _EVENTS & supported, events)
        except NvmlError as error:
            if error.code == NvmlReturn.NOT_SUPPORTED:
                _log.warning("Device %s is too old to support healthchecking.", device.device_id)
                return True
            _log.info("Cannot register the events of device %s: %s; marking it as unhealthy", device.device_id, error)
            return False
        return True

    def _placement(self, device: NvidiaDevice) -> Placement:
        if not device.is_mig:
            return Placement(device.uuid)
        try:
            mig = self._nvml.gpu_by_uuid(device.uuid)
        except NvmlError:
            return placement_in_uuid(device.uuid)
        return Placement(
            self._nvml.uuid(self._nvml.parent(mig)),
            self._nvml.gpu_instance_id(mig),
            self._nvml.compute_instance_id(mig),
        )


NO_INSTANCE: Final = 0xFFFFFFFF
"""What NVML gives in place of the id of an instance where there is none."""

_OLD_MIG_UUID: Final = re.compile(r"MIG-(GPU-[^/]*)/([0-9]+)/([0-9]+)", re.ASCII)


class UnknownPlacementError(Exception):
    """It is not known on which GPU a MIG device is."""


class Placement(NamedTuple):
    """The GPU of a device, and of a MIG device the ids of its GPU instance and its compute instance."""

    gpu_uuid: str
    gpu_instance: int = NO_INSTANCE
    compute_instance: int = NO_INSTANCE

    @property
    def is_mig(self) -> bool:
        """Whether it is a MIG device's."""
        return self.gpu_instance != NO_INSTANCE

    def has_fault(self, fault: Placement) -> bool:
        """Whether a fault affects what is here: one that names both instances affects no other MIG device."""
        names_instance = NO_INSTANCE not in (fault.gpu_instance, fault.compute_instance)
        return fault.gpu_uuid == self.gpu_uuid and (not (self.is_mig and names_instance) or fault == self)


class Placements:
    """Where each device of a resource is."""

    def __init__(self, *, one_for_each_gpu: bool) -> None:
        self._one_for_each_gpu = one_for_each_gpu
        self._devices: dict[str, list[tuple[DeviceID, Placement]]] = {}

    def add(self, device_id: DeviceID, placement: Placement) -> None:
        """Take note of a device."""
        devices = self._devices.setdefault(placement.gpu_uuid, [])
        if self._one_for_each_gpu:
            devices.clear()
        devices.append((device_id, placement))

    def has_gpu(self, gpu_uuid: str) -> bool:
        """Whether any device is on this GPU."""
        return gpu_uuid in self._devices

    def affected(self, fault: Placement) -> Iterator[DeviceID]:
        """The devices that a fault affects, in the order of their discovery."""
        for device_id, placement in self._devices.get(fault.gpu_uuid, ()):
            if placement.has_fault(fault):
                yield device_id


def placement_in_uuid(uuid: str) -> Placement:
    """The placement that a MIG device's UUID of drivers before R470 contains.

    Raises:
        UnknownPlacementError: it contains none; the text is the original's.
    """
    found = _OLD_MIG_UUID.fullmatch(uuid)
    ids = [int(text) for text in found.groups()[1:]] if found else []
    if found is None or any(number > NO_INSTANCE for number in ids):
        raise UnknownPlacementError("unable to parse UUID as MIG device")
    return Placement(found.group(1), *ids)
