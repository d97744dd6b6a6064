"""``nvidia-smi -L``: one line for each GPU and its MIG devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from .reading import ask
from .selection import Selected


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device: its place among those of its GPU, its instances, and its profile's short name (``1g.10gb``)."""

    index: int
    handle: Any
    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int


def mig_devices(handle: Any) -> list[MigDevice]:
    """The MIG devices of a GPU, none where MIG is off or unknown."""
    modes = ask(pynvml.nvmlDeviceGetMigMode, handle)
    if modes is None or not modes[0]:
        return []
    devices = []
    for index in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if device is not None:
            devices.append(_describe(index, device))
    return devices


def uncorrected_errors(device: MigDevice) -> int | None:
    """Volatile uncorrected errors in the device's part of the SRAM."""
    where = (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC, pynvml.NVML_MEMORY_LOCATION_SRAM)
    count: int | None = ask(pynvml.nvmlDeviceGetMemoryErrorCounter, device.handle, *where)
    return count


def _describe(index: int, device: Any) -> MigDevice:
    # A MIG device's name ends in "MIG" and its profile.
    return MigDevice(
        index=index,
        handle=device,
        uuid=pynvml.nvmlDeviceGetUUID(device),
        profile=pynvml.nvmlDeviceGetName(device).rpartition("MIG ")[2],
        gpu_instance=pynvml.nvmlDeviceGetGpuInstanceId(device),
        compute_instance=pynvml.nvmlDeviceGetComputeInstanceId(device),
    )


def lines(gpus: Selected) -> Iterator[str]:
    """The lines of the list."""
    for index, handle in gpus:
        name, uuid = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle)
        yield f"GPU {index}: {name} (UUID: {uuid})"
        for device in mig_devices(handle):
            yield f"  MIG {device.profile:<11} Device {device.index:>2}: (UUID: {device.uuid})"
