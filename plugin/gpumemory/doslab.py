"""doslab's ``doslab.io/gpu-memory``: a device for each MiB of every GPU.

The article about it promises more than its code does, or another thing; `DoslabOriginal` does what the code does.

Source: github.com/PTTQ/kube-device-plugin-mini at 8fbcf98, and at 02e6a55 for what the article is about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from simkubelet.apis import deviceplugin as api

from ..apiserver import ApiError, ServerAccess
from ..errors import FatalError
from ..framework import AllocationRefusedError, DeviceID, DeviceList, StartError
from .api_objects import Pod, oldest_first, unsigned
from .gpus import Gpu
from .shared_gpu import SharedGpuPlugin, answers, total

__all__ = ["DoslabOriginal", "DoslabPlugin"]

_log = logging.getLogger(__name__)

RESOURCE: Final = "doslab.io/gpu-memory"
SOCKET: Final = "doslab.sock"
_GPU_COUNT: Final = "doslab.io/gpu-count"
_GPU_CORE: Final = "doslab.io/gpu-core"
_CORES_PER_GPU: Final = 100
_NO_TIME: Final = 2**64 - 1
_PANIC_STATUS: Final = 2


@dataclass(frozen=True, slots=True)
class Annotations:
    """How the annotations are called by which scheduler and plugin talk to each other."""

    assume_time: str
    assigned: str
    uuid: str


class DoslabPlugin(SharedGpuPlugin):
    """The plugin of the article: an empty list at its end, pods in the order of their assume time."""

    last_list: DeviceList | None = ()
    annotations: ClassVar[Annotations] = Annotations(
        "DOSLAB_IO_GPU_ASSUME_TIME", "DOSLAB_IO_GPU_ASSIGNED", "DOSLAB_IO_GPU_UUID"
    )

    def __init__(self, gpus: Sequence[Gpu], access: ServerAccess, node_name: str) -> None:
        devices = ((f"fakeID---{gpu.index}---{number}", gpu.uuid) for gpu in gpus for number in range(gpu.memory_mib))
        super().__init__(RESOURCE, SOCKET, devices, None, access, node_name)
        self._memory_mib = sum(gpu.memory_mib for gpu in gpus)
        self._gpu_count = len(gpus)

    async def begin(self) -> None:
        await self._report(self._gpu_count)

    async def end(self) -> None:
        try:
            await self._report(0)
        except (FatalError, StartError) as error:
            _log.warning("%s", error)

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> list[api.ContainerAllocateResponse]:
        """Find the pod that is meant, mark it as served, name its GPU.

        Raises:
            AllocationRefusedError: There is no such pod, or it cannot be marked.
        """
        size = total(requests)
        pod = self._meant(await self._pending_pods(), size)
        gpu = pod.annotations.get(self.annotations.uuid, "")
        if not gpu:
            _log.warning("Failed to get gpu id for pod %s in ns %s.", pod.name, pod.namespace)
        pod, more = await self._prepared(pod)
        if error := await self.replace(pod, {self.annotations.assigned: "true"}):
            _log.warning("Failed to update pod annotation: %s", error)
            raise AllocationRefusedError("failed to update pod annotation")
        envs = {
            **more,
            "NVIDIA_VISIBLE_DEVICES": gpu,
            "DOSLAB_IO_GPU_UUID": gpu,
            "DOSLAB_IO_GPU_RESOURCE_USED_BY_POD": str(size),
            "DOSLAB_IO_GPU_RESOURCE_TOTAL": str(self._memory_mib),
        }
        _log.info("Pod %s in ns %s allocate gpu successed.", pod.name, pod.namespace)
        return answers(requests, envs, "DOSLAB_IO_GPU_RESOURCE_USED_BY_CONTAINER")

    def candidates(self, pending: Sequence[Pod]) -> list[Pod]:
        """The pods that wait for their GPU, out of those that are pending on this node."""
        return [pod for pod in pending if self._waits(pod)]

    async def _prepared(self, pod: Pod) -> tuple[Pod, dict[str, str]]:
        """The pod when all that it needs is there, and what else its containers get in their environment."""
        return pod, {}

    def _meant(self, pending: Sequence[Pod], size: int) -> Pod:
        candidates = self.candidates(pending)
        if not candidates:
            raise AllocationRefusedError("not found candidate pod")
        for pod in oldest_first(candidates, self._assume_time):
            if sum(pod.limits(RESOURCE)) == size:
                return pod
        raise AllocationRefusedError("not found assume pod")

    def _waits(self, pod: Pod) -> bool:
        is_assumed = self.annotations.assume_time in pod.annotations
        return (
            sum(pod.limits(RESOURCE)) > 0 and is_assumed and pod.annotations.get(self.annotations.assigned) == "false"
        )

    def _assume_time(self, pod: Pod) -> int:
        time = unsigned(pod.annotations.get(self.annotations.assume_time))
        return _NO_TIME if time is None else time

    async def _pending_pods(self) -> list[Pod]:
        """As listed: all of the cluster's, of which those of this node count."""
        try:
            listed = await self.api.get("/api/v1/pods")
        except ApiError as error:
            _log.warning("Failed to list pods: %s", error)
            raise AllocationRefusedError("not found candidate pod") from None
        pods = map(Pod, listed.get("items") or ())
        return [pod for pod in pods if pod.node == self.node.name and pod.is_pending]

    async def _report(self, gpus: int) -> None:
        """Report to the API server how many GPUs there are.

        Raises:
            StartError: It does not take that.
        """
        try:
            await self.node.replace_amounts({_GPU_COUNT: gpus, _GPU_CORE: _CORES_PER_GPU * gpus})
        except ApiError as error:
            if error.status is None:
                raise FatalError(f"the API server cannot be reached: {error}", _PANIC_STATUS) from None
            _log.warning("Failed to update %s and %s: %s", _GPU_COUNT, _GPU_CORE, error)
            raise StartError("patch node status fail") from None


