"""The fake hardware of a node as stories see it, the same on all backends.

NVIDIA GPUs are named, broken, fixed and divided. AMD GPUs and Iluvatar chips are files below the machine's folder with
something that reports their health: AMD's metrics exporter is a server of this process, IXML is files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fakegpu import Hits, Machine
from fakegpu.vendors import iluvatar
from fakegpu.vendors.amd import machine as amd
from fakegpu.vendors.amd.exporter import SOCKET as EXPORTER
from fakegpu.vendors.amd.exporter import exporter
from fakegpu.vendors.amd.model import load_amd_profile

__all__ = ["EXPORTER", "VendorDevices"]

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


def _fail_nvml(machine: Machine, call: str, error: str, gpu: int | None, times: int | None) -> None:
    """Let calls answer with an error; see `FailNvml`.

    Raises:
        FakeGpuError: There is no such function, error or GPU.
    """
    if call == "nvmlInit":
        machine.faults.fail_init(error, times=times)
    else:
        machine.faults.fail_calls(call, error, gpu=gpu, hits=Hits(times=times))


def _heal_nvml(machine: Machine) -> None:
    """Let all calls answer as usual."""
    machine.faults.clear()


_VERBS: Mapping[str, Callable[..., None]] = {
    "fail": fail,
    "heal": heal,
    "partitionGpu": partition,
    "failNvml": _fail_nvml,
    "healNvml": _heal_nvml,
}


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


class VendorDevices:
    """The AMD GPUs and Iluvatar chips of one node.

    Args:
        folder: Of the machine, which may have GPUs of NVIDIA as well.
        amd_gpus: The keys and values of an `AmdSpec`, None for none.
        iluvatar_chips: Those of an `IluvatarSpec`.

    Attributes:
        ids: Of the hardware, by which plugins name their devices too.

    Raises:
        FakeGpuError: They cannot be made.
    """

    def __init__(
        self, folder: Path, amd_gpus: Mapping[str, Any] | None, iluvatar_chips: Mapping[str, Any] | None
    ) -> None:
        self._folder = folder
        self._exporter = ExitStack()
        self._has_exporter = amd_gpus is not None and bool(amd_gpus["exporter"])
        self._amd = () if amd_gpus is None else _make_amd(folder, amd_gpus)
        self._chips = () if iluvatar_chips is None else _make_iluvatar(folder, iluvatar_chips)

    @property
    def ids(self) -> tuple[str, ...]:
        return (*self._amd, *self._chips)

    def serve(self, root: Path) -> None:
        """Let the exporter, where there is one, listen in the node's file system that is seen at `root`.

        Raises:
            HostError: It cannot.
        """
        if self._has_exporter:
            place = root / EXPORTER.relative_to("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            # A link, as a socket cannot lie so deep in a folder whose name is long.
            socket = self._folder.parent / "exporter.sock"
            self._exporter.enter_context(exporter(self._folder, socket))
            place.symlink_to(socket)

    def close(self) -> None:
        """End the exporter."""
        self._exporter.close()

    def report_health(self, device: str, *, healthy: bool) -> None:
        """Let the vendor's monitor report one of `ids` as healthy or not."""
        if device in self._chips:
            iluvatar.set_health(self._folder, device, 0 if healthy else iluvatar.ECC_ERROR)
        else:
            amd.set_health(self._folder, device, healthy=healthy)


def _make_amd(folder: Path, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    profile = load_amd_profile(wanted["profile"])
    count = wanted["count"] or len(profile.server.slots)
    devices = amd.write_amd(folder, profile, count, compute=wanted["compute"], memory=wanted["memory"])
    return tuple(device.name for device in devices)


def _make_iluvatar(folder: Path, wanted: Mapping[str, Any]) -> tuple[str, ...]:
    chips = iluvatar.write_iluvatar(folder, wanted["count"], wanted["chips_per_board"])
    return tuple(chip.uuid for chip in chips)
