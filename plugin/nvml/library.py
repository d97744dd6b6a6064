"""NVML itself: the library that drives the GPUs, through its C interface.

Asks it directly. nvidia-ml-py takes 11 ms of processor time and 2.4 MiB to import, this module 2.6 ms and 0.3 MiB; a
plugin's start takes 110 ms in all (docs/benchmarks.md). Nor does it load a library from ``--driver-root-ctr-path``.

Source: nvml.h of NVIDIA's driver 580 (functions with the version that the driver's own header stands for).
"""

from __future__ import annotations

from ctypes import CDLL, Structure, byref, c_char, c_char_p, c_int, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any, Final, TypeVar

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

__all__ = ["NvmlLibrary"]


class _PciInfo(Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = (
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    )


class _Memory(Structure):
    """``nvmlMemory_t``."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _AddressingMode(Structure):
    """``nvmlDeviceAddressingMode_v1_t``."""

    VERSION: Final = 0x1000008

    _fields_ = (("version", c_uint), ("value", c_uint))


class _Attributes(Structure):
    """``nvmlDeviceAttributes_t``; named as the fields of `MigAttributes`."""

    _fields_ = (
        ("multiprocessors", c_uint),
        ("shared_copy_engines", c_uint),
        ("shared_decoders", c_uint),
        ("shared_encoders", c_uint),
        ("shared_jpegs", c_uint),
        ("shared_ofas", c_uint),
        ("gpu_instance_slices", c_uint),
        ("compute_instance_slices", c_uint),
        ("memory_mib", c_ulonglong),
    )


class _GpuInstanceProfileInfo(Structure):
    """``nvmlGpuInstanceProfileInfo_t``."""

    _fields_ = (
        ("profile_id", c_uint),
        ("is_p2p_supported", c_uint),
        ("slices", c_uint),
        ("instances", c_uint),
        ("multiprocessors", c_uint),
        ("copy_engines", c_uint),
        ("decoders", c_uint),
        ("encoders", c_uint),
        ("jpegs", c_uint),
        ("ofas", c_uint),
        ("memory_mib", c_ulonglong),
    )


class _GpuInstanceInfo(Structure):
    """``nvmlGpuInstanceInfo_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("instance_id", c_uint),
        ("profile_id", c_uint),
        ("start", c_uint),
        ("size", c_uint),
    )


class _ComputeInstanceProfileInfo(Structure):
    """``nvmlComputeInstanceProfileInfo_t``."""

    _fields_ = (
        ("profile_id", c_uint),
        ("slices", c_uint),
        ("instances", c_uint),
        ("multiprocessors", c_uint),
        ("shared_copy_engines", c_uint),
        ("shared_decoders", c_uint),
        ("shared_encoders", c_uint),
        ("shared_jpegs", c_uint),
        ("shared_ofas", c_uint),
    )


