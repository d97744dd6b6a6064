"""Memory of a process that takes objects of any client: what large objects took goes back to the system after them.

Python takes memory for small objects in pieces of 1 MiB, and gives back a piece when nothing in it is in use: a few
objects that are younger than a large one keep all that it took. The C library gives back each unused page when it is
asked to. So a process of `up` or `join` has the C library allocate its small objects too, from its start on.

Only glibc has ``malloc_trim``, and only its allocator is as fast as Python's; with another library nothing is changed.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import time
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["return_memory", "use_c_allocator"]

_RETURNED_EACH_S: Final = 30.0
_SHARE: Final = 300
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_MAPPED_FROM_BYTES: Final = 128 << 10
_RAW, _MEM, _OBJECT = range(3)


class _Allocator(ctypes.Structure):
    """``PyMemAllocatorEx`` of Python's C API."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("context", "malloc", "calloc", "realloc", "free"))

    @classmethod
    def of(cls, domain: int) -> _Allocator:
        """The allocator of one of Python's domains."""
        found = cls()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(found))
        return found


def use_c_allocator() -> bool:
    """Take memory for new small objects from the C library, as with ``PYTHONMALLOC=malloc``, but also after the start.

    Python's own functions still free and enlarge: they know what they have allocated, and pass the rest to the C
    library, as they do with objects of more than 512 bytes.

    Returns:
        Whether it does from now on; not with another interpreter, C library or allocator than CPython's on glibc.

    Source: Objects/obmalloc.c, ``_PyObject_Free``, ``_PyObject_Realloc`` (Python 3.11 to 3.14).
    """
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    library = ctypes.CDLL(None)
    raw, own = _Allocator.of(_RAW), _Allocator.of(_OBJECT)
    is_hooked = raw.context or own.context or own.free != _Allocator.of(_MEM).free
    if not hasattr(library, "malloc_trim") or is_hooked or raw.malloc == own.malloc:
        return False
    # One heap for all threads, and large pieces apart from it, also after others of their size were freed.
    library.mallopt(_ARENA_MAX, 1)
    library.mallopt(_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
    mixed = _Allocator(None, raw.malloc, raw.calloc, own.realloc, own.free)
    for domain in (_MEM, _OBJECT):
        ctypes.pythonapi.PyMem_SetAllocator(domain, ctypes.byref(mixed))
    return True


async def return_memory(sleep: Callable[[float], Awaitable[None]]) -> None:
    """Now and then free what only refers to itself, and give the system what is unused.

    Python looks for such objects after many new ones, so not at all while a cluster is idle. The search takes a tenth
    of a second for a million objects and holds the process up: it takes at most a three hundredth of the time.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    left_s = 0.0
    while True:
        await sleep(_RETURNED_EACH_S)
        left_s -= _RETURNED_EACH_S
        if left_s <= 0:
            began = time.thread_time()
            gc.collect()
            left_s = _SHARE * (time.thread_time() - began)
        if trim is not None:
            trim(0)
