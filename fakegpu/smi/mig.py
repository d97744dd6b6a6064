"""``nvidia-smi mig``: profiles and instances of GPUs in MIG mode; creating and destroying them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from .reading import NotFoundError, Selected, ask, text

_NAME_WIDTH: Final = 14


@dataclass(frozen=True, slots=True)
class Profile:
    """A GPU instance profile of one GPU: NVML's number for asking, its id, name, and what it has."""

    number: int
    info: Any

    @property
    def name(self) -> str:
        """``MIG 1g.10gb``."""
        name = self.info.name
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


class NoMigError(Exception):
    """No GPU is in MIG mode, or there is no instance of the kind that was asked for."""


def in_mig_mode(gpus: Selected) -> Selected:
    """Those of the GPUs that are in MIG mode.

    Raises:
        NoMigError: none is.
    """
    found = [(index, handle) for index, handle in gpus if (ask(pynvml.nvmlDeviceGetMigMode, handle) or [0])[0]]
    if not found:
        raise NoMigError("No MIG-enabled devices found.")
    return found


def profile_lines(gpus: Selected) -> Iterator[str]:
    """``-lgip``: the profiles and how many more instances of each there is room for."""
    edge = f"+{'-' * 77}+"
    yield edge
    yield f"| {'GPU instance profiles:':<76}|"
    yield "| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |"
    yield "|                              Free/Total   GiB              CE    JPEG  OFA  |"
    yield f"|{'=' * 77}|"
    for index, handle in in_mig_mode(gpus):
        for profile in profiles_of(handle):
            info = profile.info
            free = pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(handle, info.id)
            peer = "Yes" if info.isP2pSupported else "No"
            room = f"{free}/{info.instanceCount}"
            yield (
                f"|{index:>4}  {profile.name[:_NAME_WIDTH]:<{_NAME_WIDTH}}{info.id:>6}     {room:<11}"
                f"{info.memorySizeMB / 1024:<11.2f}{peer:<7}{info.multiprocessorCount:<7}"
                f"{info.decoderCount:<6}{info.encoderCount:<4}|"
            )
            yield f"|{'':61}{info.copyEngineCount:<6}{info.jpegCount:<6}{info.ofaCount:<4}|"
            yield edge


def instance_lines(gpus: Selected) -> Iterator[str]:
    """``-lgi``: the GPU instances there are.

    Raises:
        NoMigError: there are none.
    """
    found = [
        (index, profile, pynvml.nvmlGpuInstanceGetInfo(instance))
        for index, handle in in_mig_mode(gpus)
        for profile in profiles_of(handle)
        for instance in instances_of(handle, profile)
    ]
    if not found:
        raise NoMigError("No GPU instances found: Not Found")
    edge = f"+{'-' * 55}+"
    yield edge
    yield f"| {'GPU instances:':<54}|"
    yield "| GPU   Name             Profile  Instance   Placement  |"
    yield "|                          ID       ID       Start:Size |"
    yield f"|{'=' * 55}|"
    for index, profile, info in found:
        place = f"{info.placement.start:>11}:{info.placement.size}"
        name = f"{profile.name[:_NAME_WIDTH]:<{_NAME_WIDTH}}"
        yield f"|{index:>4}  {name}{info.profileId:>8}{info.id:>9}{place:<18}|"
        yield edge


def create(gpus: Selected, wanted: str, with_compute_instances: bool) -> Iterator[str]:
    """``-cgi``: creates GPU instances on each GPU, and with ``-C`` a compute instance that fills each.

    Args:
        gpus: where.
        wanted: profile ids or names with commas between them, each with ``:start`` where a place is wanted.
        with_compute_instances: whether ``-C`` was given.

    Raises:
        NotFoundError: no such profile.
        pynvml.NVMLError: the driver refuses one; those before it stay.
    """
    for index, handle in in_mig_mode(gpus):
        for request in wanted.split(","):
            name, _, start = request.strip().partition(":")
            profile = _find(profiles_of(handle), name)
            if start and not re.fullmatch("[0-9]{1,9}", start):
                raise NotFoundError(request)
            if start:
                place = pynvml.c_nvmlGpuInstancePlacement_t(start=int(start), size=_size(handle, profile, int(start)))
                instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, profile.info.id, ctypes.byref(place))
            else:
                instance = pynvml.nvmlDeviceCreateGpuInstance(handle, profile.info.id)
            number = pynvml.nvmlGpuInstanceGetInfo(instance).id
            yield (
                f"Successfully created GPU instance ID {number:>2} on GPU {index:>2} using profile {profile.name}"
                f" (ID {profile.info.id:>2})"
            )
            if with_compute_instances:
                yield _fill(index, number, instance, profile)


def destroy(gpus: Selected, numbers: Sequence[int] | None) -> Iterator[str]:
    """``-dgi``: destroys GPU instances, all of the GPUs or those with the given numbers.

    Raises:
        NoMigError: there are none.
        pynvml.NVMLError: the driver refuses, for example because compute instances are left.
    """
    found = False
    for index, handle in in_mig_mode(gpus):
        for profile in profiles_of(handle):
            for instance in instances_of(handle, profile):
                number = pynvml.nvmlGpuInstanceGetInfo(instance).id
                if numbers is None or number in numbers:
                    found = True
                    pynvml.nvmlGpuInstanceDestroy(instance)
                    yield f"Successfully destroyed GPU instance ID {number:>2} from GPU {index:>2}"
    if not found:
        raise NoMigError("No GPU instances found: Not Found")


def profiles_of(handle: Any) -> list[Profile]:
    """The profiles of a GPU, smallest first."""
    infos = {
        number: ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number, version=2)
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT)
    }
    found = [Profile(number, info) for number, info in infos.items() if info is not None]
    return sorted(found, key=lambda profile: (profile.info.sliceCount, profile.number))


def instances_of(handle: Any, profile: Profile) -> list[Any]:
    """The handles of the GPU instances of one profile."""
    room = (pynvml.c_nvmlGpuInstance_t * profile.info.instanceCount)()
    count = ctypes.c_uint(profile.info.instanceCount)
    pynvml.nvmlDeviceGetGpuInstances(handle, profile.info.id, room, ctypes.byref(count))
    return list(room[: count.value])


def _find(profiles: Sequence[Profile], name: str) -> Profile:
    for profile in profiles:
        if name in {str(profile.info.id), profile.name, profile.name.removeprefix("MIG ")}:
            return profile
    raise NotFoundError(name)


def _size(handle: Any, profile: Profile, start: int) -> int:
    count = ctypes.c_uint(0)
    ask(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, handle, profile.info.id, None, ctypes.byref(count))
    places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, profile.info.id, places, ctypes.byref(count))
    for place in places:
        if place.start == start:
            return int(place.size)
    raise NotFoundError(f"{profile.name}:{start}")


def _fill(gpu: int, number: int, instance: Any, profile: Profile) -> str:
    kinds = (pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT, pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
    for kind in range(kinds[0]):
        info = ask(pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo, instance, kind, kinds[1], version=2)
        if info is not None and info.sliceCount == profile.info.sliceCount:
            made = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, info.id)
            compute = pynvml.nvmlComputeInstanceGetInfo(made).id
            name = text(info.name)
            return (
                f"Successfully created compute instance ID {compute:>2} on GPU {gpu:>2} GPU instance ID {number:>2}"
                f" using profile {name} (ID {info.id:>2})"
            )
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
