"""NVML itself: the library that drives the GPUs, through nvidia-ml-py."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CDLL
from types import ModuleType
from typing import Any, Final, cast

from .nvml import (
    LIBRARY_NAME,
    EventSet,
    GpuHandle,
    GpuInstanceProfile,
    InstanceHandle,
    MigAttributes,
    NvmlError,
    NvmlEvent,
    NvmlReturn,
)

__all__ = ["PyNvml"]

_FEATURE_ENABLED: Final = 1
_ATS: Final = 2


class PyNvml:
    """`Nvml` through nvidia-ml-py; both are loaded once, at the first `load` or `init` that finds the library."""

    def __init__(self) -> None:
        self._library: CDLL | None = None
        self._module: ModuleType | None = None

    def load(self, library: str) -> bool:
        if self._library is None:
            try:
                self._library = CDLL(library)
            except OSError:
                return False
            # It asks the loader for the library's name, and so gets the one that this process has already.
            import pynvml

            self._module = pynvml
        return True

    def has_function(self, name: str) -> bool:
        return self._library is not None and hasattr(self._library, name)

    def init(self) -> None:
        if not self.load(LIBRARY_NAME):
            raise NvmlError(NvmlReturn.LIBRARY_NOT_FOUND, "ERROR_LIBRARY_NOT_FOUND")
        self._call("nvmlInit")

    def shutdown(self) -> None:
        self._call("nvmlShutdown")

    def gpu_count(self) -> int:
        return cast(int, self._call("nvmlDeviceGetCount"))

    def gpu_by_index(self, index: int) -> GpuHandle:
        return GpuHandle(self._call("nvmlDeviceGetHandleByIndex", index))

    def gpu_by_uuid(self, uuid: str) -> GpuHandle:
        return GpuHandle(self._call("nvmlDeviceGetHandleByUUID", uuid))

    def name(self, gpu: GpuHandle) -> str:
        return cast(str, self._call("nvmlDeviceGetName", gpu))

    def uuid(self, gpu: GpuHandle) -> str:
        return cast(str, self._call("nvmlDeviceGetUUID", gpu))

    def driver_version(self) -> str:
        return cast(str, self._call("nvmlSystemGetDriverVersion"))

    def minor_number(self, gpu: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetMinorNumber", gpu))

    def total_memory_bytes(self, gpu: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetMemoryInfo", gpu).total)

    def compute_capability(self, gpu: GpuHandle) -> tuple[int, int]:
        major, minor = self._call("nvmlDeviceGetCudaComputeCapability", gpu)
        return major, minor

    def addresses_coherently(self, gpu: GpuHandle) -> bool:
        return cast(int, self._call("nvmlDeviceGetAddressingMode", gpu)) == _ATS

    def mig_is_enabled(self, gpu: GpuHandle) -> bool:
        current, _ = self._call("nvmlDeviceGetMigMode", gpu)
        return bool(current == _FEATURE_ENABLED)

    def max_mig_device_count(self, gpu: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetMaxMigDeviceCount", gpu))

    def mig_device_by_index(self, gpu: GpuHandle, index: int) -> GpuHandle:
        return GpuHandle(self._call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, index))

    def is_mig_device(self, gpu: GpuHandle) -> bool:
        return bool(self._call("nvmlDeviceIsMigDeviceHandle", gpu))

    def parent(self, mig: GpuHandle) -> GpuHandle:
        return GpuHandle(self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig))

    def mig_attributes(self, mig: GpuHandle) -> MigAttributes:
        found = self._call("nvmlDeviceGetAttributes_v2", mig)
        return MigAttributes(
            multiprocessors=found.multiprocessorCount,
            shared_copy_engines=found.sharedCopyEngineCount,
            shared_decoders=found.sharedDecoderCount,
            shared_encoders=found.sharedEncoderCount,
            shared_jpegs=found.sharedJpegCount,
            shared_ofas=found.sharedOfaCount,
            gpu_instance_slices=found.gpuInstanceSliceCount,
            compute_instance_slices=found.computeInstanceSliceCount,
            memory_mib=found.memorySizeMB,
        )

    def gpu_instance_id(self, mig: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetGpuInstanceId", mig))

    def compute_instance_id(self, mig: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetComputeInstanceId", mig))

    def gpu_instance(self, gpu: GpuHandle, instance_id: int) -> InstanceHandle:
        return InstanceHandle(self._call("nvmlDeviceGetGpuInstanceById", gpu, instance_id))

    def gpu_instance_profile_id(self, instance: InstanceHandle) -> int:
        return cast(int, self._call("nvmlGpuInstanceGetInfo", instance).profileId)

    def gpu_instance_profile(self, gpu: GpuHandle, number: int) -> GpuInstanceProfile:
        found = self._call("nvmlDeviceGetGpuInstanceProfileInfo", gpu, number, 1)
        return GpuInstanceProfile(found.id, found.memorySizeMB)

    def compute_instance(self, gpu_instance: InstanceHandle, instance_id: int) -> InstanceHandle:
        return InstanceHandle(self._call("nvmlGpuInstanceGetComputeInstanceById", gpu_instance, instance_id))

    def compute_instance_profile_id(self, instance: InstanceHandle) -> int:
        return cast(int, self._call("nvmlComputeInstanceGetInfo", instance).profileId)

    def compute_instance_profile(self, gpu_instance: InstanceHandle, number: int, engine: int) -> int:
        found = self._call("nvmlGpuInstanceGetComputeInstanceProfileInfo", gpu_instance, number, engine, 1)
        return cast(int, found.id)

    def pci_bus_id(self, gpu: GpuHandle) -> str:
        return _sysfs_bus_id(self._call("nvmlDeviceGetPciInfo", gpu).busId)

    def common_ancestor(self, gpu: GpuHandle, other: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetTopologyCommonAncestor", gpu, other))

    def nvlink_is_enabled(self, gpu: GpuHandle, link: int) -> bool:
        return cast(int, self._call("nvmlDeviceGetNvLinkState", gpu, link)) == _FEATURE_ENABLED

    def nvlink_remote_bus_id(self, gpu: GpuHandle, link: int) -> str:
        return _sysfs_bus_id(self._call("nvmlDeviceGetNvLinkRemotePciInfo", gpu, link).busId)

    def create_event_set(self) -> EventSet:
        return EventSet(self._call("nvmlEventSetCreate"))

    def free_event_set(self, events: EventSet) -> None:
        self._call("nvmlEventSetFree", events)

    def supported_events(self, gpu: GpuHandle) -> int:
        return cast(int, self._call("nvmlDeviceGetSupportedEventTypes", gpu))

    def register_events(self, gpu: GpuHandle, event_types: int, events: EventSet) -> None:
        self._call("nvmlDeviceRegisterEvents", gpu, event_types, events)

    def wait(self, events: EventSet, timeout_ms: int) -> NvmlEvent:
        data = self._call("nvmlEventSetWait_v2", events, timeout_ms)
        return NvmlEvent(
            GpuHandle(data.device), data.eventType, data.eventData, data.gpuInstanceId, data.computeInstanceId
        )

    def _call(self, name: str, *args: object) -> Any:
        module = self._module
        if module is None:
            raise RuntimeError(f"{name} before init")
        function: Callable[..., Any] = getattr(module, name)
        try:
            return function(*args)
        except module.NVMLError as error:
            raise NvmlError(error.value, module.nvmlErrorString(error.value)) from error


def _sysfs_bus_id(bus_id: bytes | str) -> str:
    text = bus_id.decode() if isinstance(bus_id, bytes) else bus_id
    return text.lower().removeprefix("0000")
