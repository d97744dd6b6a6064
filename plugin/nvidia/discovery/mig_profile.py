"""The profiles of MIG devices, such as ``1g.5gb`` and ``1c.2g.10gb+me``, and the resources that they make.

NVML does not name them: they follow from the sizes of the two instances and of the memory.

Source: pkg/nvlib/device/mig_profile.go and mig_device.go (go-nvlib v0.9.1), whose error texts these are;
internal/rm/rm.go, ``AddDefaultResourcesToConfig`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ...framework import ResourceName
from ...nvml.nvml import GpuHandle, GpuInstanceProfile, InstanceHandle, Nvml, NvmlError, NvmlReturn, session
from ..config.settings import MigStrategy, NvidiaSettings
from .discovery import VISITING_GPU, DiscoveryError, failing_as, has_mig_mode, visible_gpus
from .resources import GPU_PATTERN, ResourcePattern

__all__ = ["MigProfile", "mig_patterns", "possible_profiles", "profile_of"]

_GPU_INSTANCE_SIZES: Final[Mapping[int, tuple[int, str]]] = MappingProxyType(
    {
        0: (1, ""),
        1: (2, ""),
        2: (3, ""),
        3: (4, ""),
        4: (7, ""),
        5: (8, ""),
        6: (6, ""),
        7: (1, "+me"),
        8: (2, "+me"),
        9: (1, ""),
        10: (1, "+gfx"),
        11: (2, "+gfx"),
        12: (4, "+gfx"),
        13: (1, "-me"),
        14: (2, "-me"),
        15: (1, "+me.all"),
        16: (2, "+me.all"),
    }
)
"""NVML's number of a GPU instance profile → its compute slices and what sets it apart from others of that size."""

_COMPUTE_INSTANCE_SIZES: Final = (1, 2, 3, 4, 7, 8, 6, 1)
"""Compute slices by NVML's number of a compute instance profile."""

_SHARED_ENGINES: Final = 0
_NO_SUCH_PROFILE: Final = (NvmlReturn.NOT_SUPPORTED, NvmlReturn.INVALID_ARGUMENT)
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


class MigProfile(NamedTuple):
    """Compute slices of the compute instance and of the GPU instance, memory in GB, and what is special."""

    compute_slices: int
    gpu_slices: int
    memory_gb: int
    suffix: str

    @classmethod
    def of(cls, gpu_instance: int, compute_instance: int, memory_mib: int, gpu_memory_bytes: int) -> MigProfile:
        """The profile of the two NVML numbers, with so much of the GPU's memory."""
        gpu_slices, suffix = _GPU_INSTANCE_SIZES[gpu_instance]
        memory_gb = _memory_gb(memory_mib, gpu_memory_bytes)
        return cls(_COMPUTE_INSTANCE_SIZES[compute_instance], gpu_slices, memory_gb, suffix)

    @property
    def is_whole(self) -> bool:
        """Whether the compute instance has all of the GPU instance."""
        return self.compute_slices == self.gpu_slices

    @property
    def is_possible(self) -> bool:
        """Whether a compute instance of this size can exist, as far as its size goes."""
        return self.is_whole or 2 * self.compute_slices <= self.gpu_slices + 1

    def __str__(self) -> str:
        part = "" if self.is_whole else f"{self.compute_slices}c."
        return f"{part}{self.gpu_slices}g.{self.memory_gb}gb{self.suffix}"


def possible_profiles(nvml: Nvml) -> tuple[MigProfile, ...]:
    """The profiles that the GPUs of the node can have, each once, in NVML's order; NVML must be initialised.

    Raises:
        DiscoveryError: a call failed.
    """
    found: dict[str, MigProfile] = {}
    with failing_as("error visiting devices"):
        for _, gpu in visible_gpus(nvml):
            with failing_as(f"{VISITING_GPU}: {VISITING_GPU}"):
                for profile in _profiles_of_gpu(nvml, gpu):
                    found.setdefault(str(profile), profile)
    return tuple(found.values())


