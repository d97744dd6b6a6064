from __future__ import annotations

import ctypes

from fakegpu import _layout
from fakegpu.library import compiled_layout, find_library


def test_layout_matches_library() -> None:
    assert compiled_layout(ctypes.CDLL(str(find_library()))) == _layout.entries()


def test_layout_names_every_struct_once() -> None:
    assert len(set(_layout.STRUCTS.values())) == len(_layout.STRUCTS)
