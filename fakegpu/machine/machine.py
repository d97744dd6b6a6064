"""A fake machine: one folder of files that makes any process see GPUs that are not there.

::

    <directory>/segment                     state of all GPUs, shared by every process
    <directory>/lib/libnvidia-ml.so.1       the library that answers NVML from it
    <directory>/bin/nvidia-smi              our nvidia-smi, which reads through NVML
    <directory>/bin/nvidia-cuda-mps-control a stand-in for the control daemon of the Multi-Process Service
    <directory>/dev/nvidia0 …               device nodes (plain files)
    <directory>/dev/nvidia-caps/…           nodes of MIG instances, which come and go with them
    <directory>/proc/driver/…               minors and capabilities of MIG instances
    <directory>/proc/modules                the driver's modules
    <directory>/proc/devices                the host's kinds of devices and the driver's
    <directory>/sys/bus/pci/devices/…       PCI folders of GPUs and NVSwitches: see pci_folder
    <directory>/profile.yaml                what it was made from: a profile, several, or a recording
    <directory>/samples.csv                 figures over time, of a recording that has them
    <directory>/driver/usr/…                an installed driver's files, once `fakegpu exec --driver-root` needs them
    <directory>/view/…                      what it shows in ``/`` and ``/dev``, where it can make no mount namespace

There is no daemon: a machine is up while its folder exists. Any number of machines live side by side. The methods are
synchronous, and safe from several threads and processes at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ..files.folder import absolute, host_errors, make_folder, refuse_foreign, remove_folder
from ..state.library import NAME
from ..state.segment import SEGMENT, Segment, segment_bytes
from .gpus import Gpus

if TYPE_CHECKING:
    from ..profiles.profile import Profile
    from ..recording.recording import Recording

DEFAULT_PROFILE: Final = "h100-80gb"


class Machine(Gpus):
    """A machine that exists; made by ``create`` or ``open``. The methods that take a GPU are in ``Gpus``.

    Attributes:
        directory: its folder, absolute.
    """

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str] | None = None,
        profile: str | Profile | Recording = DEFAULT_PROFILE,
        count: int | None = None,
        *,
        gpus: Iterable[tuple[str | Profile, int]] | None = None,
        seed: str | None = None,
    ) -> Self:
        """Make a machine. The folder appears complete or not at all.

        Args:
            directory: its folder, which must be missing or empty; the default directory if None.
            profile: a profile, or a recording to give back; or the name of a profile of the package, or the file of
                either.
            count: number of GPUs, 1 to 1024; None for 8, or for those of the recording.
            gpus: several models with a number of GPUs each, in place of ``profile`` and ``count``.
            seed: the same seed gives the same UUIDs and serial numbers; None gives new ones.

        Raises:
            InputError: unknown or wrong profile, wrong count, or a folder that is taken.
            HostError: the library is not built, or the host does not let us write there.
        """
        from .inventory import inventory_of

        inventory = inventory_of(profile, count, gpus, seed)
        target = absolute(directory)
        segment = segment_bytes(inventory.header, inventory.states)
        make_folder(target, segment, inventory.states, inventory.text)
        machine = cls.open(target)
        if inventory.samples is not None:
            try:
                machine._replay_samples(inventory.samples)
            except BaseException:
                machine.destroy()
                raise
        return machine

    @classmethod
    def open(cls, directory: str | os.PathLike[str] | None = None) -> Self:
        """The machine in ``directory``, or in the default directory.

        Where the host lets us read it only, whatever changes it raises HostError.

        Raises:
            InputError: there is none.
            HostError: the host does not let us read it.
        """
        target = absolute(directory)
        return cls(target, Segment.open(target / SEGMENT))

    @property
    def library(self) -> Path:
        """The machine's ``libnvidia-ml.so.1``."""
        return self.directory / "lib" / NAME

    @property
    def dev(self) -> Path:
        """What a process should see as ``/dev`` (the GPU files only)."""
        return self.directory / "dev"

    @property
    def sys(self) -> Path:
        """What a process should see as ``/sys`` (the PCI folders only)."""
        return self.directory / "sys"

    @property
    def proc(self) -> Path:
        """What a process should see in ``/proc``: ``modules``, and below ``driver`` what a driver reports of MIG."""
        return self.directory / "proc"

    def environment(self) -> dict[str, str]:
        """Variables to add to those of a process so that it sees these GPUs, and runs our nvidia-smi by that name."""
        paths = [str(self.library.parent)]
        if inherited := os.environ.get("LD_LIBRARY_PATH"):
            paths.append(inherited)
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(paths),
            "FAKEGPU_SEGMENT": str(self._segment.path),
            "PATH": os.pathsep.join((str(self.directory / "bin"), os.environ.get("PATH", os.defpath))),
        }

    @property
    def driver_version(self) -> str:
        """The version of the driver that the machine seems to have."""
        return self._segment.driver_version()

    def add_imex_channels(self, count: int) -> None:
        """Make the device nodes of the first ``count`` IMEX channels; those that are there stay.

        Raises:
            InputError: more than a driver has, 2048.
            HostError: the host does not let us write them.
        """
        from ..files.capabilities import add_imex_channels

        with host_errors(self.directory):
            add_imex_channels(self.directory, count)

    def _replay_samples(self, csv: str) -> None:
        """Let every GPU show what was recorded of it over time, again and again."""
        from ..files.tree import SAMPLES

        path = self.directory / SAMPLES
        path.write_text(csv, encoding="utf-8")
        for gpu in self.gpus:
            self.replay(gpu.index, path, loop=True)

    def close(self) -> None:
        """Let go of the segment file; the machine stays up. May be called twice."""
        self._segment.close()

    def destroy(self) -> None:
        """Remove the machine's folder. Processes that use it keep their GPUs until they end.

        Raises:
            InputError: the folder also holds files of others.
            HostError: the host does not let us remove it.
        """
        refuse_foreign(self.directory)
        self.close()
        remove_folder(self.directory)
