"""The segment file of a machine, opened for reading and writing, or for reading where we may do no more.

Writers in any process exclude each other by ``flock`` on the file, threads of one process by a lock; readers of the C
library notice neither. A write is one step for them: the state of a GPU changes as a whole. A forked child gets
locks of its own, because those it inherits are its parent's.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from ..errors import HostError, InputError
from . import layout
from .library import load_writer

SEGMENT: Final = "segment"
"""Name of the file in the machine's folder."""


def record_at(gpu: int) -> int:
    """Return where the record of a GPU begins in a segment."""
    return ctypes.sizeof(layout.Header) + gpu * ctypes.sizeof(layout.GpuRecord)


def banks_at(gpu: int, gpus: int) -> int:
    """Return ``GpuRecord.banks_at`` of a GPU among so many: its banks come after all records and the banks before."""
    return (gpus - gpu) * ctypes.sizeof(layout.GpuRecord) + gpu * 2 * ctypes.sizeof(layout.Bank)


def _size_of(gpus: int) -> int:
    return record_at(gpus) + gpus * 2 * ctypes.sizeof(layout.Bank)


def segment_bytes(header: layout.Header, states: Sequence[layout.GpuState]) -> bytes:
    """The content of a new segment file; fills in the header's magic, version, count and size."""
    records = (layout.GpuRecord * len(states))()
    for gpu, (record, state) in enumerate(zip(records, states, strict=True)):
        state.power.energy_at_ns = time.monotonic_ns()
        record.banks_at = banks_at(gpu, len(states))
        record.states[0] = state
        record.states[1] = state
    header.magic = layout.MAGIC
    header.version = layout.VERSION
    header.gpu_count = len(states)
    header.loaded_at_us = time.time_ns() // 1000
    header.size_bytes = _size_of(len(states))
    return (bytes(header) + bytes(records)).ljust(header.size_bytes, b"\0")


def write_segment(path: Path, content: bytes) -> None:
    """Write a new segment file in pieces, whose size is that of the page cache's folios.

    Linux 6.18 maps a whole folio when a process looks at one byte of it, up to 2 MiB, and counts it as the process's.
    """
    with path.open("xb") as file:
        for start in range(0, len(content), _PIECE_BYTES):
            file.write(content[start : start + _PIECE_BYTES])


_PIECE_BYTES: Final = 1 << 16

_FAULTS = layout.Header.faults
_DRIVER_VERSION = layout.Header.driver_version
_FLAGS = layout.Header.fault_flags


