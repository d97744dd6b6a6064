"""The name by which a library is linked to, as its file has it.

Source: debug/elf, ``File.DynString`` (Go 1.26), as internal/discover/symlinks.go (nvidia-container-toolkit v1.19.0)
uses it; the format: elf(5).
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

__all__ = ["ElfError", "soname"]

_IDENTITY: Final = b"\x7fELF\x02\x01"
"""64-bit and little-endian, as all drivers are."""
_HEADER: Final = struct.Struct("<16x2xHI8x8xQ4xHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC_ENTRY: Final = struct.Struct("<qQ")
_DYNAMIC_SECTION: Final = 6
_SONAME: Final = 14


class ElfError(Exception):
    """A file is no ELF file, or not a whole one."""


def soname(library: Path) -> str:
    """The library's SONAME; its file's name where it has none.

    Raises:
        ElfError: the file cannot be understood.
        OSError: the file cannot be read.
    """
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            names = _dynamic_strings(data, _SONAME)
    except (struct.error, ValueError) as error:
        raise ElfError(f"{library}: {error}") from error
    if len(names) > 1:
        raise ElfError(f"{library}: {len(names)} SONAMEs")
    return names[0] if names else library.name


def _dynamic_strings(data: mmap.mmap, tag: int) -> list[str]:
    sections = _sections(data)
    for kind, link, place in sections:
        if kind == _DYNAMIC_SECTION:
            strings = data[sections[link][2]] if link < len(sections) else b""
            dynamic = data[place]
            entries = _DYNAMIC_ENTRY.iter_unpack(dynamic[: len(dynamic) // _DYNAMIC_ENTRY.size * _DYNAMIC_ENTRY.size])
            return [strings[value:].partition(b"\0")[0].decode() for found, value in entries if found == tag]
    return []


def _sections(data: mmap.mmap) -> list[tuple[int, int, slice]]:
    """Type, linked section and place in the file of each section."""
    if not data[: _HEADER.size].startswith(_IDENTITY):
        raise ValueError("no 64-bit little-endian ELF file")
    _, _, offset, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    table = [
        _SECTION.unpack_from(data[offset + number * size : offset + number * size + _SECTION.size])
        for number in range(count)
    ]
    return [(kind, link, slice(at, at + length)) for _, kind, _, _, at, length, link, _, _, _ in table]
