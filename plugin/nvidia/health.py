"""Watches the GPUs of a resource for XIDs.

A thread waits in NVML, because that wait cannot be awaited; what it learns it hands to the event loop at once. NVML
offers no way to end a wait early, so a stopped thread lingers until its wait of 5 s is over: it holds its own NVML
session, touches nothing after that, and as a daemon never delays the exit of the process.

Source: internal/rm/health.go, ``checkHealth``, ``parseMigDeviceUUID`` (k8s-device-plugin v0.19.0). The original keeps
one device for each GPU, the last that it came by: with replicas or several MIG devices the others stay healthy.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ..command.plugin_command import Quirks
from ..framework.device import DeviceID
from ..nvml.nvml import EventSet, EventType, Nvml, NvmlError, NvmlEvent, NvmlReturn
from ..nvml.xid_policy import XidPolicy
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

_WAIT_MS: Final = 5000
_LOG_AFTER_S: Final = 0.005
"""A line of the log takes a fifth of the time from an XID to the kubelet's list: the list goes first."""
_EVENTS: Final = EventType.XID_CRITICAL_ERROR | EventType.DOUBLE_BIT_ECC_ERROR | EventType.SINGLE_BIT_ECC_ERROR


async def failing_devices(
    nvml: Nvml, devices: Sequence[NvidiaDevice], policy: XidPolicy, *, fail_on_init_error: bool, quirks: Quirks
) -> AsyncGenerator[DeviceIDs, None]:
    """The devices that have just failed, each time that some do, also when they had failed before.

    The first item is empty. It comes as soon as no event can be missed any more, or none will ever be seen.

    An XID befalls every device of its GPU, or the MIG device that it names; with `Quirks.ORIGINAL` one device of its
    GPU.

    Ends by itself only when the policy ignores everything. A check that cannot start is logged and reports nothing, as
    in the original: the devices stay healthy.
    """
    if policy.ignores_everything:
        yield frozenset()
        return
    started = asyncio.Event()
    reports: asyncio.Queue[DeviceIDs] = asyncio.Queue()
    placements = Placements(one_for_each_gpu=quirks is Quirks.ORIGINAL)
    watcher = _Watcher(nvml, devices, policy, placements, asyncio.get_running_loop(), started, reports)
    threading.Thread(target=watcher.run, args=(fail_on_init_error,), name="gpu health", daemon=True).start()
    try:
        await started.wait()
        yield frozenset()
        while True:
            failing = await reports.get()
            if reports.empty():
                watcher.has_room.set()
            yield failing
    finally:
        watcher.stop()


def _log_fault(xid: int, failing: DeviceIDs) -> None:
    named = ",".join(sorted(failing))
    _log.info("XidCriticalError: Xid=%d on Device=%s; marking device as unhealthy.", xid, named)


