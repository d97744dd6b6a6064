"""Output that nobody reads any more: what an error of it is, and how a program goes on without it."""

from __future__ import annotations

import errno
import os
from typing import TextIO

__all__ = ["give_up", "has_no_reader"]


def has_no_reader(error: OSError) -> bool:
    """Whether it is that of a pipe whose reader has ended, or of a terminal that was closed."""
    return error.errno in (errno.EPIPE, errno.EIO)


def give_up(stream: TextIO) -> None:
    """Discard what a stream holds, and all that follows; the interpreter would complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
