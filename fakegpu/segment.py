"""The segment file of a machine, opened for reading and writing.

Writers in any process exclude each other by ``flock`` on the file, threads of one process by a lock; readers of the C
library notice neither. A write is one step for them: the state of a GPU changes as a whole.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from . import _layout
from .errors import HostError, InputError
from .library import load_writer


def segment_bytes(header: _layout.Header, states: Sequence[_layout.GpuState]) -> bytes:
    """The content of a new segment file; fills in the header's magic, version, count and size."""
    records = (_layout.GpuRecord * len(states))()
    for record, state in zip(records, states, strict=True):
        record.states[0] = state
        record.states[1] = state
    header.magic = _layout.MAGIC
    header.version = _layout.VERSION
    header.gpu_count = len(states)
    header.size_bytes = ctypes.sizeof(header) + ctypes.sizeof(records)
    return bytes(header) + bytes(records)


class Segment:
    """A mapped segment file.

    Attributes:
        path: the file.
        gpu_count: GPUs of the machine; fixed for its life.
    """

    def __init__(self, path: Path, file: int, memory: mmap.mmap, gpu_count: int) -> None:
        self.path = path
        self.gpu_count = gpu_count
        self._file = file
        self._memory = memory
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._lock = threading.Lock()
        self._library = load_writer()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Maps an existing file.

        Raises:
            InputError: the file is missing, or is no segment of this version.
            HostError: the host does not let us write it.
        """
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise InputError(f"no fake machine in {path.parent}: `fakegpu up --dir {path.parent}` makes one") from None
        except OSError as error:
            raise HostError(f"cannot open {path}: {error.strerror}") from error
        try:
            return cls(path, file, *_map(path, file))
        except BaseException:
            os.close(file)
            raise

    def close(self) -> None:
        """Gives the file and the mapping back; later calls of the other methods fail. May be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read(self, gpu: int) -> _layout.GpuState:
        """A consistent copy of the state of GPU ``gpu``."""
        state = _layout.GpuState()
        if self._library.fakegpu_read_state(self._address, gpu, ctypes.byref(state)) != 0:
            raise InputError(f"{self.path}: no GPU {gpu}; the machine has 0 to {self.gpu_count - 1}")
        return state

    @contextmanager
    def change(self, gpu: int) -> Iterator[_layout.GpuState]:
        """Lends the state of a GPU for changing; on leaving without an error, every reader sees the new one."""
        with self._exclusive():
            state = self.read(gpu)
            yield state
            self._library.fakegpu_write_state(self._address, gpu, ctypes.byref(state))

    def post(self, gpu: int, event_type: int, data: int = 0) -> None:
        """Posts one event of a GPU and wakes whoever waits for events of this machine."""
        with self._exclusive():
            self._library.fakegpu_post_event(self._address, gpu, event_type, data)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)


def _map(path: Path, file: int) -> tuple[mmap.mmap, int]:
    size = os.fstat(file).st_size
    if size < ctypes.sizeof(_layout.Header):
        raise InputError(f"{path} is not the segment of a fake machine: it is too short")
    memory = mmap.mmap(file, size)
    header = _layout.Header.from_buffer_copy(memory)
    if header.magic != _layout.MAGIC:
        raise InputError(f"{path} is not the segment of a fake machine: it starts with other bytes")
    if header.version != _layout.VERSION or header.size_bytes != size:
        raise InputError(
            f"{path} has layout {header.version}, this fakegpu has {_layout.VERSION}: "
            "take the machine down with the version that made it, then up again"
        )
    return memory, int(header.gpu_count)