class _ComputeInstanceInfo(Structure):
    """``nvmlComputeInstanceInfo_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("gpu_instance", c_void_p),
        ("instance_id", c_uint),
        ("profile_id", c_uint),
        ("start", c_uint),
        ("size", c_uint),
    )


class _EventData(Structure):
    """``nvmlEventData_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("type", c_ulonglong),
        ("data", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


_T = TypeVar("_T")

_FEATURE_ENABLED: Final = 1
_ATS: Final = 2
_NAME_BYTES: Final = 96
_VERSION_BYTES: Final = 80


class NvmlLibrary:
    """`Nvml` by the library, which is loaded once, at the first `load` or `init` that finds it."""

    def __init__(self) -> None:
        self._library: CDLL | None = None

    def load(self, library: str) -> bool:
        if self._library is None:
            try:
                self._library = CDLL(library)
            except OSError:
                return False
            self._library.nvmlErrorString.restype = c_char_p
        return True

    def has_function(self, name: str) -> bool:
        return self._library is not None and hasattr(self._library, name)

    def init(self) -> None:
        if not self.load(LIBRARY_NAME):
            raise NvmlError(NvmlReturn.LIBRARY_NOT_FOUND, "ERROR_LIBRARY_NOT_FOUND")
        self._call("nvmlInitWithFlags", 0)

    def shutdown(self) -> None:
        self._call("nvmlShutdown")

    def gpu_count(self) -> int:
        return self._number("nvmlDeviceGetCount_v2")

    def gpu_by_index(self, index: int) -> GpuHandle:
        return GpuHandle(self._given(c_void_p, "nvmlDeviceGetHandleByIndex_v2", index))

    def gpu_by_uuid(self, uuid: str) -> GpuHandle:
        return GpuHandle(self._given(c_void_p, "nvmlDeviceGetHandleByUUID", uuid.encode()))

    def name(self, gpu: GpuHandle) -> str:
        return self._text(_NAME_BYTES, "nvmlDeviceGetName", gpu)

    def uuid(self, gpu: GpuHandle) -> str:
        return self._text(_NAME_BYTES, "nvmlDeviceGetUUID", gpu)

    def driver_version(self) -> str:
        return self._text(_VERSION_BYTES, "nvmlSystemGetDriverVersion")

    def minor_number(self, gpu: GpuHandle) -> int:
        return self._number("nvmlDeviceGetMinorNumber", gpu)

    def total_memory_bytes(self, gpu: GpuHandle) -> int:
        return int(self._given(_Memory, "nvmlDeviceGetMemoryInfo", gpu).total)

    def compute_capability(self, gpu: GpuHandle) -> tuple[int, int]:
        major, minor = c_int(), c_int()
        self._call("nvmlDeviceGetCudaComputeCapability", gpu, byref(major), byref(minor))
        return major.value, minor.value

    def addresses_coherently(self, gpu: GpuHandle) -> bool:
        mode = _AddressingMode(_AddressingMode.VERSION)
        self._call("nvmlDeviceGetAddressingMode", gpu, byref(mode))
        return bool(mode.value == _ATS)

    def mig_is_enabled(self, gpu: GpuHandle) -> bool:
        current, pending = c_uint(), c_uint()
        self._call("nvmlDeviceGetMigMode", gpu, byref(current), byref(pending))
        return current.value == _FEATURE_ENABLED

    def max_mig_device_count(self, gpu: GpuHandle) -> int:
        return self._number("nvmlDeviceGetMaxMigDeviceCount", gpu)

    def mig_device_by_index(self, gpu: GpuHandle, index: int) -> GpuHandle:
        return GpuHandle(self._given(c_void_p, "nvmlDeviceGetMigDeviceHandleByIndex", gpu, index))

    def is_mig_device(self, gpu: GpuHandle) -> bool:
        return bool(self._number("nvmlDeviceIsMigDeviceHandle", gpu))

    def parent(self, mig: GpuHandle) -> GpuHandle:
        return GpuHandle(self._given(c_void_p, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig))

    def mig_attributes(self, mig: GpuHandle) -> MigAttributes:
        found = self._given(_Attributes, "nvmlDeviceGetAttributes_v2", mig)
        return MigAttributes(*(getattr(found, name) for name, _ in _Attributes._fields_))

    def gpu_instance_id(self, mig: GpuHandle) -> int:
        return self._number("nvmlDeviceGetGpuInstanceId", mig)

    def compute_instance_id(self, mig: GpuHandle) -> int:
        return self._number("nvmlDeviceGetComputeInstanceId", mig)

    def gpu_instance(self, gpu: GpuHandle, instance_id: int) -> InstanceHandle:
        return InstanceHandle(self._given(c_void_p, "nvmlDeviceGetGpuInstanceById", gpu, instance_id))

    def gpu_instance_profile_id(self, instance: InstanceHandle) -> int:
        return int(self._given(_GpuInstanceInfo, "nvmlGpuInstanceGetInfo", instance).profile_id)

    def gpu_instance_profile(self, gpu: GpuHandle, number: int) -> GpuInstanceProfile:
        found = self._given(_GpuInstanceProfileInfo, "nvmlDeviceGetGpuInstanceProfileInfo", gpu, number)
        return GpuInstanceProfile(found.profile_id, found.memory_mib)

    def compute_instance(self, gpu_instance: InstanceHandle, instance_id: int) -> InstanceHandle:
        return InstanceHandle(self._given(c_void_p, "nvmlGpuInstanceGetComputeInstanceById", gpu_instance, instance_id))

    def compute_instance_profile_id(self, instance: InstanceHandle) -> int:
        return int(self._given(_ComputeInstanceInfo, "nvmlComputeInstanceGetInfo_v2", instance).profile_id)

    def compute_instance_profile(self, gpu_instance: InstanceHandle, number: int, engine: int) -> int:
        name = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
        return int(self._given(_ComputeInstanceProfileInfo, name, gpu_instance, number, engine).profile_id)

    def pci_bus_id(self, gpu: GpuHandle) -> str:
        return _sysfs_bus_id(self._given(_PciInfo, "nvmlDeviceGetPciInfo_v3", gpu))

    def common_ancestor(self, gpu: GpuHandle, other: GpuHandle) -> int:
        return self._number("nvmlDeviceGetTopologyCommonAncestor", gpu, other)

    def nvlink_is_enabled(self, gpu: GpuHandle, link: int) -> bool:
        return self._number("nvmlDeviceGetNvLinkState", gpu, link) == _FEATURE_ENABLED

    def nvlink_remote_bus_id(self, gpu: GpuHandle, link: int) -> str:
        return _sysfs_bus_id(self._given(_PciInfo, "nvmlDeviceGetNvLinkRemotePciInfo_v2", gpu, link))

    def create_event_set(self) -> EventSet:
        return EventSet(self._given(c_void_p, "nvmlEventSetCreate"))

    def free_event_set(self, events: EventSet) -> None:
        self._call("nvmlEventSetFree", events)

    def supported_events(self, gpu: GpuHandle) -> int:
        return self._given(c_ulonglong, "nvmlDeviceGetSupportedEventTypes", gpu).value

    def register_events(self, gpu: GpuHandle, event_types: int, events: EventSet) -> None:
        self._call("nvmlDeviceRegisterEvents", gpu, c_ulonglong(event_types), events)

    def wait(self, events: EventSet, timeout_ms: int) -> NvmlEvent:
        data = _EventData()
        self._call("nvmlEventSetWait_v2", events, byref(data), timeout_ms)
        gpu = GpuHandle(c_void_p(data.device))
        return NvmlEvent(gpu, data.type, data.data, data.gpu_instance, data.compute_instance)

    def _number(self, name: str, *args: object) -> int:
        return self._given(c_uint, name, *args).value

    def _text(self, size: int, name: str, *args: object) -> str:
        buffer = create_string_buffer(size)
        self._call(name, *args, buffer, size)
        return buffer.value.decode(errors="replace")

    def _given(self, kind: type[_T], name: str, *args: object) -> _T:
        """What a function writes where its last argument points to."""
        value: Any = kind()
        self._call(name, *args, byref(value))
        return value  # type: ignore[no-any-return]

    def _call(self, name: str, *args: object) -> None:
        if self._library is None:
            raise RuntimeError(f"{name} before init")
        try:
            code = getattr(self._library, name)(*args)
        except AttributeError:
            code = NvmlReturn.FUNCTION_NOT_FOUND
        if code:
            raise NvmlError(code, self._library.nvmlErrorString(code).decode())


def _sysfs_bus_id(pci: _PciInfo) -> str:
    return str(pci.bus_id.decode().lower().removeprefix("0000"))
