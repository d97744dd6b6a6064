"""Watches the GPUs for XIDs.

A thread waits in NVML, because that wait cannot be awaited; what it learns it hands to the event loop at once. NVML
offers no way to end a wait early, so a stopped thread lingers until its wait of 5 s is over: it holds its own NVML
session, touches nothing after that, and as a daemon never delays the exit of the process.

Source: internal/rm/health.go, ``checkHealth`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from .discovery import Gpu
from .nvml import EventSet, EventType, Nvml, NvmlError, NvmlEvent, NvmlReturn, session
from .xid_policy import XidPolicy

__all__ = ["Uuids", "failing_gpus"]

_log = logging.getLogger(__name__)

Uuids: TypeAlias = frozenset[str]

_WAIT_MS: Final = 5000
_EVENTS: Final = EventType.XID_CRITICAL_ERROR | EventType.DOUBLE_BIT_ECC_ERROR | EventType.SINGLE_BIT_ECC_ERROR


async def failing_gpus(
    nvml: Nvml, gpus: Sequence[Gpu], policy: XidPolicy, *, fail_on_init_error: bool
) -> AsyncGenerator[Uuids, None]:
    """The UUIDs of GPUs that have just failed, each time that some do, also when they had failed before.

    The first item is empty. It comes as soon as no event can be missed any more, or none will ever be seen.

    Ends by itself only when the policy ignores everything. A check that cannot start is logged and reports nothing, as
    in the original: the GPUs stay healthy.
    """
    if policy.ignores_everything:
        yield frozenset()
        return
    started = asyncio.Event()
    reports: asyncio.Queue[Uuids] = asyncio.Queue()
    watcher = _Watcher(nvml, gpus, policy, asyncio.get_running_loop(), started, reports)
    threading.Thread(target=watcher.run, args=(fail_on_init_error,), name="gpu health", daemon=True).start()
    try:
        await started.wait()
        yield frozenset()
        while True:
            yield await reports.get()
    finally:
        watcher.stop()


class _Watcher:
    """The thread's side: everything here but `stop` runs in the thread."""

    def __init__(
        self,
        nvml: Nvml,
        gpus: Sequence[Gpu],
        policy: XidPolicy,
        loop: asyncio.AbstractEventLoop,
        started: asyncio.Event,
        reports: asyncio.Queue[Uuids],
    ) -> None:
        self._nvml = nvml
        self._uuids = [gpu.uuid for gpu in gpus]
        self._policy = policy
        self._loop = loop
        self._started = started
        self._reports = reports
        self._lock = threading.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Report nothing from now on; called in the event loop, which may close afterwards."""
        with self._lock:
            self._is_stopped = True

    def run(self, fail_on_init_error: bool) -> None:
        """Wait for events until stopped; `started` is set once they are subscribed to, or cannot be."""
        try:
            with session(self._nvml):
                self._watch()
        except NvmlError as error:
            if fail_on_init_error and not self._is_stopped:
                _log.error("Failed to start health check: %s; continuing with health checks disabled", error)
        finally:
            self._tell(self._started.set)

    def _watch(self) -> None:
        ignored = ",".join(str(xid) for xid in sorted(self._policy.ignored))
        _log.info("Health checks: XIDs %s leave a GPU healthy.", ignored)
        events = self._nvml.create_event_set()
        try:
            for uuid in self._uuids:
                self._register(uuid, events)
            self._tell(self._started.set)
            while not self._is_stopped:
                self._wait(events)
        finally:
            self._nvml.free_event_set(events)

    def _register(self, uuid: str, events: EventSet) -> None:
        try:
            gpu = self._nvml.gpu_by_uuid(uuid)
            supported = self._nvml.supported_events(gpu)
        except NvmlError as error:
            _log.info("Cannot watch GPU %s: %s; marking it as unhealthy", uuid, error)
            self._report(frozenset((uuid,)))
            return
        try:
            self._nvml.register_events(gpu, _EVENTS & supported, events)
        except NvmlError as error:
            if error.code == NvmlReturn.NOT_SUPPORTED:
                _log.warning("Device %s is too old to support healthchecking.", uuid)
                return
            _log.info("Cannot register the events of GPU %s: %s; marking it as unhealthy", uuid, error)
            self._report(frozenset((uuid,)))

    def _wait(self, events: EventSet) -> None:
        try:
            event = self._nvml.wait(events, _WAIT_MS)
        except NvmlError as error:
            if error.code != NvmlReturn.TIMEOUT and not self._is_stopped:
                _log.info("Waiting for GPU events failed: %s; marking all GPUs as unhealthy", error)
                self._report(frozenset(self._uuids))
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
            _log.info("Cannot tell which GPU reported XID %d: %s; marking all as unhealthy", event.data, error)
            self._report(frozenset(self._uuids))
            return
        if uuid not in self._uuids:
            _log.info("Ignoring event for unexpected device: %s", uuid)
            return
        _log.info("XidCriticalError: Xid=%d on Device=%s; marking device as unhealthy.", event.data, uuid)
        self._report(frozenset((uuid,)))

    def _report(self, failing: Uuids) -> None:
        self._tell(partial(self._reports.put_nowait, failing))

    def _tell(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_stopped:
                self._loop.call_soon_threadsafe(callback)
