"""What NVML writes, as it is laid out in memory.

Source: nvml.h of NVIDIA's driver 580.
"""

from __future__ import annotations

from ctypes import Structure, c_char, c_uint, c_ulonglong, c_void_p
from typing import Final

__all__ = [
    "AddressingMode",
    "Attributes",
    "ComputeInstanceInfo",
    "ComputeInstanceProfileInfo",
    "EventData",
    "GpuInstanceInfo",
    "GpuInstanceProfileInfo",
    "Memory",
    "PciInfo",
]


class PciInfo(Structure):
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


class Memory(Structure):
    """``nvmlMemory_t``."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class AddressingMode(Structure):
    """``nvmlDeviceAddressingMode_v1_t``."""

    VERSION: Final = 0x1000008

    _fields_ = (("version", c_uint), ("value", c_uint))


class Attributes(Structure):
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


class GpuInstanceProfileInfo(Structure):
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


class GpuInstanceInfo(Structure):
    """``nvmlGpuInstanceInfo_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("instance_id", c_uint),
        ("profile_id", c_uint),
        ("start", c_uint),
        ("size", c_uint),
    )


class ComputeInstanceProfileInfo(Structure):
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


class ComputeInstanceInfo(Structure):
    """``nvmlComputeInstanceInfo_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("gpu_instance", c_void_p),
        ("instance_id", c_uint),
        ("profile_id", c_uint),
        ("start", c_uint),
        ("size", c_uint),
    )


class EventData(Structure):
    """``nvmlEventData_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("type", c_ulonglong),
        ("data", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )
