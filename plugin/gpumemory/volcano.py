"""Volcano's ``volcano.sh/gpu-memory`` and ``volcano.sh/gpu-number``: parts of GPUs, or whole ones.

Its `run_vgpu` runs the three plugins of `vgpu`.

Source: github.com/volcano-sh/devices at 95b591b: main.go, pkg/apis/config.go and pkg/plugin/nvidia; cmd/vgpu/main.go of
volcano-vgpu-device-plugin at 4fb76ba.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.documents import load_yaml, read_file
from simkubelet.apis.integers import parse_int

from ..apiserver import ApiError, ServerAccess
from ..command.launch import launch
from ..command.options import CommonOptions
from ..errors import FatalError
from ..framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    OnSignal,
    StartError,
)
from ..framework.restart_policy import ORIGINAL
from ..nvml.events import XidPolicy
from ..nvml.library import NvmlLibrary
from ..nvml.nvml import Nvml
from .api_objects import Pod, oldest_first, polled, unsigned
from .gpus import Gpu, api_server, gpus_of_node, ignored_by_sharing_plugins, xid_failures
from .shared_gpu import Failures, SharedGpuPlugin, answers
from .vgpu import VgpuAccountPlugin, VgpuNumberPlugin, VgpuSettings

__all__ = ["Strategy", "VolcanoPlugin", "VolcanoSettings", "run_gpu", "run_vgpu"]

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
    """The plugin from one start to the next.

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
        """The devices as they are now; parts of a GPU stay healthy, only the node's annotation changes."""
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
            indices = [parse_int(text) for text in pod.annotations.get(_INDEX, "").split(",")]
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


_FATAL: Final = 255
_PANIC: Final = 2
_VERSION: Final = "v1beta1"
_POLICY: Final = replace(
    ORIGINAL,
    retry_s=0.1,
    signals=dict.fromkeys((signal.SIGHUP, signal.SIGINT, signal.SIGTERM), OnSignal.STOP),
    stop_status=_FATAL,
)


@dataclass(frozen=True, slots=True)
class VolcanoSettings:
    """The settings of gpu-memory and gpu-number as given."""

    strategy: str
    memory_factor: int
    config_file: Path | None

    def check(self) -> None:
        """Look at the file, whose content is then not used.

        Raises:
            FatalError: It cannot be read, or is of another version.
        """
        if self.config_file is None:
            return
        import yaml

        where = "unable to load config: unable to finalize config: unable to parse config file"
        try:
            content = load_yaml(read_file(self.config_file))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise FatalError(f"{where}: {' '.join(str(error).split())}") from None
        version = content.get("version") if isinstance(content, dict) else None
        if version not in (None, "", _VERSION):
            raise FatalError(f"{where}: error parsing config file: unknown version: {version}")


def run_gpu(settings: VolcanoSettings, environment: Mapping[str, str], options: CommonOptions) -> int:
    """Serve gpu-memory or gpu-number until the end; see `launch`."""
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))
    node = environment.get("NODE_NAME", "")
    strategy = Strategy.SHARE if settings.strategy == Strategy.SHARE else Strategy.NUMBER
    memory_mib = 0

    def build() -> list[VolcanoPlugin]:
        nonlocal memory_mib
        settings.check()
        gpus = gpus_of_node(nvml, sysfs)
        access = api_server(_FATAL)
        if not gpus:
            return []
        # What the first GPU had at the first start is kept.
        memory_mib = memory_mib or gpus[0].memory_mib
        failures = _failures(nvml, gpus, environment)
        return [VolcanoPlugin(gpus, memory_mib, settings.memory_factor, strategy, failures, access, node)]

    return launch(options, _POLICY, build)


def run_vgpu(settings: VgpuSettings, environment: Mapping[str, str], options: CommonOptions) -> int:
    """Serve the three resources of vgpu until the end; see `launch`."""
    nvml, sysfs = NvmlLibrary(), options.on_host(Path("/sys"))
    node = environment.get("NODE_NAME", "")

    def build() -> Sequence[DevicePlugin]:
        gpus = gpus_of_node(nvml, sysfs)
        access = api_server(1)
        if not gpus:
            return []
        policy = XidPolicy.from_environment(environment)
        uuids = [gpu.uuid for gpu in gpus]
        failures = None if policy.ignores_everything else partial(xid_failures, nvml, uuids, policy.ignores, 1)
        return [
            VgpuNumberPlugin(gpus, settings, failures, access, node),
            VgpuAccountPlugin.of_memory(gpus, settings, failures, access, node),
            VgpuAccountPlugin.of_cores(gpus, settings, failures, access, node),
        ]

    return launch(options, ORIGINAL, build)


def _failures(nvml: Nvml, gpus: Sequence[Gpu], environment: Mapping[str, str]) -> Failures | None:
    disabled = environment.get("DP_DISABLE_HEALTHCHECKS", "").lower()
    if disabled == "all" or "xids" in disabled:
        return None
    return partial(xid_failures, nvml, [gpu.uuid for gpu in gpus], ignored_by_sharing_plugins, _PANIC)
