"""Links and pipes in a machine's folder, where a plugin may make them: files are changed only where there are none."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError


def refuse_traps(root: Path) -> None:
    """Make sure, before files of a machine are changed, that no link leads out of its folder and no pipe keeps waiting.

    Who changes the files may be root, and who made the link a plugin of root that may write there alone.

    Raises:
        InputError: there is one.
    """
    own = root.resolve()
    tops = [own / name for name in ("dev", "exporter", "proc", "sys")]
    below = [Path(folder, name) for top in tops for folder, *both in os.walk(top) for names in both for name in names]
    for path in (*tops, *below):
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(own):
            raise InputError(f"{path}: leads out of the folder of the fake machine; remove this link")
        if path.is_fifo():
            raise InputError(f"{path}: is a pipe; remove it")
