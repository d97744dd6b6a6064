"""Starts the containers of admitted pods, each pod in its own task.

Source: kubelet/kuberuntime/kuberuntime_container.go, ``startContainer``; kubelet/pod_workers.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from typing import Final

from .allocation import AllocationError
from .allocator import Allocator
from .clock import Clock
from .cluster.store import Store
from .pod import Container, Pod, PodPhase, PodStatus, PodUID
from .runtime import ContainerRuntime
from .version import Version

__all__ = ["PodStarter"]

_COMPONENT: Final = "kubelet"
_RETRY_S: Final = 10.0


class PodStarter:
    """The pod workers of one kubelet instance."""

    def __init__(
        self,
        allocator: Allocator,
        runtime: ContainerRuntime,
        store: Store,
        clock: Clock,
        version: Version,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._group = tasks
        self._allocator = allocator
        self._runtime = runtime
        self._store = store
        self._clock = clock
        self._version = version
        self._tasks: dict[PodUID, asyncio.Task[None]] = {}

    def start(self, pod: Pod) -> None:
        """Start the containers of a pod that do not run yet, in order; the pod is Running when all do."""
        task = self._group.create_task(self._start_pod(pod), name=f"pod {pod.key}")
        self._tasks[pod.uid] = task
        task.add_done_callback(lambda _: self._tasks.pop(pod.uid, None))

    async def cancel(self, pod_uid: PodUID) -> None:
        """Give up starting a pod."""
        task = self._tasks.pop(pod_uid, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def stop(self) -> None:
        for pod_uid in list(self._tasks):
            await self.cancel(pod_uid)

    async def _start_pod(self, pod: Pod) -> None:
        for container in pod.containers:
            while not self._is_started(pod, container) and not await self._start_container(pod, container):
                await self._clock.sleep(_RETRY_S)
        self._store.set_pod_status(pod.uid, PodStatus(PodPhase.RUNNING))

    def _is_started(self, pod: Pod, container: Container) -> bool:
        return container.name in self._runtime.containers(pod.uid)

    async def _start_container(self, pod: Pod, container: Container) -> bool:
        try:
            options = await self._allocator.run_options(pod, container)
        except AllocationError as error:
            self._store.record(pod, "Warning", "Failed", f"Error: {error}", _COMPONENT)
            return False
        self._runtime.start(pod, container, options)
        created = self._version.created_event.format(name=container.name)
        started = self._version.started_event.format(name=container.name)
        self._store.record(pod, "Normal", "Created", created, _COMPONENT)
        self._store.record(pod, "Normal", "Started", started, _COMPONENT)
        return True
