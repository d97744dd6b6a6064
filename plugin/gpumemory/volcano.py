"""Volcano's ``volcano.sh/gpu-memory`` and ``volcano.sh/gpu-number``: parts of GPUs, or whole ones.

Source: github.com/volcano-sh/devices at 95b591b, pkg/plugin/nvidia.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final

from simkubelet.apis import deviceplugin as api

from ..apiserver import ApiError, ServerAccess
from ..framework import AllocationRefusedError, Device, DeviceID, DeviceList, Health, StartError
from .gpus import Gpu
from .node import polled
from .pods import Pod, oldest_first, unsigned
from .shared_gpu import Failures, SharedGpuPlugin, answers

__all__ = ["Strategy", "VolcanoPlugin"]

_log = logging.getLogger(__name__)

MEMORY: Final = "volcano.sh/gpu-memory"
NUMBER: Final = "volcano.sh/gpu-number"
SOCKET: Final = "volcano.sock"
_PREDICATE_TIME: Final = "volcano.sh/predicate-time"
_ASSIGNED: Final = "volcano.sh/gpu-assigned"
_INDEX: Final = "volcano.sh/gpu-index"
_UNHEALTHY: Final = "volcano.sh/gpu-unhealthy-ids"
_LOCK: Final = "gpu"
_NO_TIME: Final = 2**64 - 1
_PRE_START_FAILED: Final = "PreStartContainer check failed"


class Strategy(StrEnum):
    """What one device is."""

    SHARE = "share"
    """A part of a GPU's memory."""
    NUMBER = "number"
    """A GPU."""


class VolcanoPlugin(SharedGpuPlugin):
    """One life of the plugin.

    Args:
        gpus: Of the node; not empty.
        memory_mib: What every GPU is taken to have: as much as the first one.
        factor: MiB that one device stands for.
        strategy: Which resource is served.
        failures: Begins to watch the GPUs; None where their health does not count.
        access: To the API server.
        node_name: Of the plugin's own node.
    """

    def __init__(
        self,
        gpus: Sequence[Gpu],
        memory_mib: int,
        factor: int,
        strategy: Strategy,
        failures: Failures | None,
        access: ServerAccess,
        node_name: str,
    ) -> None:
        is_shared = strategy is Strategy.SHARE
        super().__init__(MEMORY if is_shared else NUMBER, SOCKET, (), failures, access, node_name)
        self._gpus = tuple(gpus)
        self._memory_mib = memory_mib
        self._factor = factor
        self._is_shared = is_shared
        self._is_known = False
        ids = (f"{gpu.index}-{number}" for gpu in gpus for number in range(memory_mib // factor if is_shared else 0))
        self._parts = tuple(Device(DeviceID(device_id)) for device_id in ids)

    async def begin(self) -> None:
        """Where memory is shared, write how many GPUs there are."""
        if not self._is_shared:
            return
        try:
            await polled(partial(self.node.merge_amounts, {NUMBER: len(self._gpus)}))
        except ApiError as error:
            raise StartError(f"failed to patch gpu resource: {error}") from None

    async def health_changed(self) -> None:
        """Write into the node's annotations which GPUs have failed since the start, and nothing where none has."""
        indices = ",".join(str(gpu.index) for gpu in self._gpus if gpu.uuid in self.unhealthy)
        try:
            await polled(partial(self.node.annotate, {_UNHEALTHY: indices or None}, with_status=True))
        except ApiError as error:
            _log.error("failed to patch volcano unhealthy gpu list %s: %s", indices, error)

    async def all_quiet(self) -> None:
        """The first time, take back what an earlier start wrote."""
        if not self._is_known:
            self._is_known = True
            await self.health_changed()

    def listed(self) -> DeviceList:
        """The devices as they are now; parts of a GPU stay healthy, only the node's annotation tells."""
        if self._is_shared:
            return self._parts
        return tuple(
            Device(
                DeviceID(gpu.uuid),
                Health.UNHEALTHY if gpu.uuid in self.unhealthy else Health.HEALTHY,
                () if gpu.numa_node is None else (gpu.numa_node,),
            )
            for gpu in self._gpus
        )

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> list[api.ContainerAllocateResponse]:
        """Find the pod that is meant, name its GPUs, mark it as served; the scheduler's lock goes in any case.

        Raises:
            AllocationRefusedError: There is no such pod, it names no GPU, or it cannot be marked.
        """
        pods = await self._pending_pods()
        try:
            pod = self._meant(pods, len(requests[0]) if requests else 0)
            visible = ",".join(map(str, self._indices(pod)))
            if error := await self._mark(pod):
                raise AllocationRefusedError(f"failed to update pod annotation {error}")
        finally:
            await self.node.release(_LOCK)
        envs = {"NVIDIA_VISIBLE_DEVICES": visible, "VOLCANO_GPU_MEMORY_TOTAL": str(self._memory_mib)}
        return answers(requests, envs, "VOLCANO_GPU_ALLOCATED", self._factor)

    async def _pending_pods(self) -> list[Pod]:
        found: list[Pod] = []

        async def ask() -> None:
            found[:] = await self.pending_pods()

        try:
            await polled(ask)
        except ApiError:
            raise AllocationRefusedError("kube interactor timedout: timed out waiting for the condition") from None
        return found

    def _meant(self, pods: Sequence[Pod], size: int) -> Pod:
        resource = str(self.resource_name)
        for pod in oldest_first((pod for pod in pods if _waits(pod, resource)), _predicate_time):
            if size in (limit for limit in pod.limits(resource) if limit > 0):
                return pod
        raise AllocationRefusedError("failed to find candidate pod")

    def _indices(self, pod: Pod) -> list[int]:
        try:
            indices = [int(text) for text in pod.annotations.get(_INDEX, "").split(",")]
        except ValueError:
            raise AllocationRefusedError("failed to find gpu ids") from None
        if not set(indices) <= {gpu.index for gpu in self._gpus}:
            raise AllocationRefusedError("failed to find gpu device")
        return indices

    async def _mark(self, pod: Pod) -> ApiError | None:
        try:
            pod = Pod(await self.api.get(pod.path))
        except ApiError as error:
            return error
        return await self.replace(pod, {_ASSIGNED: "true"})


def _waits(pod: Pod, resource: str) -> bool:
    waiting: list[dict[str, Any]] = [
        one.get("state", {}).get("waiting") or {} for one in pod.status.get("containerStatuses") or ()
    ]
    is_lost = (
        pod.is_deleting
        or pod.status.get("reason") == "UnexpectedAdmissionError"
        or any(_PRE_START_FAILED in state.get("message", "") for state in waiting)
    )
    return sum(pod.limits(resource)) > 0 and pod.annotations.get(_ASSIGNED, "false") == "false" and not is_lost


def _predicate_time(pod: Pod) -> int:
    time = unsigned(pod.annotations.get(_PREDICATE_TIME))
    return _NO_TIME if time is None else time
