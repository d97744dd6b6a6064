"""The GPUs of a machine, each by index or UUID: look at one, break and heal it, set what it shows, give it work."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import InputError
from ..faults.schedule import act
from ..files.folder import host_errors
from ..state import layout
from ..state.layout import ActionKind
from ..state.segment import Segment

if TYPE_CHECKING:
    from ..faults.faults import Faults
    from ..load import Load
    from ..mig import Mig
    from ..state.gpu import Gpu
    from ..state.partition import MigDevice

_INDEX: Final = re.compile(r"[0-9]{1,9}")


class Gpus:
    """The part of a machine whose methods take a GPU; ``Machine`` adds the folder and what is common to all GPUs.

    Attributes:
        directory: of the machine, absolute.
    """

    def __init__(self, directory: Path, segment: Segment) -> None:
        self.directory = directory
        self._segment = segment

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

    @property
    def faults(self) -> Faults:
        """Breaking and fixing the machine, beyond the methods below."""
        from ..faults.faults import Faults

        return Faults(self._segment)

    def fail(self, selector: int | str, *, xid: int | None = None, lost: bool = False) -> None:
        """Report an XID error, take the GPU off the bus, or both.

        An XID reaches every process that registered for XID events of this GPU; what it means is for them to judge. For
        a lost GPU NVML answers ``GPU_IS_LOST`` for everything but what a driver remembers (UUID, index, minor number,
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
        """Heal a GPU; no event reports it.

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
        """Take a GPU out of the machine while it runs.

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
        """Put a GPU that was unplugged back in; processes that have initialised see it again as well.

        Raises:
            InputError: no such GPU.
            HostError: the host does not let us write its files.
        """
        index = self.index(selector)
        self._write_gpu(index)
        act(self._segment, index, ActionKind.PLUG)

    def _write_gpu(self, index: int) -> None:
        from ..files.tree import remove_gpu, write_gpu

        with host_errors(self.directory):
            remove_gpu(self.directory, self.gpu(index))
            write_gpu(self.directory, self.gpu(index), self._segment.read(index))

    def set(self, selector: int | str, key: str, value: int | str) -> None:
        """Change one figure of a GPU, at once for every process; see ``settings.SETTINGS`` for the keys.

        Raises:
            InputError: no such GPU or key, or a value of the wrong type or out of range.
        """
        self.set_many(selector, {key: value})

    def set_many(self, selector: int | str, values: dict[str, int | str]) -> None:
        """Change several figures of a GPU in one step: all of them, or none when one is refused.

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
        """Let a GPU work: utilisation, memory, power, temperature and clocks move from now on, by themselves.

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
        """Give back metrics that were recorded, as a CSV file such as nvidia-smi writes; see ``trace``.

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

    def rest(self, selector: int | str) -> None:
        """End the load of a GPU at once: its figures are those that are set. Without a load it does nothing.

        Raises:
            InputError: no such GPU.
        """
        self._write_load(self.index(selector), 0, (), None)

    def _write_load(self, index: int, topics: int, frames: Sequence[layout.Frame], loop_to: int | None) -> None:
        last = len(frames) if loop_to is None else loop_to
        load = layout.Load(topics=topics, loop_to=last, started_ns=time.monotonic_ns())
        self._segment.write_load(index, load, frames)

    def enter_process(self, selector: int | str, pid: int, memory_bytes: int = 0, kind: str = "compute") -> None:
        """Show a process on a GPU, with the memory that it holds, for as long as it lives.

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

    def strike_process(self, selector: int | str, pid: int) -> None:
        """Take a process off a GPU while it lives; one that is not there is none to take off.

        Raises:
            InputError: no such GPU.
        """
        self._end_processes(self.index(selector), pid)

    def _gpu_or_mig_device(self, selector: int | str) -> tuple[int, MigDevice | None]:
        if isinstance(selector, str) and selector.startswith("MIG-"):
            for gpu in range(self._segment.gpu_count):
                for device in self.mig(gpu).devices:
                    if device.uuid == selector:
                        return gpu, device
            raise InputError(f"no MIG device '{selector}' in {self.directory}: `fakegpu mig list` shows them")
        return self.index(selector), None

    def _end_processes(self, index: int, pid: int = 0) -> None:
        self._segment.command("fakegpu_end_processes", index, pid)

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
