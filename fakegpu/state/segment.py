"""The segment file of a machine, opened for reading and writing, or for reading where we may do no more.

Writers in any process exclude each other by ``flock`` on the file, threads of one process by a lock; readers of the C
library notice neither. A write is one step for them: the state of a GPU changes as a whole. A forked child gets
locks of its own, because those it inherits are its parent's.

Plugins, which are programs of others, may write the file. What they write is an error of the call that meets it: the
library knows each mapping and puts memory of this process in its place where the file becomes shorter, states are
checked when they are read, and a lock that is not released is waited for ``LOCK_WAIT_S``.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from ..errors import HostError, InputError
from . import layout
from .library import load_writer
from .mapping import DAMAGED, Mapping, banks_at, map_segment, record_at, size_of

SEGMENT: Final = "segment"
"""Name of the file in the machine's folder."""


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
    header.size_bytes = size_of(len(states))
    return (bytes(header) + bytes(records)).ljust(header.size_bytes, b"\0")


def write_segment(path: Path, content: bytes) -> None:
    """Write a new segment file in pieces, whose size is that of the page cache's folios.

    Linux 6.18 maps a whole folio when a process looks at one byte of it, up to 2 MiB, and counts it as the process's.
    """
    with path.open("xb") as file:
        for start in range(0, len(content), _PIECE_BYTES):
            file.write(content[start : start + _PIECE_BYTES])


_PIECE_BYTES: Final = 1 << 16

LOCK_WAIT_S: Final = 3.0
_LONGEST_PAUSE_S: Final = 0.01
_UNSOUND: Final = -2
"""What the library answers for a state that no machine is made with."""

_FAULTS = layout.Header.faults
_DRIVER_VERSION = layout.Header.driver_version
_FLAGS = layout.Header.fault_flags


class _LockedError(HostError):
    """Another process keeps the lock of writers."""


class Segment:
    """A mapped segment file.

    Attributes:
        path: the file.
        gpu_count: GPUs of the machine; fixed for its life.
    """

    def __init__(self, path: Path, file: int, mapping: Mapping, gpu_count: int, *, is_writable: bool) -> None:
        self.path = path
        self.gpu_count = gpu_count
        self._file = file
        self._is_writable = is_writable
        self._mapping: Mapping | None = mapping
        self._lock = threading.Lock()
        self._has_waited_in_vain = False
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
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError as error:
                if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                    raise
                is_writable = False
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"no fake machine in {path.parent}: `fakegpu up --dir {path.parent}` makes one") from None
        except OSError as error:
            raise HostError(f"cannot open {path}: {error.strerror}") from error
        try:
            return cls(path, file, *map_segment(path, file, is_writable=is_writable), is_writable=is_writable)
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
            faults = layout.Faults.from_buffer_copy(ctypes.string_at(address + _FAULTS.offset, _FAULTS.size))
        if not (all(map(_is_rule, faults.rules)) and all(self._is_plan(plan) for plan in faults.plans)):
            raise InputError(f"{self.path} {DAMAGED}")
        return faults

    def _is_plan(self, plan: layout.Plan) -> bool:
        return not plan.number or (
            plan.action.gpu < self.gpu_count and plan.action.kind in layout.ActionKind.__members__.values()
        )

    def flags(self) -> int:
        """``layout.FAULT_*`` as they are now."""
        mapping = self._mapped()
        return ctypes.c_uint32.from_address(mapping.address + _FLAGS.offset).value

    def driver_version(self) -> str:
        """Of the machine's driver."""
        mapping = self._mapped()
        version = ctypes.string_at(mapping.address + _DRIVER_VERSION.offset, _DRIVER_VERSION.size)
        return version.partition(b"\0")[0].decode("ascii", errors="replace")

    def keep_plans(self) -> None:
        """Carry out the plans that have fallen due, as every process does that may write the segment.

        Plans that another process holds up stay due.
        """
        if self._is_writable and self.flags() & layout.FAULT_PLANS:
            with suppress(_LockedError):
                self.command("fakegpu_keep_plans")

    def command(self, function: str, *arguments: object) -> int:
        """Calls a function of ``native/control/writer.h`` as the only writer; the segment is its first argument."""
        with self._exclusive() as address:
            return int(getattr(self._library, function)(address, *arguments) or 0)

    def _read(self, gpu: int, function: Callable[..., int]) -> layout.GpuState:
        state = layout.GpuState()
        mapping = self._mapped()
        if not 0 <= gpu < self.gpu_count:
            raise InputError(f"{self.path}: no GPU {gpu}; the machine has 0 to {self.gpu_count - 1}")
        code = function(mapping.address, gpu, ctypes.byref(state))
        if code == _UNSOUND or not mapping.is_intact:
            raise InputError(f"{self.path} {DAMAGED}")
        if code != 0:
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
        """The segment's address while nobody writes.

        Raises:
            HostError: another process keeps the lock.
        """
        with self._lock:
            mapping = self._mapped()
            self._take_lock()
            try:
                yield mapping.address
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            if not mapping.is_intact:
                raise InputError(f"{self.path} {DAMAGED}")

    def _take_lock(self) -> None:
        """A process that keeps the lock is waited for once: afterwards each call looks only whether it is free."""
        deadline, pause_s = None, 0.0002
        while not self._has_lock():
            deadline = deadline or time.monotonic() + LOCK_WAIT_S
            self._has_waited_in_vain |= time.monotonic() >= deadline
            if self._has_waited_in_vain:
                raise _LockedError(f"{self.path} is locked by {_holder(self._file)}, which does not release it: end it")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        self._has_waited_in_vain = False

    def _has_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _mapped(self) -> Mapping:
        if (mapping := self._mapping) is None:
            raise InputError(f"the machine in {self.path.parent} is closed in this process: open it again")
        if not mapping.is_intact:
            raise InputError(f"{self.path} {DAMAGED}")
        return mapping

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


def _is_rule(rule: layout.Rule) -> bool:
    return not rule.number or (rule.delay_count <= layout.DELAY_POINTS and rule.function.isascii())


def _holder(file: int) -> str:
    """Return the process that has locked a file, for people."""
    inode = os.fstat(file).st_ino
    # "1: FLOCK  ADVISORY  WRITE 4711 00:2f:1234 0 EOF"; an arrow before the kind marks those that wait.
    with suppress(OSError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            _number, kind, _advisory, _access, pid, place, *_range = line.split()
            if kind == "FLOCK" and place.rpartition(":")[2] == str(inode):
                with suppress(OSError):
                    name = Path("/proc", pid, "comm").read_text(errors="replace").strip()
                    return f"process {pid} ({name})"
    return "another process"
