"""The package's own C library, for what is done to every byte of a large text: see ``native/``.

A wheel carries the library inside the package; an editable install leaves the package in the checkout and puts the
library below the environment's own ``simkubelet`` folder. It is loaded at the first use, not at import.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from ..model.errors import HostError

__all__ = ["FNV_OFFSET", "find_library", "fnv1a", "library"]

FNV_OFFSET: Final = 0x811C9DC5
_NAME: Final = "libsimkubelet.so"
_DISTRIBUTION: Final = "simkubelet"


def find_library() -> Path:
    """The built library.

    Raises:
        HostError: it was not built; the message says how to build it.
    """
    inside = Path(__file__).parents[1] / "lib" / _NAME
    if inside.is_file():
        return inside
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        installed = Path(str(distribution(_DISTRIBUTION).locate_file(f"simkubelet/lib/{_NAME}")))
        if installed.is_file():
            return installed
    raise HostError(f"{_NAME} is not built for this checkout: run `pip install -e .` (needs a C compiler)")


@cache
def library() -> ctypes.CDLL:
    """The library with the signatures of its functions set."""
    loaded = ctypes.CDLL(str(find_library()))
    loaded.simkubelet_fnv1a.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
    loaded.simkubelet_fnv1a.restype = ctypes.c_uint32
    loaded.simkubelet_read_devices.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.c_char_p,
    ]
    loaded.simkubelet_read_devices.restype = ctypes.c_long
    return loaded


def fnv1a(text: bytes, hash_before: int = FNV_OFFSET) -> int:
    """The hash FNV-1a, 32 bits, of a text that follows one with the hash `hash_before`."""
    digest: int = library().simkubelet_fnv1a(hash_before, text, len(text))
    return digest