class Segment:
    """A mapped segment file.

    Attributes:
        path: the file.
        gpu_count: GPUs of the machine; fixed for its life.
    """

    def __init__(self, path: Path, file: int, memory: mmap.mmap, gpu_count: int, *, is_writable: bool) -> None:
        self.path = path
        self.gpu_count = gpu_count
        self._file = file
        self._is_writable = is_writable
        # Each user of the address holds the mapping as well, so that a close meanwhile does not unmap it.
        self._mapping: tuple[mmap.mmap, int] | None = memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._lock = threading.Lock()
        self._library = load_writer()
        _segments.add(self)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Map an existing file.

        Raises:
            InputError: the file is missing, or is no segment of this version.
            HostError: the host does not let us read it.
        """
        is_writable = True
        try:
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                    raise
                is_writable = False
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"no fake machine in {path.parent}: `fakegpu up --dir {path.parent}` makes one") from None
        except OSError as error:
            raise HostError(f"cannot open {path}: {error.strerror}") from error
        try:
            return cls(path, file, *_map(path, file, is_writable), is_writable=is_writable)
        except BaseException:
            os.close(file)
            raise

    def close(self) -> None:
        """Give the file and the mapping back, after the write in progress if there is one. May be called twice.

        Later calls of the other methods raise InputError.
        """
        with self._lock:
            self._mapping = None
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def read(self, gpu: int) -> layout.GpuState:
        """A consistent copy of the state of GPU ``gpu``, as it is set."""
        self.keep_plans()
        return self._read(gpu, self._library.fakegpu_read_state)

    def read_live(self, gpu: int) -> layout.GpuState:
        """The same with the figures of this moment, where the GPU works on a load or processes hold memory."""
        self.keep_plans()
        return self._read(gpu, self._library.fakegpu_read_live)

    def faults(self) -> layout.Faults:
        """A copy of the rules and plans of the machine."""
        with self._locked() as address:
            return layout.Faults.from_buffer_copy(ctypes.string_at(address + _FAULTS.offset, _FAULTS.size))

    def flags(self) -> int:
        """``layout.FAULT_*`` as they are now."""
        _memory, address = self._mapped()
        return ctypes.c_uint32.from_address(address + _FLAGS.offset).value

    def driver_version(self) -> str:
        """Of the machine's driver."""
        _memory, address = self._mapped()
        version = ctypes.string_at(address + _DRIVER_VERSION.offset, _DRIVER_VERSION.size)
        return version.partition(b"\0")[0].decode()

    def keep_plans(self) -> None:
        """Carry out the plans that have fallen due, as every process does that may write the segment."""
        if self._is_writable and self.flags() & layout.FAULT_PLANS:
            self.command("fakegpu_keep_plans")

    def command(self, function: str, *arguments: object) -> int:
        """Calls a function of ``native/control/writer.h`` as the only writer; the segment is its first argument."""
        with self._exclusive() as address:
            return int(getattr(self._library, function)(address, *arguments) or 0)

    def _read(self, gpu: int, function: Callable[..., int]) -> layout.GpuState:
        state = layout.GpuState()
        _memory, address = self._mapped()
        if not 0 <= gpu < self.gpu_count:
            raise InputError(f"{self.path}: no GPU {gpu}; the machine has 0 to {self.gpu_count - 1}")
        if function(address, gpu, ctypes.byref(state)) != 0:
            raise HostError(f"{self.path}: GPU {gpu} changes faster than it can be read")
        return state

    def _read_for_change(self, address: int, gpu: int) -> layout.GpuState:
        """What the GPU has drawn until now stays on its energy counter, whatever it draws after the change."""
        state = self._read(gpu, self._library.fakegpu_read_state)
        self._library.fakegpu_count_energy(address, gpu, ctypes.byref(state))
        return state

    @contextmanager
    def hold(self, gpu: int) -> Iterator[layout.GpuState]:
        """Lend a copy of the state of a GPU, which nobody changes until the caller is done with it."""
        with self._exclusive():
            yield self._read(gpu, self._library.fakegpu_read_state)

    @contextmanager
    def change(self, gpu: int) -> Iterator[layout.GpuState]:
        """Lend the state of a GPU for changing; on leaving without an error, every reader sees the new one."""
        self.keep_plans()
        with self._exclusive() as address:
            state = self._read_for_change(address, gpu)
            yield state
            self._library.fakegpu_write_state(address, gpu, ctypes.byref(state))

    def write_load(self, gpu: int, load: layout.Load, frames: Sequence[layout.Frame]) -> None:
        """Put a load in force in place of the one before, for every reader in one step.

        What the GPU has drawn until then stays on its energy counter.

        Args:
            gpu: its index.
            load: topics, start and where to loop to; the rest is filled in.
            frames: in the order of time, at most ``layout.FRAMES_MAX``.
        """
        self.keep_plans()
        with self._exclusive() as address:
            state = self._read_for_change(address, gpu)
            if load.topics & layout.LIVE_POWER:
                state.power.energy_at_ns = load.started_ns
            load.bank, load.count = 1 - (state.load.bank & 1), len(frames)
            state.load = load
            banks = address + record_at(gpu) + banks_at(gpu, self.gpu_count)
            place = banks + load.bank * ctypes.sizeof(layout.Bank)
            content = (layout.Frame * len(frames))(*frames)
            ctypes.memmove(place, content, ctypes.sizeof(content))
            self._library.fakegpu_write_state(address, gpu, ctypes.byref(state))

    def post(
        self,
        gpu: int,
        event_type: int,
        data: int = 0,
        gpu_instance: int = layout.NO_INSTANCE,
        compute_instance: int = layout.NO_INSTANCE,
    ) -> None:
        """Post one event of a GPU and wake those that wait for events of this machine.

        Raises:
            InputError: no such GPU, or a type that is not exactly one bit.
        """
        event = layout.Event(
            type=event_type, data=data, gpu=gpu, gpu_instance=gpu_instance, compute_instance=compute_instance
        )
        if self.command("fakegpu_post_event", ctypes.byref(event)) != 0:
            raise InputError(f"{self.path}: no event {event_type:#x} of GPU {gpu}: give one type and a known GPU")

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        """The segment's address, for the only writer.

        Raises:
            HostError: the host does not let us write.
        """
        if not self._is_writable:
            raise HostError(f"{self.path} can only be read here: its owner, or root, may change the machine")
        with self._locked() as address:
            yield address

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The segment's address while nobody writes."""
        with self._lock:
            _memory, address = self._mapped()
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield address
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _mapped(self) -> tuple[mmap.mmap, int]:
        if self._mapping is None:
            raise InputError(f"the machine in {self.path.parent} is closed in this process: open it again")
        memory, _address = self._mapping
        if os.fstat(self._file).st_size < len(memory):
            # What is read beyond the end of a file ends the process.
            raise InputError(f"{self.path} is damaged: somebody has made it shorter; make the machine again")
        return self._mapping

    def _part_from_parent(self) -> None:
        """Give a forked child its own lock and its own opening of the file, to which ``flock`` belongs."""
        self._lock = threading.Lock()
        if self._file < 0:
            return
        try:
            mode = os.O_RDWR if self._is_writable else os.O_RDONLY
            own = os.open(f"/proc/self/fd/{self._file}", mode | os.O_CLOEXEC)
        except OSError:
            self.close()
            return
        os.dup2(own, self._file, inheritable=False)
        os.close(own)