class _Watcher:
    """The thread's side: everything here but `stop` runs in the thread.

    It does not wait for events while reports lie there that nobody has taken: a wait that fails at once would fill the
    memory with them.
    """

    def __init__(
        self,
        nvml: Nvml,
        devices: Sequence[NvidiaDevice],
        policy: XidPolicy,
        placements: Placements,
        loop: asyncio.AbstractEventLoop,
        started: asyncio.Event,
        reports: asyncio.Queue[DeviceIDs],
    ) -> None:
        self._nvml = nvml
        self._devices = devices
        self._policy = policy
        self._placements = placements
        self._loop = loop
        self._started = started
        self._reports = reports
        self.has_room = threading.Event()
        self.has_room.set()
        self._lock = threading.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Report nothing from now on; called in the event loop, which may close afterwards."""
        with self._lock:
            self._is_stopped = True
        self.has_room.set()

    def run(self, fail_on_init_error: bool) -> None:
        """Wait for events until stopped; `started` is set once they are subscribed to, or cannot be."""
        try:
            self._nvml.init()
        except NvmlError as error:
            if fail_on_init_error:
                self._cannot_start("failed to initialize NVML", error)
        else:
            self._run_initialised()
        finally:
            self._tell(self._started.set)

    def _run_initialised(self) -> None:
        try:
            self._watch()
        except NvmlError as error:
            self._cannot_start("failed to create event set", error)
        finally:
            self._nvml.shutdown()

    def _cannot_start(self, what: str, error: NvmlError) -> None:
        if not self._is_stopped:
            _log.error("Failed to start health check: %s: %s; continuing with health checks disabled", what, error)

    def _watch(self) -> None:
        ignored = ",".join(str(xid) for xid in sorted(self._policy.ignored))
        _log.info("Health checks: XIDs %s leave a GPU healthy.", ignored)
        events = self._nvml.create_event_set()
        try:
            for device in self._devices:
                self._register(device, events)
            self._tell(self._started.set)
            while not self._is_stopped:
                self._wait(events)
                self.has_room.wait()
        finally:
            self._nvml.free_event_set(events)

    def _register(self, device: NvidiaDevice, events: EventSet) -> None:
        """Subscribe to the events of a device's GPU; a device whose events cannot be had fails."""
        try:
            placement = self._placement(device)
            self._placements.add(device.device_id, placement)
            gpu = self._nvml.gpu_by_uuid(placement.gpu_uuid)
            supported = self._nvml.supported_events(gpu)
        except (NvmlError, UnknownPlacementError) as error:
            _log.warning("Cannot watch device %s: %s; marking it as unhealthy", device.device_id, error)
            self._report(frozenset((device.device_id,)))
            return
        try:
            self._nvml.register_events(gpu, _EVENTS & supported, events)
        except NvmlError as error:
            if error.code == NvmlReturn.NOT_SUPPORTED:
                _log.warning("Device %s is too old to support healthchecking.", device.device_id)
                return
            _log.info("Cannot register the events of device %s: %s; marking it as unhealthy", device.device_id, error)
            self._report(frozenset((device.device_id,)))

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

    def _wait(self, events: EventSet) -> None:
        try:
            event = self._nvml.wait(events, _WAIT_MS)
        except NvmlError as error:
            if error.code != NvmlReturn.TIMEOUT:
                self._all_fail("Waiting for GPU events failed", error)
            return
        if not self._is_stopped:
            self._judge(event)

    def _judge(self, event: NvmlEvent) -> None:
        if event.event_type != EventType.XID_CRITICAL_ERROR or self._policy.ignores(event.data):
            _log.info("Skipping event of type 0x%x with data %d", event.event_type, event.data)
            return
        try:
            uuid = self._nvml.uuid(event.gpu)
        except NvmlError as error:
            self._all_fail(f"Cannot tell which GPU reported XID {event.data}", error)
            return
        if not self._placements.has_gpu(uuid):
            _log.info("Ignoring event for unexpected device: %s", uuid)
            return
        fault = Placement(uuid, event.gpu_instance, event.compute_instance)
        failing = frozenset(self._placements.befallen(fault))
        if failing:
            self._report(failing)
            self._tell(partial(self._loop.call_later, _LOG_AFTER_S, _log_fault, event.data, failing))

    def _all_fail(self, what: str, error: NvmlError) -> None:
        if not self._is_stopped:
            _log.info("%s: %s; marking all devices as unhealthy", what, error)
            self._report(frozenset(device.device_id for device in self._devices))

    def _report(self, failing: DeviceIDs) -> None:
        self.has_room.clear()
        self._tell(partial(self._reports.put_nowait, failing))

    def _tell(self, callback: Callable[[], object]) -> None:
        with self._lock:
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(callback)


NO_INSTANCE: Final = 0xFFFFFFFF
"""What NVML tells in place of the id of an instance where there is none."""

_OLD_MIG_UUID: Final = re.compile(r"MIG-(GPU-[^/]*)/([0-9]+)/([0-9]+)", re.ASCII)


class UnknownPlacementError(Exception):
    """It cannot be told on which GPU a MIG device is."""


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
        """Whether a fault befalls what is here: one that names both instances befalls no other MIG device."""
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

    def befallen(self, fault: Placement) -> Iterator[DeviceID]:
        """The devices that a fault befalls, in the order of their discovery."""
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
