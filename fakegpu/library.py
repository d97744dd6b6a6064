"""Where the built ``libnvidia-ml.so.1`` is, and the ctypes view of its writing side.

A wheel carries the library inside the package; an editable install leaves the package in the checkout and puts the
library below the environment's own ``fakegpu`` folder.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from . import _layout
from .errors import HostError

NAME: Final = "libnvidia-ml.so.1"
_DISTRIBUTION: Final = "simkubelet"


def find_library() -> Path:
    """The built library.

    Raises:
        HostError: it was not built; the message says how to build it.
    """
    inside = Path(__file__).parent / "lib" / NAME
    if inside.is_file():
        return inside
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        installed = Path(str(distribution(_DISTRIBUTION).locate_file(f"fakegpu/lib/{NAME}")))
        if installed.is_file():
            return installed
    raise HostError(f"{NAME} is not built for this checkout: run `pip install -e .` (needs a C compiler)")


@cache
def load_writer() -> ctypes.CDLL:
    """The library with the signatures of its ``fakegpu_*`` functions set; loaded once, at the first write."""
    library = ctypes.CDLL(str(find_library()))
    state = ctypes.POINTER(_layout.GpuState)
    for function, arguments in {
        "fakegpu_read_state": [ctypes.c_void_p, ctypes.c_uint32, state],
        "fakegpu_write_state": [ctypes.c_void_p, ctypes.c_uint32, state],
        "fakegpu_post_event": [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint64],
    }.items():
        getattr(library, function).argtypes = arguments
        getattr(library, function).restype = ctypes.c_int
    return library