_segments: weakref.WeakSet[Segment] = weakref.WeakSet()


def _part_all_from_parent() -> None:
    for segment in list(_segments):
        segment._part_from_parent()


os.register_at_fork(after_in_child=_part_all_from_parent)


def _map(path: Path, file: int, is_writable: bool) -> tuple[mmap.mmap, int]:
    size = os.fstat(file).st_size
    if size < ctypes.sizeof(layout.Header):
        raise InputError(f"{path} is not the segment of a fake machine: it is too short")
    # A private mapping shows what others write, too: nobody writes through it, and only what is written is copied.
    memory = mmap.mmap(file, size, access=mmap.ACCESS_WRITE if is_writable else mmap.ACCESS_COPY)
    header = layout.Header.from_buffer_copy(memory)
    if header.magic != layout.MAGIC:
        raise InputError(f"{path} is not the segment of a fake machine: it starts with other bytes")
    if header.version != layout.VERSION:
        raise InputError(
            f"{path} has layout {header.version}, this fakegpu has {layout.VERSION}: "
            "take the machine down with the version that made it, then up again"
        )
    gpu_count = int(header.gpu_count)
    remedy = f"remove {path.parent} and make it again"
    if gpu_count > layout.GPUS_MAX or not header.size_bytes == size == _size_of(gpu_count):
        raise InputError(f"{path} is damaged: {size} bytes do not fit its {gpu_count} GPUs; {remedy}")
    for gpu in range(gpu_count):
        place = record_at(gpu) + layout.GpuRecord.banks_at.offset
        if int.from_bytes(memory[place : place + 8], sys.byteorder) != banks_at(gpu, gpu_count):
            raise InputError(f"{path} is damaged: the record of GPU {gpu} holds other bytes; {remedy}")
    return memory, gpu_count
