"""The files of a simulated node: each at an absolute path there, in the node's folder here.

`root` has all that is the node's own. Where a program runs in a view of the node (`sandbox`), the folders
that node and host share are folders of `view`, so what changes in such a folder later is changed in both: a program
that watches it in its view sees the change happen. All other folders of the node are the same ones in the view.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from simkubelet.host import is_stand_in
from simkubelet.model.errors import InputError
from simkubelet.node import node_path

_RUN: Final = PurePosixPath("/var/run")


class SimFiles:
    """The files of one node, named in errors.

    Args:
        node: Its name.
        directory: Its folder; `root`, below that, stands for its root file system, `view` has what is written into
            folders that it shares with the host.
    """

    def __init__(self, node: str, directory: Path) -> None:
        self.root = directory / "root"
        self.view = directory / "view"
        self._node = node
        self._directory = directory

    def create(self, path: str, content: str = "") -> None:
        """Make a file at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        place = self.place(path)
        with self._named_errors(path, "created"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("x", encoding="utf-8") as file:
                file.write(content)
            self._show(path)

    def create_link(self, path: str, target: str) -> None:
        """Make a symbolic link at an absolute path of the node; a `target` that is absolute is one of the node too.

        Raises:
            InputError: something is there, or in its way.
        """
        place = self.place(path)
        with self._named_errors(path, "created"):
            place.parent.mkdir(parents=True, exist_ok=True)
            # No process has this folder as its root, so an absolute link would lead out of the node.
            place.symlink_to(os.path.relpath(target, PurePosixPath(path).parent) if target[:1] == "/" else target)
            self._show(path)

    def write(self, path: str, content: str) -> None:
        """Give the file at an absolute path of the node another content.

        Raises:
            InputError: there is no such file.
        """
        with self._named_errors(path, "written"), self._found(path).open("r+", encoding="utf-8") as file:
            file.write(content)
            file.truncate()

    def date(self, path: str, age_s: float) -> None:
        """Set the time at which the file at an absolute path of the node was changed last, to so long ago.

        Raises:
            InputError: there is no such file.
        """
        date_s = time.time() - age_s
        with self._named_errors(path, "dated"):
            os.utime(self._found(path), (date_s, date_s))

    def move(self, path: str, to: str) -> None:
        """Give the file at an absolute path of the node another one.

        Raises:
            InputError: there is no such file, or something is in its way.
        """
        if os.path.lexists(self.place(to)):
            raise InputError(f"{self._node}:{to}: is there already; remove it first")
        with self._named_errors(path, f"moved to {to}"):
            self._found(path).rename(self.place(to))
            self._hide(path, to)

    def remove(self, path: str) -> None:
        """Remove the file at an absolute path of the node.

        Raises:
            InputError: there is no such file.
        """
        with self._named_errors(path, "removed"):
            self._found(path).unlink()
            self._hide(path)

    def create_folder(self, path: str) -> None:
        """Make a folder at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        with self._named_errors(path, "created"):
            self.place(path).mkdir(parents=True)
            self._show(path)

    def remove_folder(self, path: str) -> None:
        """Remove the folder at an absolute path of the node with all that is in it.

        Raises:
            InputError: there is no such folder.
        """
        with self._named_errors(path, "removed"):
            shutil.rmtree(self._found(path))
            self._hide(path)

    def open_view(self) -> Path:
        """Begin to show what changes in folders that the node shares with the host; where it is shown."""
        if not self.view.exists():
            (self.view / "var").mkdir(parents=True)
            (self.view / "var" / "run").symlink_to("../run")
        return self.view

    def place(self, path: str) -> Path:
        """Return the path on this host of a file of the node."""
        return node_path(self._directory, path)

    def _found(self, path: str) -> Path:
        """Where a file lies that may have been written by a program in its view of the node."""
        place, written = self.place(path), self._in_view(path)
        return place if os.path.lexists(place) or written is None or not os.path.lexists(written) else written

    def _in_view(self, path: str) -> Path | None:
        """Return a file's path in `view`; None where its folder is not shared with the host, so it needs no second."""
        pure = PurePosixPath(path)
        if pure.is_relative_to(_RUN):
            pure = PurePosixPath("/run", pure.relative_to(_RUN))
        place = self.view.joinpath(*pure.parts[1:])
        inside = [place, *place.parents][: len(pure.parts)]
        return None if any(map(is_stand_in, inside[1:])) or not self.view.exists() else place

    def _show(self, path: str) -> None:
        """Let what was made be seen where its folder is shared with the host, in place of what the host has there."""
        place, made = self._in_view(path), self.place(path)
        if place is None:
            return
        if is_stand_in(place):
            (place.rmdir if place.is_dir() else place.unlink)()
        if made.is_dir() and not made.is_symlink():
            place.mkdir(parents=True, exist_ok=True)
        elif not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(made, place, follow_symlinks=False)

    def _hide(self, path: str, to: str | None = None) -> None:
        """Let what was removed, or moved, be so where its folder is shared with the host."""
        old, new = self._in_view(path), self._in_view(to) if to else None
        if old is not None and os.path.lexists(old):
            if new is not None and new.parent.is_dir():
                old.rename(new)
            elif old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            else:
                old.unlink()
        elif to is not None:
            self._show(to)

    @contextmanager
    def _named_errors(self, path: str, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"{self._node}:{path}: cannot be {what}: {error.strerror}") from None
