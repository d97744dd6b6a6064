"""Partitioning a GPU: what ``nvidia-smi mig`` does, for the machine's owner.

::

    mig = machine.mig(0)
    mig.create("1g.10gb", "3g.40gb")      # turns MIG mode on, makes GPU and compute instances
    mig.devices                           # as nvmlDeviceGetMigDeviceHandleByIndex hands them out
    mig.destroy(2)

The rules are those of the library (``native/control/mig_rules.c``), so what can be made here can be made through NVML.
Every change is seen at once by all processes, and posts an event for those that registered for MIG events.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from .errors import InputError
from .files.capabilities import write_capabilities
from .files.folder import host_errors
from .state import layout
from .state.event_type import EventType
from .state.library import load_writer
from .state.partition import (
    ComputeInstance,
    GpuInstance,
    MigDevice,
    MigProfile,
    read_devices,
    read_instances,
    read_profiles,
)
from .state.segment import Segment

_ANYWHERE: Final = (1 << 32) - 1

_COMPUTE_KINDS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
"""``NVML_COMPUTE_INSTANCE_PROFILE_*`` by slices."""


class Mig:
    """The partition of one GPU; made by ``Machine.mig``."""

    def __init__(self, segment: Segment, gpu: int) -> None:
        self._segment = segment
        self._gpu = gpu

    @property
    def mode(self) -> tuple[bool, bool]:
        """Whether MIG mode is on, and whether it will be after the next reset."""
        modes = self._segment.read(self._gpu).modes
        return bool(modes.mig_current), bool(modes.mig_pending)

    @property
    def profiles(self) -> tuple[MigProfile, ...]:
        """The model's GPU instance profiles, the smallest first, with the number that can still be made."""
        return read_profiles(self._state())

    @property
    def instances(self) -> tuple[GpuInstance, ...]:
        """The GPU instances, by id."""
        return read_instances(self._state())

    @property
    def devices(self) -> tuple[MigDevice, ...]:
        """The MIG devices, by index."""
        return read_devices(self._state())

    def set_mode(self, is_on: bool, *, pending: bool = False) -> None:
        """Turn MIG mode on or off.

        Args:
            is_on: the mode.
            pending: only at the next ``reset``, as when the GPU is in use.

        Raises:
            InputError: a model without MIG, or one with instances whose mode is turned off at once.
        """
        with self._change() as state:
            if not (pending or is_on) and any(instance.is_here for instance in state.mig.gpu_instances):
                raise InputError(f"GPU {self._gpu} has GPU instances: destroy them first, or leave it to a reset")
            state.modes.mig_pending = is_on
            if not pending:
                state.modes.mig_current = is_on

    def reset(self) -> None:
        """Reset the GPU: instances are gone, the pending mode is in force.

        Raises:
            InputError: a model without MIG.
        """
        with self._change() as state:
            state.modes.mig_current = state.modes.mig_pending
            state.mig.gpu_instances = type(state.mig.gpu_instances)()
            state.mig.compute_instances = type(state.mig.compute_instances)()

    def create(self, *profiles: str | int, start: int | None = None, compute: bool = True) -> tuple[GpuInstance, ...]:
        """Make one GPU instance of each profile, in this order: all of them, or none when one does not fit.

        Turns MIG mode on where it is off.

        Args:
            profiles: names (``1g.10gb``, ``MIG 1g.10gb``) or ids.
            start: memory slice at which it starts, for a single profile; None where it fits best.
            compute: with a compute instance that takes all of it, which makes it a MIG device.

        Raises:
            InputError: no such profile, no room, or a start at which it cannot be; the message says what can be made.
        """
        made: list[int] = []
        if start is not None and len(profiles) != 1:
            raise InputError("a start goes with one profile")
        with self._change(posts=made) as state:
            state.modes.mig_current = state.modes.mig_pending = True
            for wanted in profiles:
                profile = self._profile(state, wanted)
                made.append(self._create_one(state, profile, start))
                if compute:
                    slices = state.mig.profiles[profile.kind].slices
                    self._create_compute(state, made[-1], slices, None)
        return tuple(instance for instance in self.instances if instance.id in made)

    def create_compute(self, gpu_instance: int, slices: int, *, start: int | None = None) -> ComputeInstance:
        """Make a compute instance of so many slices within a GPU instance.

        Raises:
            InputError: no such GPU instance, a number of slices that it does not have as a profile, or no room.
        """
        with self._change(posts=[gpu_instance]) as state:
            self._require(state, gpu_instance)
            slot = self._create_compute(state, gpu_instance, slices, start)
            number = state.mig.compute_instances[slot].id
        return next(
            part for whole in self.instances if whole.id == gpu_instance for part in whole.compute if part.id == number
        )

    def destroy(self, gpu_instance: int) -> None:
        """Destroy a GPU instance, with its compute instances.

        Raises:
            InputError: no such instance.
        """
        with self._change(posts=[gpu_instance]) as state:
            self._require(state, gpu_instance)
            for slot, part in enumerate(state.mig.compute_instances):
                if part.is_here and part.gpu_instance == gpu_instance:
                    state.mig.compute_instances[slot] = layout.ComputeInstance()
            load_writer().fakegpu_mig_destroy(ctypes.byref(state), gpu_instance)

    def destroy_compute(self, gpu_instance: int, compute_instance: int) -> None:
        """Destroy a compute instance.

        Raises:
            InputError: no such instance.
        """
        with self._change(posts=[gpu_instance]) as state:
            self._require(state, gpu_instance)
            for slot, part in enumerate(state.mig.compute_instances):
                if part.is_here and (part.gpu_instance, part.id) == (gpu_instance, compute_instance):
                    state.mig.compute_instances[slot] = layout.ComputeInstance()
                    return
            raise InputError(f"GPU {self._gpu}, GPU instance {gpu_instance}: no compute instance {compute_instance}")

    def clear(self) -> None:
        """Destroy all instances; the mode stays.

        Raises:
            InputError: a model without MIG.
        """
        with self._change() as state:
            state.mig.gpu_instances = type(state.mig.gpu_instances)()
            state.mig.compute_instances = type(state.mig.compute_instances)()

    def use_memory(self, gpu_instance: int, used_bytes: int) -> None:
        """Let ``used_bytes`` of a GPU instance's memory be in use.

        Raises:
            InputError: no such instance, or more than it has.
        """
        with self._change(posts=()) as state:
            instance = self._require(state, gpu_instance)
            whole = state.mig.profiles[instance.profile].memory_mib << 20
            if not 0 <= used_bytes <= whole:
                raise InputError(f"GPU instance {gpu_instance} has {whole} bytes, not {used_bytes}")
            instance.used_bytes = used_bytes

    def _state(self) -> layout.GpuState:
        state = self._segment.read(self._gpu)
        self._check(state)
        return state

    def _check(self, state: layout.GpuState) -> None:
        if not state.modes.mig_supported:
            raise InputError(f"GPU {self._gpu}: {state.identity.name.decode()} has no MIG")

    @contextmanager
    def _change(self, posts: Sequence[int] = (layout.NO_INSTANCE,)) -> Iterator[layout.GpuState]:
        """Lend the state for changing, then write the files; post an event for each GPU instance in ``posts``."""
        folder = self._segment.path.parent
        with self._segment.change(self._gpu) as state:
            self._check(state)
            yield state
        with self._segment.hold(self._gpu) as state, host_errors(folder):
            write_capabilities(folder, state)
        for gpu_instance in posts:
            self._segment.post(self._gpu, EventType.MIG_CONFIG.nvml_bit, gpu_instance=gpu_instance)

    def _profile(self, state: layout.GpuState, wanted: str | int) -> MigProfile:
        text = str(wanted).removeprefix("MIG ")
        profiles = read_profiles(state)
        for profile in profiles:
            if text in {profile.name, str(profile.id)}:
                return profile
        names = ", ".join(profile.name for profile in profiles)
        raise InputError(f"GPU {self._gpu} has no MIG profile '{wanted}': it has {names}")

    def _create_one(self, state: layout.GpuState, profile: MigProfile, start: int | None) -> int:
        if start is not None and start not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            raise InputError(f"{profile.name} cannot start at memory slice {start}: it can at {starts}")
        number = ctypes.c_uint32()
        place = _ANYWHERE if start is None else start
        code = load_writer().fakegpu_mig_create(ctypes.byref(state), profile.kind, place, ctypes.byref(number))
        if code != 0:
            left = ", ".join(f"{other.free} x {other.name}" for other in read_profiles(state) if other.free)
            where = "" if start is None else f" at memory slice {start}"
            raise InputError(f"GPU {self._gpu} has no room for {profile.name}{where}: it has for {left or 'nothing'}")
        return number.value

    def _create_compute(self, state: layout.GpuState, gpu_instance: int, slices: int, start: int | None) -> int:
        whole = state.mig.profiles[state.mig.gpu_instances[gpu_instance].profile].slices
        if slices not in _COMPUTE_KINDS or slices > whole or (slices, whole) == (3, 4):
            raise InputError(f"GPU instance {gpu_instance} has {whole} slices: no compute instance of {slices}")
        slot = ctypes.c_uint32()
        place = _ANYWHERE if start is None else min(max(start, 0), whole)
        code = load_writer().fakegpu_mig_create_compute(
            ctypes.byref(state), gpu_instance, _COMPUTE_KINDS[slices], place, ctypes.byref(slot)
        )
        if code != 0:
            raise InputError(f"GPU instance {gpu_instance} has no room for a compute instance of {slices} slices there")
        return slot.value

    def _require(self, state: layout.GpuState, gpu_instance: int) -> layout.GpuInstance:
        if not (0 <= gpu_instance < layout.GPU_INSTANCES and state.mig.gpu_instances[gpu_instance].is_here):
            ids = ", ".join(str(number) for number, part in enumerate(state.mig.gpu_instances) if part.is_here)
            raise InputError(f"GPU {self._gpu} has no GPU instance {gpu_instance}: it has {ids or 'none'}")
        instance: layout.GpuInstance = state.mig.gpu_instances[gpu_instance]
        return instance