class DoslabOriginal(DoslabPlugin):
    """The plugin as it is."""

    last_list: DeviceList | None = None
    annotations: ClassVar[Annotations] = Annotations(
        "doslab.io/gpu-assume-time", "doslab.io/gpu-assigned", "doslab.io/gpu-uuid"
    )
    _GEM_SCHEDULER: ClassVar = "doslab.io/gem-scheduler-ip"
    _GEM_PORT: ClassVar = "doslab.io/gem-podmanager-port"
    _TRIES: ClassVar = 100
    _TRY_S: ClassVar = 0.1

    def __init__(self, gpus: Sequence[Gpu], access: ServerAccess, node_name: str, kubelet_dir: Path) -> None:
        super().__init__(gpus, access, node_name)
        self._socket = kubelet_dir / SOCKET

    async def begin(self) -> None:
        """Report the GPUs; a socket that an earlier process left is in the way."""
        await super().begin()
        if self._socket.exists():
            raise StartError(f"listen unix {self._socket}: bind: address already in use")

    def candidates(self, pending: Sequence[Pod]) -> list[Pod]:
        """As often as there are candidates the last pod that is pending, whichever that is.

        The original keeps the address of its loop's variable, which Go reused for every turn before 1.22.
        """
        return [pending[-1] for _ in super().candidates(pending)]

    async def _prepared(self, pod: Pod) -> tuple[Pod, dict[str, str]]:
        """Wait until the pod's gem scheduler and pod manager are known."""
        for _ in range(self._TRIES):
            try:
                seen = Pod(await self.api.get(pod.path))
            except ApiError as error:
                _log.warning("Failed to get pod %s, on ns %s: %s", pod.name, pod.namespace, error)
            else:
                scheduler, port = seen.annotations.get(self._GEM_SCHEDULER), seen.annotations.get(self._GEM_PORT)
                if scheduler and port:
                    return seen, {
                        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
                        "LD_PRELOAD": "/kubeshare/library/libgemhook.so.1",
                        "POD_MANAGER_IP": scheduler,
                        "POD_MANAGER_PORT": port,
                        "POD_NAME": seen.name,
                    }
            await asyncio.sleep(self._TRY_S)
        raise AllocationRefusedError("no gem-scheduler-ip, gem-podmanager-port or gem-file")
