"""Where tests make folders with short paths: sockets are made below them, and the path of one holds 107 bytes.

It is the folder for temporary files, `/dev/shm` in the sessions of nox. On a disk, making and removing the files of a
node takes as long as all that the node does.
"""

from __future__ import annotations

import tempfile
from typing import Final

_SHORT: Final = len("/dev/shm")


def short_place() -> str:
    """Return the folder for temporary files, or ``/tmp`` where its path is a long one."""
    chosen = tempfile.gettempdir()
    return chosen if len(chosen) <= _SHORT else "/tmp"
