"""A decoy tree beside a node's folder: nothing that is done on the node may change it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Decoy", "make_deep_folder"]

_DATE_NS = 1_000_000_000 * 10**9


class _Entry(NamedTuple):
    mode: int
    links: int
    date_ns: int
    content: bytes | str | None


class Decoy:
    """Files, folders and links of somebody else.

    Args:
        place: The folder that is made.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "d" / "deep").mkdir(parents=True)
        (place / "f").write_text("file")
        (place / "d" / "f").write_text("file in a folder")
        (place / "d" / "deep" / "a").write_text("")
        (place / "d" / "f").chmod(0o640)
        (place / "d").chmod(0o750)
        (place / "l").symlink_to("d")
        for path in [*place.rglob("*"), place]:
            os.utime(path, ns=(_DATE_NS, _DATE_NS), follow_symlinks=False)
        self.before = self.state()

    def state(self) -> dict[str, _Entry]:
        """Path -> all that can be seen of it but the time of the last reading."""
        return {str(path): _entry(path) for path in sorted([self.place, *self.place.rglob("*")])}

    def check(self) -> None:
        """Fail where anything of it is not as it was."""
        assert self.state() == self.before


def _entry(path: Path) -> _Entry:
    found = path.lstat()
    if path.is_symlink():
        content: bytes | str | None = str(path.readlink())
    else:
        content = path.read_bytes() if path.is_file() else None
    return _Entry(found.st_mode, found.st_nlink, found.st_mtime_ns, content)


def make_deep_folder(place: Path, levels: int = 1200) -> None:
    """Make a folder in a folder and so on: more than Python goes down by recursion."""
    place.mkdir()
    here = os.open(place, os.O_PATH)
    for _ in range(levels):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
