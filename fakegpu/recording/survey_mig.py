"""What NVML tells of MIG on one GPU: where instances could be, which there are, and the MIG devices."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pynvml

_PROFILES: Final = range(18)
_DEVICES: Final = range(7)
PLACEMENTS: Final = "nvmlDeviceGetGpuInstancePossiblePlacements"
INSTANCES: Final = "nvmlDeviceGetGpuInstances"
DEVICE_UUID: Final = "nvmlDeviceGetUUID mig"


def mig_calls(gpu: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and call of everything to ask; placements and instances are asked by the id of a profile."""
    for profile in _PROFILES:
        try:
            number = int(pynvml.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, profile).id)
        except pynvml.NVMLError:
            continue
        yield f"{PLACEMENTS} {number}", partial(_placements, gpu, number)
        yield f"{INSTANCES} {number}", partial(_instances, gpu, number)
    for index in _DEVICES:
        yield f"{DEVICE_UUID} {index}", partial(_uuid, gpu, index)


def _placements(gpu: Any, profile: int) -> list[dict[str, int]]:
    count = ctypes.c_uint(64)
    found = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile, found, ctypes.byref(count))
    return [_placement(found[position]) for position in range(count.value)]


def _gpu_instances(gpu: Any, profile: int) -> list[Any]:
    count = ctypes.c_uint(16)
    found = (pynvml.c_nvmlGpuInstance_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstances(gpu, profile, found, ctypes.byref(count))
    return [pynvml.c_nvmlGpuInstance_t.from_buffer_copy(found, 8 * position) for position in range(count.value)]


def _instances(gpu: Any, profile: int) -> list[dict[str, Any]]:
    return [_instance(one) for one in _gpu_instances(gpu, profile)]


def _instance(instance: Any) -> dict[str, Any]:
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    inside = [_compute_instance(one) for profile in range(8) for one in _compute_instances(instance, profile)]
    return {"id": info.id, "placement": _placement(info.placement), "computeInstances": inside}


def _compute_instances(instance: Any, profile: int) -> list[Any]:
    count = ctypes.c_uint(8)
    found = (pynvml.c_nvmlComputeInstance_t * count.value)()
    try:
        info = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, profile, 0)
        pynvml.nvmlGpuInstanceGetComputeInstances(instance, info.id, found, ctypes.byref(count))
    except pynvml.NVMLError:
        return []
    return [pynvml.c_nvmlComputeInstance_t.from_buffer_copy(found, 8 * position) for position in range(count.value)]


def _compute_instance(instance: Any) -> dict[str, Any]:
    info = pynvml.nvmlComputeInstanceGetInfo_v2(instance)
    return {"id": info.id, "profile": info.profileId, "placement": _placement(info.placement)}


def _placement(placement: Any) -> dict[str, int]:
    return {"start": placement.start, "size": placement.size}


def _uuid(gpu: Any, index: int) -> Any:
    return pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))
