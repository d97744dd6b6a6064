"""The mapping of a segment file: where its parts are, and what must be right before it is used.

The library knows each mapping (``native/core/mapping.c``): it takes the number of GPUs from there and not from the
file, which plugins may write, and puts memory of this process in its place where the file becomes shorter.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
import sys
from pathlib import Path
from typing import Final
from weakref import finalize

from ..errors import HostError, InputError
from . import layout
from .library import load_writer

DAMAGED: Final = "is damaged: another program wrote over it or made it shorter; make the machine again"


def record_at(gpu: int) -> int:
    """Return where the record of a GPU begins in a segment."""
    return ctypes.sizeof(layout.Header) + gpu * ctypes.sizeof(layout.GpuRecord)


def banks_at(gpu: int, gpus: int) -> int:
    """Return ``GpuRecord.banks_at`` of a GPU among so many: its banks come after all records and the banks before."""
    return (gpus - gpu) * ctypes.sizeof(layout.GpuRecord) + gpu * 2 * ctypes.sizeof(layout.Bank)


def size_of(gpus: int) -> int:
    """Return the bytes of a segment."""
    return record_at(gpus) + gpus * 2 * ctypes.sizeof(layout.Bank)


class Mapping:
    """A mapped file, which the library knows while it is mapped.

    Each user of the address holds it, so that a close meanwhile does not unmap it.
    """

    def __init__(self, memory: mmap.mmap, gpu_count: int) -> None:
        self.memory = memory
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._magic = ctypes.c_uint64.from_address(self.address + layout.Header.magic.offset)
        library = load_writer()
        if library.fakegpu_add_mapping(self.address, gpu_count) != 0:
            raise HostError("no memory to open a fake machine")
        # A signal may have ended this method before: `__del__` would then find no library, or an address that is none.
        finalize(self, library.fakegpu_remove_mapping, self.address).atexit = False

    @property
    def is_intact(self) -> bool:
        """Whether it begins as a segment, and so neither became shorter nor has other bytes there."""
        return self._magic.value == layout.MAGIC


def map_segment(path: Path, file: int, *, is_writable: bool) -> tuple[Mapping, int]:
    """Map an open segment file, and return the number of its GPUs, too.

    Raises:
        InputError: it is no segment of this version.
    """
    status = os.fstat(file)
    content = os.pread(file, ctypes.sizeof(layout.Header), 0) if stat.S_ISREG(status.st_mode) else b""
    if len(content) < ctypes.sizeof(layout.Header):
        raise InputError(f"{path} is not the segment of a fake machine: it is too short")
    header = layout.Header.from_buffer_copy(content)
    if header.magic != layout.MAGIC:
        raise InputError(f"{path} is not the segment of a fake machine: it starts with other bytes")
    if header.version != layout.VERSION:
        raise InputError(
            f"{path} has layout {header.version}, this fakegpu has {layout.VERSION}: "
            "take the machine down with the version that made it, then up again"
        )
    gpu_count, size = int(header.gpu_count), status.st_size
    remedy = f"remove {path.parent} and make it again"
    if gpu_count > layout.GPUS_MAX or not header.size_bytes == size == size_of(gpu_count):
        raise InputError(f"{path} is damaged: {size} bytes do not fit its {gpu_count} GPUs; {remedy}")
    try:
        # A private mapping shows what others write, too: nobody writes through it, and only what is written is copied.
        memory = mmap.mmap(file, size, access=mmap.ACCESS_WRITE if is_writable else mmap.ACCESS_COPY)
    except ValueError:
        raise InputError(f"{path} {DAMAGED}") from None
    mapping = Mapping(memory, gpu_count)
    for gpu in range(gpu_count):
        place = record_at(gpu) + layout.GpuRecord.banks_at.offset
        if int.from_bytes(memory[place : place + 8], sys.byteorder) != banks_at(gpu, gpu_count):
            raise InputError(f"{path} is damaged: the record of GPU {gpu} holds other bytes; {remedy}")
    return mapping, gpu_count
