"""What a GPU is partitioned into, as its owner sees it at one moment."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from . import layout
from .library import load_writer

_NAME_BYTES = 48
_COMPUTE_SLICES = (1, 2, 3, 4, 7)
"""By ``NVML_COMPUTE_INSTANCE_PROFILE_*``."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A GPU instance profile.

    Attributes:
        name: ``1g.10gb``.
        id: as nvidia-smi prints it.
        kind: value of ``NVML_GPU_INSTANCE_PROFILE_*``.
        slices: of compute.
        memory_bytes: of one instance.
        size: memory slices of one instance.
        starts: memory slices at which one may start.
        instances: maximum on an empty GPU.
        free: how many more fit now.
    """

    name: str
    id: int
    kind: int
    slices: int
    memory_bytes: int
    size: int
    starts: tuple[int, ...]
    instances: int
    free: int


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """A compute instance, by its id within the GPU instance, with its slices of compute."""

    id: int
    start: int
    slices: int


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance: its id, profile and memory slices, and the compute instances in it."""

    id: int
    profile: str
    profile_id: int
    start: int
    size: int
    compute: tuple[ComputeInstance, ...]


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A MIG device as NVML shows it.

    Attributes:
        index: for ``nvmlDeviceGetMigDeviceHandleByIndex``.
        uuid: ``MIG-`` and five groups of hex digits.
        name: ``1g.10gb``, or ``1c.3g.40gb`` for a part of a GPU instance.
        gpu_instance: its id.
        compute_instance: its id within that.
        memory_bytes: of the GPU instance.
    """

    index: int
    uuid: str
    name: str
    gpu_instance: int
    compute_instance: int
    memory_bytes: int


def read_profiles(state: layout.GpuState) -> tuple[MigProfile, ...]:
    """All profiles of the model, the smallest first."""
    found = [
        MigProfile(
            name=profile.name.decode(),
            id=profile.id,
            kind=kind,
            slices=profile.slices,
            memory_bytes=profile.memory_mib << 20,
            size=profile.size,
            starts=tuple(start for start in range(32) if profile.starts >> start & 1),
            instances=profile.instances,
            free=load_writer().fakegpu_mig_capacity(ctypes.byref(state), kind),
        )
        for kind, profile in enumerate(state.mig.profiles)
        if profile.is_here
    ]
    return tuple(sorted(found, key=lambda profile: (profile.slices, profile.memory_bytes, profile.name)))


def read_instances(state: layout.GpuState) -> tuple[GpuInstance, ...]:
    """The GPU instances, by id."""
    return tuple(
        GpuInstance(
            id=number,
            profile=state.mig.profiles[instance.profile].name.decode(),
            profile_id=state.mig.profiles[instance.profile].id,
            start=instance.start,
            size=state.mig.profiles[instance.profile].size,
            compute=_read_compute(state, number),
        )
        for number, instance in enumerate(state.mig.gpu_instances)
        if instance.is_here
    )


def read_devices(state: layout.GpuState) -> tuple[MigDevice, ...]:
    """The MIG devices, by index."""
    library = load_writer()
    devices: list[MigDevice] = []
    while (slot := library.fakegpu_mig_device_slot(ctypes.byref(state), len(devices))) >= 0:
        part = state.mig.compute_instances[slot]
        whole = state.mig.profiles[state.mig.gpu_instances[part.gpu_instance].profile]
        name, uuid = ctypes.create_string_buffer(_NAME_BYTES), ctypes.create_string_buffer(_NAME_BYTES)
        library.fakegpu_mig_device_name(ctypes.byref(state), slot, name)
        library.fakegpu_mig_uuid(ctypes.byref(state), slot, uuid)
        devices.append(
            MigDevice(
                index=len(devices),
                uuid=uuid.value.decode(),
                name=name.value.decode(),
                gpu_instance=part.gpu_instance,
                compute_instance=part.id,
                memory_bytes=whole.memory_mib << 20,
            )
        )
    return tuple(devices)


def _read_compute(state: layout.GpuState, gpu_instance: int) -> tuple[ComputeInstance, ...]:
    found = [
        ComputeInstance(part.id, part.start, _COMPUTE_SLICES[part.profile])
        for part in state.mig.compute_instances
        if part.is_here and part.gpu_instance == gpu_instance
    ]
    return tuple(sorted(found, key=lambda part: part.id))
