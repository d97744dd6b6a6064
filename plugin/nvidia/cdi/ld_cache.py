"""The libraries that the loader's cache names.

Source: internal/ldcache/ldcache.go (nvidia-container-toolkit v1.19.0); the format: sysdeps/generic/dl-cache.h (glibc).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

__all__ = ["cached_libraries"]

_OLD_MAGIC: Final = b"ld.so-1.7.0"
_OLD_HEADER: Final = struct.Struct("<12sI")
_OLD_ENTRY_BYTES: Final = 12
_NEW_MAGIC: Final = b"glibc-ld.so.cache1.1"
_NEW_HEADER: Final = struct.Struct("<20sII12x8x")
_NEW_ENTRY: Final = struct.Struct("<iIIIQ")
_ELF: Final = 0x0001
_ARCHITECTURE: Final = 0xFF00
_64_BIT: Final = frozenset((0x0300, 0x0500, 0x0A00))


def cached_libraries(place: Path) -> list[str]:
    """The paths of the 64-bit libraries, each once, in the cache's order; none where there is no such cache."""
    try:
        data = place.read_bytes()
    except OSError:
        return []
    if data.startswith(_OLD_MAGIC) and len(data) >= _OLD_HEADER.size:
        _, count = _OLD_HEADER.unpack_from(data)
        end = _OLD_HEADER.size + count * _OLD_ENTRY_BYTES
        data = data[end + -end % 8 :]
    if not data.startswith(_NEW_MAGIC) or len(data) < _NEW_HEADER.size:
        return []
    _, count, _ = _NEW_HEADER.unpack_from(data)
    if _NEW_HEADER.size + count * _NEW_ENTRY.size > len(data):
        return []
    entries = _NEW_ENTRY.iter_unpack(data[_NEW_HEADER.size : _NEW_HEADER.size + count * _NEW_ENTRY.size])
    paths = (
        data[value : data.find(b"\0", value)].decode(errors="surrogateescape")
        for flags, _, value, _, _ in entries
        if flags & _ELF and flags & _ARCHITECTURE in _64_BIT and value < len(data)
    )
    return list(dict.fromkeys(path for path in paths if path))
