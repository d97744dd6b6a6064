"""Python's search for garbage, which finds none while a plugin is loaded, and takes a tenth of its start."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["loaded", "loading"]


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing until the end, or until all is `loaded`."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def loaded() -> None:
    """Collect from now on, and pass over what there is: it stays."""
    gc.freeze()
    gc.enable()