def profile_of(nvml: Nvml, mig: GpuHandle) -> MigProfile:
    """The profile of a MIG device.

    Raises:
        DiscoveryError: a call failed, or the driver knows no profile that its instances have.
    """
    with failing_as("error getting parent device handle"):
        parent = nvml.parent(mig)
    with failing_as("error getting parent memory info"):
        gpu_memory_bytes = nvml.total_memory_bytes(parent)
    with failing_as("error getting MIG device attributes"):
        memory_mib = nvml.mig_attributes(mig).memory_mib
    with failing_as("error getting MIG device GPU Instance ID"):
        gpu_instance_id = nvml.gpu_instance_id(mig)
    with failing_as("error getting MIG device Compute Instance ID"):
        compute_instance_id = nvml.compute_instance_id(mig)
    with failing_as("error getting GPU Instance"):
        gpu_instance = nvml.gpu_instance(parent, gpu_instance_id)
    with failing_as("error getting Compute Instance"):
        compute_instance = nvml.compute_instance(gpu_instance, compute_instance_id)
    with failing_as("error getting GPU Instance info"):
        gpu_profile_id = nvml.gpu_instance_profile_id(gpu_instance)
    with failing_as("error getting Compute Instance info"):
        compute_profile_id = nvml.compute_instance_profile_id(compute_instance)
    for number, profile in _gpu_instance_profiles(nvml, parent):
        if profile.profile_id == gpu_profile_id:
            for compute_number, profile_id in _compute_instance_profiles(nvml, gpu_instance):
                if profile_id == compute_profile_id:
                    return MigProfile.of(number, compute_number, memory_mib, gpu_memory_bytes)
    raise DiscoveryError("no matching profile IDs found")


def _profiles_of_gpu(nvml: Nvml, gpu: GpuHandle) -> Iterator[MigProfile]:
    with failing_as("error checking if GPU is MIG capable"):
        is_capable = has_mig_mode(nvml, gpu)
    if not is_capable:
        return
    with failing_as("error getting device memory info"):
        gpu_memory_bytes = nvml.total_memory_bytes(gpu)
    for number, found in _gpu_instance_profiles(nvml, gpu):
        for compute_number in range(len(_COMPUTE_INSTANCE_SIZES)):
            profile = MigProfile.of(number, compute_number, found.memory_mib, gpu_memory_bytes)
            if profile.is_possible:
                yield profile


def _gpu_instance_profiles(nvml: Nvml, gpu: GpuHandle) -> Iterator[tuple[int, GpuInstanceProfile]]:
    for number in _GPU_INSTANCE_SIZES:
        try:
            yield number, nvml.gpu_instance_profile(gpu, number)
        except NvmlError as error:
            if error.code not in _NO_SUCH_PROFILE:
                raise DiscoveryError(f"error getting GPU Instance profile info: {error}") from error


def _compute_instance_profiles(nvml: Nvml, gpu_instance: InstanceHandle) -> Iterator[tuple[int, int]]:
    for number in range(len(_COMPUTE_INSTANCE_SIZES)):
        try:
            yield number, nvml.compute_instance_profile(gpu_instance, number, _SHARED_ENGINES)
        except NvmlError as error:
            if error.code not in _NO_SUCH_PROFILE:
                raise DiscoveryError(f"error getting Compute Instance profile info: {error}") from error


def _memory_gb(memory_mib: int, gpu_memory_bytes: int) -> int:
    """The share of the GPU's memory, in eighths and rounded up, of all its GiB, which round up as well."""
    if not gpu_memory_bytes:
        return 0
    eighths = math.ceil(memory_mib * _MIB / gpu_memory_bytes * 8)
    return math.floor(eighths / 8 * -(-gpu_memory_bytes // _GIB) + 0.5)


_log = logging.getLogger(__name__)


def mig_patterns(nvml: Nvml, settings: NvidiaSettings, *, has_nvml: bool) -> tuple[ResourcePattern, ...]:
    """The resources of MIG devices: with ``single`` that of the GPUs, with ``mixed`` one for each profile.

    Raises:
        DiscoveryError: NVML cannot be initialised though it must, or a call failed.
    """
    match settings.mig_strategy:
        case MigStrategy.SINGLE:
            return (GPU_PATTERN,)
        case MigStrategy.MIXED if has_nvml:
            return _profile_patterns(nvml, fail_on_init_error=settings.fail_on_init_error)
        case MigStrategy.MIXED:
            _log.warning('mig-strategy="%s" is only supported with NVML', MigStrategy.MIXED)
            _log.warning("NVML not detected: could not load NVML library")
    return ()


def _profile_patterns(nvml: Nvml, *, fail_on_init_error: bool) -> tuple[ResourcePattern, ...]:
    try:
        with session(nvml):
            profiles = [str(profile) for profile in possible_profiles(nvml) if profile.is_whole]
    except NvmlError as error:
        if fail_on_init_error:
            raise DiscoveryError(f"failed to initialize NVML: {error}") from error
        return ()
    return tuple(
        ResourcePattern(profile, ResourceName(f"nvidia.com/mig-{profile.replace('+', '.')}")) for profile in profiles
    )
