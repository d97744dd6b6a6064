from __future__ import annotations

import ctypes

from fakegpu.state.library import compiled_layout, declared_layout, find_library


def test_layout_matches_library() -> None:
    assert compiled_layout(ctypes.CDLL(str(find_library()))) == declared_layout()
