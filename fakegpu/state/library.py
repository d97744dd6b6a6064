"""Where the built ``libnvidia-ml.so.1`` is, and the ctypes view of its writing side.

A wheel carries the library inside the package; an editable install leaves the package in the checkout and puts the
library below the environment's own ``fakegpu`` folder.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from itertools import count, takewhile
from pathlib import Path
from typing import Final

from ..errors import HostError, InputError
from . import layout

NAME: Final = "libnvidia-ml.so.1"
_RESULTS: Final = {"fakegpu_add_plan": ctypes.c_uint64, "fakegpu_add_rule": ctypes.c_uint64}


def find_library() -> Path:
    """The built library, or the file that ``FAKEGPU_LIBRARY`` names: the same, built in another way.

    Raises:
        HostError: it was not built; the message says how to build it.
        InputError: the variable names no file.
    """
    if elsewhere := os.environ.get("FAKEGPU_LIBRARY"):
        if not Path(elsewhere).is_file():
            raise InputError(f"FAKEGPU_LIBRARY={elsewhere}: no such file")
        return Path(elsewhere)
    if library := find_built(f"fakegpu/lib/{NAME}"):
        return library
    raise HostError(f"{NAME} is not built for this checkout: run `pip install -e .` (needs a C compiler)")


def find_built(file: str) -> Path | None:
    """Where a file is that the build of this distribution makes."""
    # Metadata of the distribution would say where it is as well, but takes longer to read than a command to run.
    folders = (str(Path(__file__).parents[2]), *filter(None, sys.path))
    return next((built for folder in folders if (built := Path(folder, file)).is_file()), None)


class _Entry(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("offset", ctypes.c_uint32), ("size", ctypes.c_uint32))


def compiled_layout(library: ctypes.CDLL) -> dict[str, tuple[int, int]]:
    """Offset and size of every struct and member as the library was compiled: ``fg_thermal.gpu_c``."""
    library.fakegpu_layout.restype = ctypes.POINTER(_Entry)
    entries = takewhile(lambda entry: entry.name, map(library.fakegpu_layout().__getitem__, count()))
    return {entry.name.decode(): (entry.offset, entry.size) for entry in entries}


def declared_layout() -> dict[str, tuple[int, int]]:
    """Return the same of the structures in ``layout``."""
    found = {}
    for name, struct in layout.STRUCTS.items():
        found[name] = (0, ctypes.sizeof(struct))
        for member, *_ in struct._fields_:
            field = getattr(struct, member)
            found[f"{name}.{member}"] = (field.offset, field.size)
    return found


@cache
def load_writer() -> ctypes.CDLL:
    """The library with the signatures of its ``fakegpu_*`` functions set; loaded once, at the first write.

    Raises:
        HostError: it is not built, cannot be loaded, or has another layout of the segment than ``layout``.
        InputError: as ``find_library``.
    """
    path = find_library()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise HostError(f"{path} cannot be loaded: {error}") from None
    if not hasattr(library, "fakegpu_layout") or compiled_layout(library) != declared_layout():
        raise HostError(f"{path} is of another version than this fakegpu: install both again, `pip install -e .`")
    state, number = ctypes.POINTER(layout.GpuState), ctypes.POINTER(ctypes.c_uint32)
    for function, arguments in {
        "fakegpu_add_mapping": [ctypes.c_void_p, ctypes.c_uint32],
        "fakegpu_remove_mapping": [ctypes.c_void_p],
        "fakegpu_read_state": [ctypes.c_void_p, ctypes.c_uint32, state],
        "fakegpu_read_live": [ctypes.c_void_p, ctypes.c_uint32, state],
        "fakegpu_count_energy": [ctypes.c_void_p, ctypes.c_uint32, state],
        "fakegpu_write_state": [ctypes.c_void_p, ctypes.c_uint32, state],
        "fakegpu_post_event": [ctypes.c_void_p, ctypes.POINTER(layout.Event)],
        "fakegpu_act": [ctypes.c_void_p, ctypes.POINTER(layout.Action)],
        "fakegpu_keep_plans": [ctypes.c_void_p],
        "fakegpu_add_plan": [ctypes.c_void_p, ctypes.POINTER(layout.Plan)],
        "fakegpu_add_rule": [ctypes.c_void_p, ctypes.POINTER(layout.Rule)],
        "fakegpu_remove_plan": [ctypes.c_void_p, ctypes.c_uint64],
        "fakegpu_remove_rule": [ctypes.c_void_p, ctypes.c_uint64],
        "fakegpu_end_processes": [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32],
        "fakegpu_stick_waits": [ctypes.c_void_p, ctypes.c_int],
        "fakegpu_mig_create": [state, ctypes.c_uint32, ctypes.c_uint32, number],
        "fakegpu_mig_destroy": [state, ctypes.c_uint32],
        "fakegpu_mig_create_compute": [state, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, number],
        "fakegpu_mig_capacity": [state, ctypes.c_uint32],
        "fakegpu_mig_device_slot": [state, ctypes.c_uint32],
        "fakegpu_mig_device_name": [state, ctypes.c_uint32, ctypes.c_char_p],
        "fakegpu_mig_uuid": [state, ctypes.c_uint32, ctypes.c_char_p],
        "fakegpu_capability_minor": [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int32],
        "fakegpu_write_capabilities": [ctypes.c_char_p, state],
    }.items():
        getattr(library, function).argtypes = arguments
        getattr(library, function).restype = _RESULTS.get(function, ctypes.c_int)
    return library
