from __future__ import annotations

import ctypes

import pytest

from fakegpu import _layout
from fakegpu.library import find_library


class Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_uint32), ("size", ctypes.c_uint32)]


@pytest.fixture(scope="module")
def compiled() -> dict[str, tuple[int, int]]:
    library = ctypes.CDLL(str(find_library()))
    library.fakegpu_layout.restype = ctypes.POINTER(Entry)
    entries = library.fakegpu_layout()
    found = {}
    position = 0
    while entries[position].name:
        found[entries[position].name.decode()] = (entries[position].offset, entries[position].size)
        position += 1
    return found


def test_layout_matches_library(compiled: dict[str, tuple[int, int]]) -> None:
    ours = {}
    for name, struct in _layout.STRUCTS.items():
        ours[name] = (0, ctypes.sizeof(struct))
        for member, *_ in struct._fields_:
            field = getattr(struct, member)
            ours[f"{name}.{member}"] = (field.offset, field.size)

    assert ours == compiled


def test_layout_names_every_struct_once() -> None:
    assert len(set(_layout.STRUCTS.values())) == len(_layout.STRUCTS)
