"""Volcano's ``volcano.sh/vgpu-number``, ``vgpu-memory`` and ``vgpu-cores``: GPUs split by HAMi's library.

This plugin allocates the devices of ``vgpu-number`` only; the other two are for the scheduler's accounting. What a
container gets is in an annotation of the pod, in which the scheduler writes down the shares that are still to be given:
``uuid,type,memory,cores:`` for each device, a ``;`` between containers. What has been given is erased there.

Source: github.com/Project-HAMi/volcano-vgpu-device-plugin at 4fb76ba: pkg/plugin/server.go, register.go,
pkg/util/util.go, ``DecodePodDevices``, ``EncodePodDevices``; its mode "hami-core".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from simkubelet.apis import deviceplugin as api

from ..apiserver import ApiError, ServerAccess
from ..command.options import on_host
from ..framework import AllocationRefusedError, DeviceID, PluginOptions
from .api_objects import Pod, unsigned
from .gpus import Gpu
from .shared_gpu import Failures, SharedGpuPlugin

__all__ = ["Share", "VgpuAccountPlugin", "VgpuNumberPlugin", "VgpuSettings", "read_shares", "written_shares"]


_log = logging.getLogger(__name__)

NUMBER: Final = "volcano.sh/vgpu-number"
MEMORY: Final = "volcano.sh/vgpu-memory"
CORES: Final = "volcano.sh/vgpu-cores"
_NODE: Final = "volcano.sh/vgpu-node"
_TIME: Final = "volcano.sh/vgpu-time"
_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
_BIND_PHASE: Final = "volcano.sh/bind-phase"
_REGISTER: Final = "volcano.sh/node-vgpu-register"
_LOCK: Final = "hamivgpu"
_TYPE: Final = "NVIDIA"
_ANY_GPU: Final = "GPU"
_CACHE_FOLDER: Final = "/tmp/vgpu"  # noqa: S108  # in the container
_LOCK_FOLDER: Final = "/tmp/vgpulock"  # noqa: S108  # on the node and in the container
_NO_TIME: Final = 2**64 - 1
_REGISTER_EVERY_S: Final = 30.0
_OPTIONS: Final = PluginOptions(preferred_allocation_available=True, in_registration=True)


@dataclass(frozen=True, slots=True)
class VgpuSettings:
    """How GPUs are split.

    Attributes:
        split_count: Containers that may share a GPU.
        memory_factor: MiB that one device of vgpu-memory stands for.
        cores_scaling: More than 1 lets containers together have more than a GPU.
        hook_path: The folder of HAMi's library on the node.
        host_root: Where the plugin sees the node's root file system.
        modes: Variables that are set to ``enabled`` in every container.
    """

    split_count: int = 2
    memory_factor: int = 1
    cores_scaling: float = 1.0
    hook_path: str = ""
    host_root: Path = Path("/")
    modes: tuple[str, ...] = ("NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED")


@dataclass(frozen=True, slots=True)
class Share:
    """One device of a container: blocks of a GPU's memory, percent of its cores."""

    uuid: str
    type: str
    memory: int
    cores: int

    @classmethod
    def read(cls, text: str) -> Share:
        """The part before a colon; a number that is none is 0."""
        uuid, type_, memory, cores, *_ = (*text.split(","), "", "", "")
        return cls(uuid, type_, unsigned(memory) or 0, unsigned(cores) or 0)

    def __str__(self) -> str:
        return f"{self.uuid},{self.type},{self.memory},{self.cores}:"


def read_shares(text: str) -> list[list[Share]]:
    """For each container what it is to get; no container where nothing is written."""
    return [
        [Share.read(part) for part in shares.split(":") if "," in part] for shares in (text.split(";") if text else ())
    ]


def written_shares(containers: Iterable[Iterable[Share]]) -> str:
    """The annotation for these."""
    return ";".join("".join(map(str, shares)) for shares in containers)


class _VgpuPlugin(SharedGpuPlugin):
    """What the three resources have in common."""

    options = _OPTIONS

    def preferred(self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int) -> None:
        """No answer, although the option offers one."""
        return


