"""The files of a node, as the agent makes and changes them; it notes what it made, which has to go in the end."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

HOST: Final = Path("/host")
"""Where the agent sees the node's root."""
PLACE: Final = Path("/var/lib/simkubelet")
"""The run's folder, on the node and for the agent."""
CREATED: Final = PLACE / "created"
"""The topmost path of each that was made on the node, a line each: what has to go in the end."""


class AgentFiles:
    """Does what concerns files."""

    def do_create_file(self, path: str, content: str) -> None:
        """Make a file, and the folders above it."""
        place = HOST / path.lstrip("/")
        note_created(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x") as file:
            file.write(content)

    def do_create_link(self, path: str, target: str) -> None:
        """Make a symbolic link, and the folders above it."""
        place = HOST / path.lstrip("/")
        note_created(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def do_write_file(self, path: str, content: str) -> None:
        """Give a file another content."""
        (HOST / path.lstrip("/")).write_text(content)

    def do_move_file(self, path: str, to: str) -> None:
        """Give a file another path where nothing is in its way."""
        place = HOST / to.lstrip("/")
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)
        note_created(place)
        (HOST / path.lstrip("/")).rename(place)

    def do_create_folder(self, path: str) -> None:
        """Make a folder, and those above it."""
        place = HOST / path.lstrip("/")
        note_created(place)
        place.mkdir(parents=True)

    def do_remove_file(self, path: str) -> None:
        """Remove a file."""
        (HOST / path.lstrip("/")).unlink()


def note_created(place: Path) -> None:
    """Take note of what is about to be made, with the folders above it."""
    missing = [one for one in (place, *place.parents) if not one.exists()]
    with CREATED.open("a") as created:
        created.write(f"/{missing[-1].relative_to(HOST)}\n" if missing else "")
