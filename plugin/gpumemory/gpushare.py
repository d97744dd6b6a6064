"""Aliyun's ``aliyun.com/gpu-mem``: as many devices on every GPU as the first one has GiB, or MiB.

It never refuses: a container that cannot be served gets variables with which its runtime will not start it.

The original looks for its token even where it never asks the kubelet; this one does not.

Source: cmd/nvidia/main.go and pkg/gpu/nvidia of github.com/AliyunContainerService/gpushare-device-plugin at 45fb8b8.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api

from ..apiserver import SERVICE_ACCOUNT, ApiClient, ApiError, ServerAccess, unverified
from ..command.launch import launch
from ..command.options import CommonOptions
from ..command.process import set_up_logging
from ..errors import FatalError
from ..framework import DeviceID, OnSignal
from ..framework.restart_policy import ORIGINAL
from ..nvml.library import NvmlLibrary
from .api_objects import Pod, amount, oldest_first, unsigned
from .gpus import Gpu, api_server, gpus_of_node, ignored_by_sharing_plugins, wait_for_ever, xid_failures
from .shared_gpu import Failures, SharedGpuPlugin, answers, total

__all__ = ["GpusharePlugin", "GpushareSettings", "MemoryUnit", "run"]

_log = logging.getLogger(__name__)

RESOURCE: Final = "aliyun.com/gpu-mem"
SOCKET: Final = "aliyungpushare.sock"
_COUNT: Final = "aliyun.com/gpu-count"
_ASSUME_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
_ASSIGNED: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
_INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
_ISOLATION_LABEL: Final = "cgpu.disable.isolation"
_API_RETRIES: Final = 3
_API_RETRY_S: Final = 1.0
_KUBELET_RETRIES: Final = 8
_KUBELET_RETRY_S: Final = 0.1
_CREATING_FAILED: Final = 1


class MemoryUnit(StrEnum):
    """What one device stands for."""

    GIB = "GiB"
    MIB = "MiB"

    def of(self, memory_mib: int) -> int:
        """How many of these a GPU has."""
        return memory_mib // 1024 if self is MemoryUnit.GIB else memory_mib


class GpusharePlugin(SharedGpuPlugin):
    """The plugin from one start to the next; `memory` is what the first GPU had when the process began."""

    def __init__(
        self,
        gpus: Sequence[Gpu],
        memory: int,
        unit: MemoryUnit,
        failures: Failures | None,
        access: ServerAccess,
        node_name: str,
        kubelet: ServerAccess | None = None,
    ) -> None:
        devices = ((f"{gpu.uuid}-_-{number}", gpu.uuid) for gpu in gpus for number in range(memory))
        super().__init__(RESOURCE, SOCKET, devices, failures, access, node_name)
        self._gpus = tuple(gpus)
        self._memory = memory
        self._unit = unit
        self._kubelet = kubelet
        self._more: dict[str, str] = {}
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Write how many GPUs there are, where that is not known; see whether cGPU's isolation is off here."""
        try:
            node = await self.node.get()
            known = ((node.get("status") or {}).get("capacity") or {}).get(_COUNT)
            if known is None or amount(known) != len(self._gpus):
                await self.node.merge_amounts({_COUNT: len(self._gpus)})
        except ApiError as error:
            raise FatalError(f"Failed to get device plugin due to {error}", _CREATING_FAILED) from None
        if (node["metadata"].get("labels") or {}).get(_ISOLATION_LABEL) == "true":
            self._more = {"CGPU_DISABLE": "true"}

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> list[api.ContainerAllocateResponse]:
        """Find the pod that is meant, name its GPU, mark it as served; with a single GPU no pod need be found."""
        async with self._turn:
            size = total(requests)
            try:
                pod = await self._meant(size)
                if pod is not None:
                    return self._given(requests, *await self._chosen(pod))
            except (ApiError, LookupError) as error:
                _log.warning("invalid allocation requst: %s", error)
                return self._poisoned(requests, size)
            if len(self._gpus) == 1:
                return self._given(requests, self._gpus[0].uuid, self._gpus[0].minor)
            _log.warning("invalid allocation requst: request GPU memory %d can't be satisfied.", size)
            return self._poisoned(requests, size)

    async def _meant(self, size: int) -> Pod | None:
        pods = {pod.uid: pod for pod in await self._pending_pods() if pod.node == self.node.name}
        waiting = [pod for pod in pods.values() if _waits(pod)]
        for pod in oldest_first(waiting, _assume_time):
            if sum(pod.limits(RESOURCE)) == size:
                return pod
        return None

    async def _chosen(self, pod: Pod) -> tuple[str, int]:
        """The GPU that a pod is to have, once the pod is marked."""
        text = pod.annotations.get(_INDEX)
        index = unsigned(text)
        if index not in {gpu.minor for gpu in self._gpus}:
            raise LookupError(f"Failed to find the dev for pod {pod.name}: no GPU with index {text}")
        marks = {_ASSIGNED: "true", _ASSUME_TIME: str(time.time_ns())}
        await self.api.patch(pod.path, {"metadata": {"annotations": marks}})
        return str(index), index

    async def _pending_pods(self) -> list[Pod]:
        if self._kubelet is not None:
            for attempt in range(_KUBELET_RETRIES + 1):
                if attempt:
                    await asyncio.sleep(_KUBELET_RETRY_S)
                if pods := await self._pods_of(self._kubelet):
                    return pods
            _log.warning("not found from kubelet /pods api, start to list apiserver")
        for _ in range(_API_RETRIES):
            try:
                return await self.pending_pods()
            except ApiError as error:
                _log.warning("Failed to list pods: %s", error)
                await asyncio.sleep(_API_RETRY_S)
        return await self.pending_pods()

    async def _pods_of(self, kubelet: ServerAccess) -> list[Pod]:
        """What the kubelet itself knows to be pending; nothing where it does not say."""
        try:
            async with ApiClient(kubelet) as client:
                listed = await client.get("/pods/")
        except ApiError as error:
            _log.warning("failed to get pending pod list, retry: %s", error)
            return []
        return [pod for pod in map(Pod, listed.get("items") or ()) if pod.is_pending]

    def _given(
        self, requests: Sequence[Sequence[DeviceID]], visible: str, index: int
    ) -> list[api.ContainerAllocateResponse]:
        return self._answers(requests, visible, str(index), self._more)

    def _poisoned(self, requests: Sequence[Sequence[DeviceID]], size: int) -> list[api.ContainerAllocateResponse]:
        return self._answers(requests, f"no-gpu-has-{size}{self._unit}-to-run", "-1", {})

    def _answers(
        self, requests: Sequence[Sequence[DeviceID]], visible: str, index: str, more: dict[str, str]
    ) -> list[api.ContainerAllocateResponse]:
        envs = {
            "NVIDIA_VISIBLE_DEVICES": visible,
            _INDEX: index,
            "ALIYUN_COM_GPU_MEM_POD": str(total(requests)),
            "ALIYUN_COM_GPU_MEM_DEV": str(self._memory),
            **more,
        }
        return answers(requests, envs, "ALIYUN_COM_GPU_MEM_CONTAINER")


