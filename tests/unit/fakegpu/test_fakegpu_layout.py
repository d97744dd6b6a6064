from __future__ import annotations

import ctypes

from fakegpu.state import layout
from fakegpu.state.library import compiled_layout, find_library


def test_layout_matches_library() -> None:
    assert compiled_layout(ctypes.CDLL(str(find_library()))) == layout.entries()


def test_layout_names_every_struct_once() -> None:
    assert len(set(layout.STRUCTS.values())) == len(layout.STRUCTS)
