"""A container runtime without processes: its containers start, are asked to end, and end.

An init container ends with 0 as soon as it has started. Every other one runs until it is asked to end; on SIGTERM it
ends with 0 at once, as the pause image does.

Source: build/pause/linux/pause.c, ``sigdown`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from typing import Final
from weakref import WeakValueDictionary

from ..devices.run_options import DeviceRunOptions
from ..model.pod import Container, ContainerKind, Pod, PodUID
from .container_runtime import ExitStatus

__all__ = ["BookKeepingContainer", "BookKeepingRuntime"]

_KILLED: Final = 128 + 9


class BookKeepingContainer:
    """A container that runs until `end`, `stop` or a reboot."""

    def __init__(self) -> None:
        self._end: asyncio.Future[ExitStatus] = asyncio.get_running_loop().create_future()

    @property
    def is_running(self) -> bool:
        return not self._end.done()

    def end(self, status: ExitStatus) -> None:
        """The container's process ends by itself; nothing happens when it has ended already."""
        if not self._end.done():
            self._end.set_result(status)

    async def wait(self) -> ExitStatus:
        """See `ContainerHandle`."""
        return await asyncio.shield(self._end)

    async def stop(self, grace_s: float) -> ExitStatus:
        """See `ContainerHandle`; without any grace it is killed."""
        self.end(ExitStatus.of(0 if grace_s > 0 else _KILLED))
        return await self.wait()


class BookKeepingRuntime:
    """The containers of one node that run without processes."""

    def __init__(self) -> None:
        # The record of a container holds its handle.
        self._containers: WeakValueDictionary[tuple[PodUID, str], BookKeepingContainer] = WeakValueDictionary()

    async def start(
        self, pod: Pod, container: Container, options: DeviceRunOptions, attempt: int = 0
    ) -> BookKeepingContainer:
        """See `ContainerRuntime`."""
        handle = BookKeepingContainer()
        if container.kind is ContainerKind.INIT:
            handle.end(ExitStatus.of(0))
        else:
            self._containers[pod.uid, container.name] = handle
        return handle

    def complete(self, pod_uid: PodUID, container: str, exit_code: int) -> bool:
        """End a container as if its process had; False when it does not run."""
        handle = self._containers.get((pod_uid, container))
        if handle is None or not handle.is_running:
            return False
        handle.end(ExitStatus.of(exit_code))
        return True

    async def reboot(self) -> None:
        """See `ContainerRuntime`."""
        for handle in list(self._containers.values()):
            handle.end(ExitStatus.power_cut())
