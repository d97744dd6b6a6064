"""The package's own C: a library for what is done to every byte of a large text, and the supervisor of node views.

A wheel carries both inside the package; an editable install leaves the package in the checkout and puts them
below the environment's own ``simkubelet`` folder. The library is loaded at the first use, not at import.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from ..model.errors import HostError

__all__ = ["FNV_OFFSET", "find_library", "find_supervisor", "fnv1a", "fnv1a_decimals", "library"]

FNV_OFFSET: Final = 0x811C9DC5
_NAME: Final = "libsimkubelet.so"
_SUPERVISOR: Final = "simkubelet-view"
_DISTRIBUTION: Final = "simkubelet"


def find_library() -> Path:
    """The built library.

    Raises:
        HostError: it was not built; the message says how to build it.
    """
    if built := _built(_NAME):
        return built
    raise HostError(f"{_NAME} is not built for this checkout: run `pip install -e .` (needs a C compiler)")


def find_supervisor() -> Path:
    """The built program that translates the paths of another; see ``native/view``.

    Raises:
        HostError: it was not built, or there is none for this architecture.
    """
    if built := _built(_SUPERVISOR):
        return built
    raise HostError(
        f"{_SUPERVISOR} is not built: it is for x86-64 and arm64 (this is {os.uname().machine}), and a build "
        "from source needs the headers of the kernel (linux/seccomp.h)"
    )


def _built(name: str) -> Path | None:
    inside = Path(__file__).parents[1] / "lib" / name
    if inside.is_file():
        return inside
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        installed = Path(str(distribution(_DISTRIBUTION).locate_file(f"simkubelet/lib/{name}")))
        if installed.is_file():
            return installed
    return None


@cache
def library() -> ctypes.CDLL:
    """The library with the signatures of its functions set."""
    loaded = ctypes.CDLL(str(find_library()))
    for hash_function in (loaded.simkubelet_fnv1a, loaded.simkubelet_fnv1a_decimals):
        hash_function.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
        hash_function.restype = ctypes.c_uint32
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


def fnv1a_decimals(numbers: bytes, hash_before: int = FNV_OFFSET) -> int:
    """The hash of the text ``0 17 255`` of the bytes 0, 17 and 255, after one with the hash `hash_before`."""
    digest: int = library().simkubelet_fnv1a_decimals(hash_before, numbers, len(numbers))
    return digest
