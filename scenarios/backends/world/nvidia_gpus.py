"""The NVIDIA GPUs of a node as stories see them: named, broken, fixed and divided. Both backends do it so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fakegpu import Hits, Machine

Names = dict[str, str]
"""Index -> UUID: of a GPU ``0``, of a MIG device ``0:1``."""


def make_gpus(folder: Path, profile: str, count: int, seed: str | None, mig: Sequence[Sequence[str] | str]) -> Machine:
    """Make the machine in a folder that does not exist, from the values of a `GpuSpec`.

    Raises:
        FakeGpuError: It cannot be made.
    """
    machine = Machine.create(folder, profile=profile, count=count, seed=seed)
    for gpu, profiles in enumerate(mig):
        if profiles != "disabled":
            partition(machine, gpu, profiles)
    return machine


def driver_environment(root: str) -> dict[str, str]:
    """Return NVIDIA's variables for a driver below a folder of the node, with device nodes in the node's ``/dev``."""
    return {"NVIDIA_DRIVER_ROOT": root, "CONTAINER_DRIVER_ROOT": root, "NVIDIA_DEV_ROOT": "/"}


def names(machine: Machine) -> Names:
    """All GPUs and MIG devices that there are now, each GPU before what is on it."""
    found: Names = {}
    for gpu in machine.gpus:
        found[str(gpu.index)] = gpu.uuid
        if machine.has_mig(gpu.index):
            found |= {f"{gpu.index}:{device.index}": device.uuid for device in machine.mig(gpu.index).devices}
    return found


def fail(machine: Machine, uuid: str, *, xid: int | None, lost: bool) -> None:
    """Let a GPU report an XID, fall off the bus, or both; of a MIG device the XID names its instances.

    Raises:
        FakeGpuError: There is no such device.
    """
    gpu, instance = _place(machine, uuid)
    if instance is not None and xid is not None and not lost:
        machine.faults.xid(gpu, xid, instance=instance)
    else:
        machine.fail(gpu, xid=xid, lost=lost)


def heal(machine: Machine, uuid: str) -> None:
    """Take back what was done to a GPU.

    Raises:
        FakeGpuError: There is no such device.
    """
    machine.heal(_place(machine, uuid)[0])


def partition(machine: Machine, gpu: int, profiles: Sequence[str] | str) -> None:
    """Replace the MIG devices of a GPU by devices of these profiles; ``disabled`` ends its MIG mode.

    Raises:
        FakeGpuError: There is no such GPU, it has no MIG, or no room for so much.
    """
    mig = machine.mig(gpu)
    mig.clear()
    mig.set_mode(profiles != "disabled")
    if not isinstance(profiles, str):
        mig.create(*profiles)


def fail_nvml(machine: Machine, call: str, error: str, gpu: int | None, times: int | None) -> None:
    """Let calls answer with an error; see `FailNvml`.

    Raises:
        FakeGpuError: There is no such function, error or GPU.
    """
    if call == "nvmlInit":
        machine.faults.fail_init(error, times=times)
    else:
        machine.faults.fail_calls(call, error, gpu=gpu, hits=Hits(times=times))


def heal_nvml(machine: Machine) -> None:
    """Let all calls answer as usual."""
    machine.faults.clear()


def change(machine: Machine, verb: str, **given: Any) -> None:
    """Do what a verb of `NvidiaAction` says, whose GPU is known.

    Raises:
        FakeGpuError: It cannot be done.
    """
    _VERBS[verb](machine, **given)


def _place(machine: Machine, uuid: str) -> tuple[int, tuple[int, int] | None]:
    """The index of the GPU, and of a MIG device the ids of its GPU instance and its compute instance."""
    for gpu in machine.gpus:
        if machine.has_mig(gpu.index):
            for device in machine.mig(gpu.index).devices:
                if device.uuid == uuid:
                    return gpu.index, (device.gpu_instance, device.compute_instance)
    return machine.index(uuid), None


_VERBS: Mapping[str, Callable[..., None]] = {
    "fail": fail,
    "heal": heal,
    "partitionGpu": partition,
    "failNvml": fail_nvml,
    "healNvml": heal_nvml,
}
