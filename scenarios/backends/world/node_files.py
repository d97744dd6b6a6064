"""The files of a simulated node: each at an absolute path there, in the node's folder here.

`root` has all that is the node's own. Where a program runs in a view of the node (`sandbox`), the folders
that node and host share are folders of `view`, so what changes in such a folder later is changed in both: a program
that watches it in its view sees the change happen. All other folders of the node are the same ones in the view.
No path leads out of either, whatever links a story or a plugin made there (`simkubelet.node_tree`).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from simkubelet.host import is_stand_in
from simkubelet.model.errors import InputError
from simkubelet.node_tree import FileTree, node_path, node_tree

_RUN: Final = PurePosixPath("/var/run")
_VIEW: Final = "view"


class SimFiles:
    """The files of one node, named in errors.

    Args:
        node: Its name.
        directory: Its folder; `root`, below that, stands for its root file system, `view` has what is written into
            folders that it shares with the host.
    """

    def __init__(self, node: str, directory: Path) -> None:
        self.root = directory / "root"
        self.view = directory / _VIEW
        self.tree = node_tree(directory)
        self._shown = FileTree(directory, _VIEW)
        self._node = node
        self._directory = directory

    def create(self, path: str, content: str = "") -> None:
        """Make a file at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        with self._named_errors(path, "created"):
            with self.tree.open(path, "x", make=True) as file:
                file.write(content)
            self._show(path)

    def create_link(self, path: str, target: str) -> None:
        """Make a symbolic link at an absolute path of the node; a `target` that is absolute is one of the node too.

        Raises:
            InputError: something is there, or in its way.
        """
        with self._named_errors(path, "created"):
            with self.tree.place(path, make=True) as place:
                os.symlink(self._link_text(place.path.parent, target), place.name, dir_fd=place.folder)
            self._show(path)

    def _link_text(self, folder: PurePosixPath, target: str) -> str:
        """What a link in a folder of the node says, so that it leads to the same for programs of this host.

        No process has `root` as its root, so an absolute link would lead out of the node.
        """
        here = node_path(self._directory, str(folder))
        if here.is_relative_to(self.root):
            return os.path.relpath(target, folder) if target.startswith("/") else target
        meant = node_path(self._directory.absolute(), os.path.normpath(folder / target))
        is_same = not target.startswith("/") and os.path.normpath(here.absolute() / target) == str(meant)
        return target if is_same else str(meant)

    def write(self, path: str, content: str) -> None:
        """Give the file at an absolute path of the node another content.

        Raises:
            InputError: there is no such file.
        """
        with self._named_errors(path, "written"):
            tree, where = self._found(path)
            with tree.open(where, "r+") as file:
                file.write(content)
                file.truncate()

    def date(self, path: str, age_s: float) -> None:
        """Set the time at which the file at an absolute path of the node was changed last, to so long ago.

        Raises:
            InputError: there is no such file.
        """
        with self._named_errors(path, "dated"):
            tree, where = self._found(path)
            tree.date(where, time.time() - age_s)

    def move(self, path: str, to: str) -> None:
        """Give the file at an absolute path of the node another one.

        Raises:
            InputError: there is no such file, or something is in its way.
        """
        if self.tree.has(to, follow=False):
            raise InputError(f"{self._node}:{to}: is there already; remove it first")
        with self._named_errors(path, f"moved to {to}"):
            tree, where = self._found(path)
            tree.rename(where, self.tree, to)
            self._hide(path, to)

    def remove(self, path: str) -> None:
        """Remove the file at an absolute path of the node.

        Raises:
            InputError: there is no such file.
        """
        with self._named_errors(path, "removed"):
            tree, where = self._found(path)
            tree.unlink(where)
            self._hide(path)

    def create_folder(self, path: str) -> None:
        """Make a folder at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        with self._named_errors(path, "created"):
            self.tree.make_folder(path)
            self._show(path)

    def mounted(self, path: str) -> Path:
        """The folder or file of the node at a path that a pod mounts; a folder is made where nothing is.

        Raises:
            InputError: something is in its way.
        """
        with self._named_errors(path, "mounted"):
            if not self.tree.has(path):
                self.tree.make_folder(path)
            return self.tree.real_path(path)

    def remove_folder(self, path: str) -> None:
        """Remove the folder at an absolute path of the node with all that is in it.

        Raises:
            InputError: there is no such folder.
        """
        with self._named_errors(path, "removed"):
            tree, where = self._found(path)
            tree.remove_folder(where)
            self._hide(path)

    def open_view(self) -> Path:
        """Begin to show what changes in folders that the node shares with the host; where it is shown."""
        if not self.view.exists():
            self.view.mkdir()
            with self._shown.place("/var/run", make=True) as place:
                os.symlink("../run", place.name, dir_fd=place.folder)
        return self.view

    def place(self, path: str) -> Path:
        """Return the path on this host of a file of the node, for a program that is given it."""
        return node_path(self._directory, path)

    def _found(self, path: str) -> tuple[FileTree, str]:
        """Where a file is that may have been written by a program in its view of the node."""
        shown = None if self.tree.has(path, follow=False) else self._in_view(path)
        is_there = shown is not None and self._shown.has(shown, follow=False)
        return (self._shown, shown) if shown is not None and is_there else (self.tree, path)

    def _in_view(self, path: str) -> str | None:
        """Return a file's path in `view`; None where its folder is not shared with the host, so it needs no second."""
        pure = PurePosixPath(path)
        if pure.is_relative_to(_RUN):
            pure = PurePosixPath("/run", pure.relative_to(_RUN))
        is_covered = any(self._is_stand_in(str(above)) for above in pure.parents)
        return None if is_covered or not self.view.exists() else str(pure)

    def _is_stand_in(self, shown: str) -> bool:
        try:
            return is_stand_in(self._shown.stat(shown, follow=False))
        except OSError:
            return False

    def _show(self, path: str) -> None:
        """Let what was made be seen where its folder is shared with the host, in place of what the host has there."""
        shown = self._in_view(path)
        if shown is None:
            return
        if self._is_stand_in(shown):
            if self._shown.is_folder(shown):
                self._shown.remove_folder(shown)
            else:
                self._shown.unlink(shown)
        if stat.S_ISDIR(self.tree.stat(path, follow=False).st_mode):
            self._shown.make_folder(shown, exist_ok=True)
        elif not self._shown.has(shown, follow=False):
            self._shown.link(shown, self.tree, path)

    def _hide(self, path: str, to: str | None = None) -> None:
        """Let what was removed, or moved, be so where its folder is shared with the host."""
        old, new = self._in_view(path), self._in_view(to) if to else None
        if old is not None and self._shown.has(old, follow=False):
            if new is not None and self._shown.is_folder(str(PurePosixPath(new).parent)):
                self._shown.rename(old, self._shown, new)
            elif stat.S_ISDIR(self._shown.stat(old, follow=False).st_mode):
                self._shown.remove_folder(old)
            else:
                self._shown.unlink(old)
        elif to is not None:
            self._show(to)

    @contextmanager
    def _named_errors(self, path: str, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"{self._node}:{path}: cannot be {what}: {error.strerror}") from None
