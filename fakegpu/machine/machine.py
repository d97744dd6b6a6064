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
    <directory>/sys/bus/pci/devices/…       PCI folders of GPUs and NVSwitches: see pci_folder
    <directory>/profile.yaml                what it was made from: a profile, several, or a recording
    <directory>/samples.csv                 figures over time, of a recording that has them
    <directory>/driver/usr/…                an installed driver's files, once `fakegpu exec --driver-root` needs them

There is no daemon: a machine is up while its folder exists. Any number of machines live side by side. The methods are
synchronous, and safe from several threads and processes at once.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ..errors import InputError
from ..faults.schedule import act
from ..files.folder import absolute, host_errors, make_folder, refuse_foreign, remove_folder
from ..state import layout
from ..state.layout import ActionKind
from ..state.library import NAME
from ..state.segment import SEGMENT, Segment, segment_bytes

if TYPE_CHECKING:
    from ..faults.faults import Faults
    from ..load import Load
    from ..mig import Mig
    from ..profiles.profile import Profile
    from ..recording.recording import Recording
    from ..state.gpu import Gpu
    from ..state.partition import MigDevice

DEFAULT_PROFILE: Final = "h100-80gb"
_INDEX: Final = re.compile(r"\d{1,9}", re.ASCII)


class Machine:
    """A machine that exists; made by ``create`` or ``open``.

    Attributes:
        directory: its folder, absolute.
    """

    def __init__(self, directory: Path, segment: Segment) -> None:
        self.directory = directory
        self._segment = segment

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
        """Makes a machine. The folder appears complete or not at all.

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

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs as they are now, by index."""
        from ..state.gpu import Gpu

        return tuple(Gpu.from_state(index, self._segment.read_live(index)) for index in range(self._segment.gpu_count))

    def gpu(self, selector: int | str) -> Gpu:
        """One GPU as it is now, by index (number or digits) or UUID.

        Raises:
            InputError: no such GPU.
        """
        from ..state.gpu import Gpu

        index = self.index(selector)
        return Gpu.from_state(index, self._segment.read_live(index))

    @property
    def faults(self) -> Faults:
        """Breaking and fixing the machine, beyond the methods below."""
        from ..faults.faults import Faults

        return Faults(self._segment)

    def fail(self, selector: int | str, *, xid: int | None = None, lost: bool = False) -> None:
        """Reports an XID error, takes the GPU off the bus, or both.

        An XID reaches everybody who registered for XID events of this GPU; what it means is theirs to judge. From a
        lost GPU on, NVML answers ``GPU_IS_LOST`` for everything but what a driver remembers (UUID, index, minor number,
        PCI address), and every wait that watches it ends once with ``GPU_IS_LOST``. With both, the XID is what ends the
        waits, as when a driver reports the loss by XID 79.

        Raises:
            InputError: no such GPU, neither failure asked for, or an XID that is not a number of 32 bits.
        """
        index = self.index(selector)
        if xid is None and not lost:
            raise InputError("nothing to fail: give an XID, or let the GPU be lost")
        if lost:
            self.faults.lose(index, xid=xid)
        elif xid is not None:
            self.faults.xid(index, xid)

    def heal(self, selector: int | str) -> None:
        """Heals a GPU; no event reports it.

        It is plugged in and on the bus, its XIDs are forgotten, it is cool, its links are up, volatile counts of memory
        errors are zero and pending remaps or retirements done, as after a reset. Rules and plans stay: see ``faults``.

        Raises:
            InputError: no such GPU.
        """
        index = self.index(selector)
        was_unplugged = bool(self._segment.read(index).fault.is_unplugged)
        self.faults.heal(index)
        if was_unplugged:
            self._write_gpu(index)

    def unplug(self, selector: int | str) -> None:
        """Takes a GPU out of the machine while it runs.

        Its device node and PCI folder go. For a process that has initialised it is lost; one that initialises from then
        on counts the others only.

        Raises:
            InputError: no such GPU.
            HostError: the host does not let us remove its files.
        """
        from ..files.tree import remove_gpu

        gpu = self.gpu(selector)
        act(self._segment, gpu.index, ActionKind.UNPLUG)
        with host_errors(self.directory):
            remove_gpu(self.directory, gpu)

    def plug(self, selector: int | str) -> None:
        """Puts a GPU that was unplugged back in; processes that have initialised see it again as well.

        Raises:
            InputError: no such GPU.
            HostError: the host does not let us write its files.
        """
        index = self.index(selector)
        self._write_gpu(index)
        act(self._segment, index, ActionKind.PLUG)

    def add_imex_channels(self, count: int) -> None:
        """Makes the device nodes of the first ``count`` IMEX channels; those that are there stay.

        Raises:
            InputError: more than a driver has, 2048.
            HostError: the host does not let us write them.
        """
        from ..files.capabilities import add_imex_channels

        with host_errors(self.directory):
            add_imex_channels(self.directory, count)

    def _write_gpu(self, index: int) -> None:
        from ..files.tree import remove_gpu, write_gpu

        with host_errors(self.directory):
            remove_gpu(self.directory, self.gpu(index))
            write_gpu(self.directory, self.gpu(index), self._segment.read(index))

    def set(self, selector: int | str, key: str, value: int | str) -> None:
        """Changes one figure of a GPU, at once for every process; see ``settings.SETTINGS`` for the keys.

        Raises:
            InputError: no such GPU or key, or a value of the wrong type or out of range.
        """
        self.set_many(selector, {key: value})

    def set_many(self, selector: int | str, values: dict[str, int | str]) -> None:
        """Changes several figures of a GPU in one step: all of them, or none when one is refused.

        Raises:
            InputError: as ``set``.
        """
        from .settings import apply, parse_value

        index = self.index(selector)
        numbers = {key: parse_value(key, value) for key, value in values.items()}
        with self._segment.change(index) as state:
            events = [event for key, number in numbers.items() if (event := apply(state, key, number))]
        for event in events:
            self._segment.post(index, event.nvml_bit)
        if "numa_node" in numbers:
            from ..files.pci_folder import write_numa_node

            with host_errors(self.directory):
                write_numa_node(self.directory, self.gpu(index))

    def load(self, selector: int | str, load: Load) -> None:
        """Lets a GPU work: utilisation, memory, power, temperature and clocks move from now on, by themselves.

        A figure that is ``set`` later stays as it is set until the next load.

        Raises:
            InputError: no such GPU, or a load that does not fit it.
        """
        from ..load import frames_of

        index = self.index(selector)
        state = self._segment.read(index)
        free = state.memory.total_bytes - state.memory.reserved_bytes
        if load.memory_bytes is not None and not 0 <= load.memory_bytes <= free:
            raise InputError(f"memory={load.memory_bytes}: the GPU has {free} bytes for allocations")
        computed = frames_of(load, state, self._segment.read_live(index).thermal.gpu_c)
        self._write_load(index, layout.LIVE_ALL, computed.frames, computed.loop_to)

    def replay(self, selector: int | str, path: str | os.PathLike[str], *, loop: bool = False) -> None:
        """Gives back metrics that were recorded, as a CSV file such as nvidia-smi writes; see ``trace``.

        Args:
            selector: an index or a UUID.
            path: the file. Where its rows name GPUs, those of this index or UUID are taken.
            loop: starts again after the last row; else the figures of the last row stay.

        Raises:
            InputError: no such GPU, or a file that cannot be read as metrics of it; names the line.
        """
        from .trace import choose_trace, read_traces

        gpu = self.gpu(selector)
        trace = choose_trace(read_traces(Path(path)), gpu.index, gpu.uuid, str(path))
        self._write_load(gpu.index, trace.topics, trace.frames, 0 if loop else None)

    def _replay_samples(self, csv: str) -> None:
        """Lets every GPU show what was recorded of it over time, again and again."""
        from ..files.tree import SAMPLES

        path = self.directory / SAMPLES
        path.write_text(csv, encoding="utf-8")
        for gpu in self.gpus:
            self.replay(gpu.index, path, loop=True)

    def rest(self, selector: int | str) -> None:
        """Ends the load of a GPU at once: its figures are those that are set. Without a load it does nothing.

        Raises:
            InputError: no such GPU.
        """
        self._write_load(self.index(selector), 0, (), None)

    def enter_process(self, selector: int | str, pid: int, memory_bytes: int = 0, kind: str = "compute") -> None:
        """Shows a process on a GPU, with the memory that it holds, for as long as it lives.

        Args:
            selector: an index or a UUID, also of a MIG device.
            pid: a process of this host; entered again, it has the new memory and kind.
            memory_bytes: counts as used memory of the GPU.
            kind: ``compute``, ``graphics``, ``both`` or ``mps``.

        Raises:
            InputError: no such GPU, MIG device, process or kind, or no room for it.
        """
        from .settings import enter

        index, device = self._gpu_or_mig_device(selector)
        self._end_processes(index)
        with self._segment.change(index) as state:
            enter(state, pid, memory_bytes, kind, device)

    def _gpu_or_mig_device(self, selector: int | str) -> tuple[int, MigDevice | None]:
        if isinstance(selector, str) and selector.startswith("MIG-"):
            for gpu in range(self._segment.gpu_count):
                for device in self.mig(gpu).devices:
                    if device.uuid == selector:
                        return gpu, device
            raise InputError(f"no MIG device '{selector}' in {self.directory}: `fakegpu mig list` shows them")
        return self.index(selector), None

    def strike_process(self, selector: int | str, pid: int) -> None:
        """Takes a process off a GPU while it lives; one that is not there is none to take off.

        Raises:
            InputError: no such GPU.
        """
        self._end_processes(self.index(selector), pid)

    def _end_processes(self, index: int, pid: int = 0) -> None:
        self._segment.command("fakegpu_end_processes", index, pid)

    def _write_load(self, index: int, topics: int, frames: Sequence[layout.Frame], loop_to: int | None) -> None:
        last = len(frames) if loop_to is None else loop_to
        load = layout.Load(topics=topics, loop_to=last, started_ns=time.monotonic_ns())
        self._segment.write_load(index, load, frames)

    def mig(self, selector: int | str) -> Mig:
        """The partition of a GPU.

        Raises:
            InputError: no such GPU.
        """
        from ..mig import Mig

        return Mig(self._segment, self.index(selector))

    def has_mig(self, selector: int | str) -> bool:
        """Whether a GPU can be partitioned.

        Raises:
            InputError: no such GPU.
        """
        return bool(self._segment.read(self.index(selector)).modes.mig_supported)

    def close(self) -> None:
        """Lets go of the segment file; the machine stays up. May be called twice."""
        self._segment.close()

    def destroy(self) -> None:
        """Removes the machine's folder. Processes that use it keep their GPUs until they end.

        Raises:
            InputError: somebody put other files into the folder.
            HostError: the host does not let us remove it.
        """
        refuse_foreign(self.directory)
        self.close()
        remove_folder(self.directory)

    def index(self, selector: int | str) -> int:
        """The index of a GPU given by index (number or digits) or UUID.

        Raises:
            InputError: no such GPU.
        """
        count = self._segment.gpu_count
        if isinstance(selector, str) and not _INDEX.fullmatch(selector):
            for index in range(count):
                if self._segment.read(index).identity.uuid == os.fsencode(selector):
                    return index
            raise InputError(f"no GPU '{selector}' in {self.directory}: give an index, 0 to {count - 1}, or a UUID")
        index = int(selector)
        if not 0 <= index < count:
            raise InputError(f"no GPU {index} in {self.directory}: it has {count}, 0 to {count - 1}")
        return index