class VgpuAccountPlugin(_VgpuPlugin):
    """vgpu-memory or vgpu-cores: devices that are counted, and give a container nothing."""

    @classmethod
    def of_memory(
        cls, gpus: Sequence[Gpu], settings: VgpuSettings, failures: Failures | None, access: ServerAccess, node: str
    ) -> VgpuAccountPlugin:
        """A device for each block of every GPU's memory."""
        devices = (
            (f"{gpu.uuid}-memory-{number}", gpu.uuid)
            for gpu in gpus
            for number in range(gpu.memory_mib // settings.memory_factor)
        )
        return cls(MEMORY, _socket(MEMORY), devices, failures, access, node)

    @classmethod
    def of_cores(
        cls, gpus: Sequence[Gpu], settings: VgpuSettings, failures: Failures | None, access: ServerAccess, node: str
    ) -> VgpuAccountPlugin:
        """A device for each percent of every GPU's cores."""
        count = int(100 * settings.cores_scaling)
        devices = ((f"{gpu.uuid}-core-{number}", gpu.uuid) for gpu in gpus for number in range(count))
        return cls(CORES, _socket(CORES), devices, failures, access, node)

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> list[api.ContainerAllocateResponse]:
        """Nothing for anybody."""
        _refuse_several(requests)
        return [api.ContainerAllocateResponse() for _ in requests]


class VgpuNumberPlugin(_VgpuPlugin):
    """vgpu-number: the shares of GPUs that the scheduler has written down."""

    def __init__(
        self,
        gpus: Sequence[Gpu],
        settings: VgpuSettings,
        failures: Failures | None,
        access: ServerAccess,
        node_name: str,
    ) -> None:
        devices = ((f"{gpu.uuid}-{number}", gpu.uuid) for gpu in gpus for number in range(settings.split_count))
        super().__init__(NUMBER, _socket(NUMBER), devices, failures, access, node_name)
        self._gpus = tuple(gpus)
        self._settings = settings

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Keep the node's annotation that says which GPUs there are."""
        async with super().lifespan():
            registering = asyncio.create_task(self._keep_registered())
            try:
                yield
            finally:
                registering.cancel()
                with suppress(asyncio.CancelledError):
                    await registering

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> list[api.ContainerAllocateResponse]:
        """Give the next container of the oldest pod that waits for as many devices what the scheduler wrote down.

        Raises:
            AllocationRefusedError: There is no such pod, or its annotation does not fit.
        """
        _refuse_several(requests)
        size = len(requests[0]) if requests else 0
        try:
            pod = await self._meant(size)
        except (ApiError, LookupError) as error:
            await self.node.release(_LOCK)
            raise AllocationRefusedError(str(error.args[0])) from None
        try:
            answer = await self._next_container(pod, size)
        except (ApiError, LookupError) as error:
            await self._conclude(pod, "failed")
            raise AllocationRefusedError(str(error.args[0])) from None
        await self._succeed(pod)
        return [answer]

    async def _meant(self, size: int) -> Pod:
        """Whatever its phase is: the pod need not even be bound."""
        pods = [Pod(body) for body in (await self.api.get("/api/v1/pods")).get("items") or ()]
        fitting = [
            pod
            for pod in pods
            if pod.annotations.get(_NODE) == self.node.name and sum(map(len, _to_allocate(pod))) == size
        ]
        if not fitting:
            raise LookupError("cannot get valid pod")
        # Of several with one time the first, unless the last of all, with which the original's search begins, has it.
        return min((fitting[-1], *fitting), key=_vgpu_time)

    async def _next_container(self, pod: Pod, size: int) -> api.ContainerAllocateResponse:
        waiting = _to_allocate(pod)
        turn = next((turn for turn, shares in enumerate(waiting) if any(share.type == _TYPE for share in shares)), None)
        if turn is None:
            raise LookupError("device request not found")
        shares = [share for share in waiting[turn] if share.type == _TYPE]
        if len(shares) != size:
            raise LookupError("device number not matched")
        waiting[turn] = [share for share in waiting[turn] if share.type != _TYPE]
        await self._annotate(pod, {_TO_ALLOCATE: written_shares(waiting)})
        container = pod.containers[turn]
        return api.ContainerAllocateResponse(
            envs=self._envs(shares),
            mounts=self._mounts(
                f"{pod.uid}_{container['name']}",
                has_control=all(one["name"] != "CUDA_DISABLE_CONTROL" for one in container.get("env") or ()),
            ),
        )

    def _envs(self, shares: Sequence[Share]) -> dict[str, str]:
        limits = {
            f"CUDA_DEVICE_MEMORY_LIMIT_{number}": f"{share.memory * self._settings.memory_factor}m"
            for number, share in enumerate(shares)
        }
        return {
            **dict.fromkeys(self._settings.modes, "enabled"),
            "NVIDIA_VISIBLE_DEVICES": ",".join(dict.fromkeys(share.uuid for share in shares)),
            **limits,
            "CUDA_DEVICE_SM_LIMIT": str(shares[0].cores),
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{_CACHE_FOLDER}/{uuid4()}.cache",
            **({"CUDA_OVERSUBSCRIBE": "true"} if self._settings.cores_scaling > 1 else {}),
        }

    def _mounts(self, cache: str, *, has_control: bool) -> list[api.Mount]:
        hook = self._settings.hook_path
        cache = f"{hook}/vgpu/containers/{cache}"
        for folder in (cache, _LOCK_FOLDER):
            self._make_folder(folder)
        mounts = [
            api.Mount(container_path="/usr/local/vgpu/libvgpu.so", host_path=f"{hook}/libvgpu.so", read_only=True),
            api.Mount(container_path=_CACHE_FOLDER, host_path=cache),
            api.Mount(container_path=_LOCK_FOLDER, host_path=_LOCK_FOLDER),
        ]
        if has_control:
            preload = f"{hook}/ld.so.preload"
            mounts.append(api.Mount(container_path="/etc/ld.so.preload", host_path=preload, read_only=True))
        return mounts

    def _make_folder(self, path: str) -> None:
        """Make a folder on the node that a container mounts and everybody may write."""
        folder = on_host(self._settings.host_root, path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)
        except OSError as error:
            _log.error("cannot make the folder %s: %s", folder, error.strerror)

    async def _succeed(self, pod: Pod) -> None:
        """Say that the pod has all that it is to have, once that is so."""
        try:
            seen = Pod(await self.api.get(pod.path))
        except ApiError as error:
            _log.error("get pod %s failed: %s", pod.name, error)
            return
        if _ANY_GPU not in seen.annotations.get(_TO_ALLOCATE, ""):
            await self._conclude(pod, "success")

    async def _conclude(self, pod: Pod, phase: str) -> None:
        try:
            await self._annotate(pod, {_BIND_PHASE: phase, _TIME: str(_NO_TIME)})
        except ApiError as error:
            _log.error("patchPodAnnotations failed: %s", error)
        await self.node.release(_LOCK)

    async def _annotate(self, pod: Pod, annotations: dict[str, str]) -> None:
        await self.api.patch(pod.path, {"metadata": {"annotations": annotations}})

    async def _keep_registered(self) -> None:
        while True:
            try:
                known = (await self.node.get())["metadata"].get("annotations") or {}
                if known.get(_REGISTER) != self._registered():
                    await self.node.annotate({_REGISTER: self._registered()})
            except ApiError as error:
                _log.error("patch node error: %s", error)
            await asyncio.sleep(_REGISTER_EVERY_S)

    def _registered(self) -> str:
        settings = self._settings
        return "".join(
            f"{gpu.uuid},{settings.split_count},{gpu.memory_mib // settings.memory_factor},NVIDIA-{gpu.name},"
            f"{str(gpu.uuid not in self.unhealthy).lower()},hami-core:"
            for gpu in sorted(self._gpus, key=lambda gpu: gpu.minor)
        )


def _socket(resource: str) -> str:
    return f"nvidia-{resource.partition('/')[2]}.sock"


def _refuse_several(requests: Sequence[Sequence[DeviceID]]) -> None:
    if len(requests) > 1:
        raise AllocationRefusedError("multiple Container Requests not supported")


def _to_allocate(pod: Pod) -> list[list[Share]]:
    return read_shares(pod.annotations.get(_TO_ALLOCATE, ""))


def _vgpu_time(pod: Pod) -> int:
    time = unsigned(pod.annotations.get(_TIME))
    return _NO_TIME if time is None else time