def _waits(pod: Pod) -> bool:
    return (
        sum(pod.limits(RESOURCE)) > 0 and _ASSUME_TIME in pod.annotations and pod.annotations.get(_ASSIGNED) == "false"
    )


def _assume_time(pod: Pod) -> int:
    """0, the earliest, where it cannot be read."""
    return unsigned(pod.annotations.get(_ASSUME_TIME)) or 0


_FATAL: Final = 255
_POLICY: Final = replace(
    ORIGINAL,
    attempts=1,
    failed_status=2,
    signals={
        signal.SIGHUP: OnSignal.RESTART,
        signal.SIGINT: OnSignal.STOP,
        signal.SIGTERM: OnSignal.STOP,
        signal.SIGQUIT: OnSignal.NOTHING,
    },
)


@dataclass(frozen=True, slots=True)
class GpushareSettings:
    """The settings as given; `kubelet` is the address of the one that is asked for pods, None where none is."""

    memory_unit: str
    health_check: bool
    kubelet: str | None
    client_cert: str
    client_key: str
    token: str
    timeout_s: int
    node_name: str


def run(settings: GpushareSettings, options: CommonOptions) -> int:
    """Serve until the end; see `launch`."""
    set_up_logging(options.log_level)
    try:
        access = api_server(_FATAL)
        if not settings.node_name:
            raise FatalError("Please set env NODE_NAME", _FATAL)
        kubelet = _kubelet(settings, options)
    except FatalError as error:
        _log.error("%s", error)
        return error.exit_status
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))
    first = _first_gpu(nvml, sysfs)
    unit = _unit(settings.memory_unit)
    memory = unit.of(first.memory_mib)
    _log.info("set gpu memory: %d", memory)

    def build() -> list[GpusharePlugin]:
        gpus = gpus_of_node(nvml, sysfs)
        failures = None
        if settings.health_check:
            uuids = [gpu.uuid for gpu in gpus]
            failures = partial(xid_failures, nvml, uuids, ignored_by_sharing_plugins, _FATAL)
        return [GpusharePlugin(gpus, memory, unit, failures, access, settings.node_name, kubelet)]

    return launch(options, _POLICY, build)


def _first_gpu(nvml: NvmlLibrary, sysfs: Path) -> Gpu:
    """The GPU by which all are measured; without one the process waits until it is ended."""
    try:
        gpus = gpus_of_node(nvml, sysfs)
    except FatalError as error:
        _log.error("%s; waiting indefinitely.", error)
        wait_for_ever()
    if not gpus:
        _log.info("No devices found. Waiting indefinitely.")
        wait_for_ever()
    return gpus[0]


def _unit(text: str) -> MemoryUnit:
    try:
        return MemoryUnit(text)
    except ValueError:
        _log.warning("Unsupported memory unit: %s, use memoryUnit Gi as default", text)
        return MemoryUnit.GIB


def _kubelet(settings: GpushareSettings, options: CommonOptions) -> ServerAccess | None:
    """Where the kubelet is asked for its pods, and as whom.

    Raises:
        FatalError: What lets in there cannot be read.
    """
    if settings.kubelet is None:
        return None
    token = settings.token
    try:
        if not (settings.client_cert or settings.client_key or token):
            token = options.on_host(SERVICE_ACCOUNT / "token").read_text().strip()
        return unverified(settings.kubelet, token, settings.client_cert, settings.client_key, settings.timeout_s)
    except OSError as error:
        raise FatalError(f"in cluster mode, find token failed, error: {error}", 2) from None
