"""The files of a simulated node: each at an absolute path there, in the node's folder here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simkubelet.errors import InputError
from simkubelet.node.node_paths import node_path


class SimFiles:
    """The files of one node, named in errors.

    Args:
        node: Its name.
        directory: Its folder; `root`, below that, stands for its root file system.
    """

    def __init__(self, node: str, directory: Path) -> None:
        self.root = directory / "root"
        self._node = node
        self._directory = directory

    def create(self, path: str, content: str = "") -> None:
        """Make a file at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        place = self.place(path)
        with self._told(path, "created"):
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("x", encoding="utf-8") as file:
                file.write(content)

    def write(self, path: str, content: str) -> None:
        """Give the file at an absolute path of the node another content.

        Raises:
            InputError: there is no such file.
        """
        with self._told(path, "written"), self.place(path).open("r+", encoding="utf-8") as file:
            file.write(content)
            file.truncate()

    def move(self, path: str, to: str) -> None:
        """Give the file at an absolute path of the node another one.

        Raises:
            InputError: there is no such file, or something is in its way.
        """
        if os.path.lexists(self.place(to)):
            raise InputError(f"{self._node}:{to}: is there already; remove it first")
        with self._told(path, f"moved to {to}"):
            self.place(path).rename(self.place(to))

    def remove(self, path: str) -> None:
        """Remove the file at an absolute path of the node.

        Raises:
            InputError: there is no such file.
        """
        with self._told(path, "removed"):
            self.place(path).unlink()

    def create_folder(self, path: str) -> None:
        """Make a folder at an absolute path of the node.

        Raises:
            InputError: it is there, or something else is in its way.
        """
        with self._told(path, "created"):
            self.place(path).mkdir(parents=True)

    def remove_folder(self, path: str) -> None:
        """Remove the folder at an absolute path of the node with all that is in it.

        Raises:
            InputError: there is no such folder.
        """
        with self._told(path, "removed"):
            shutil.rmtree(self.place(path))

    def place(self, path: str) -> Path:
        """Where a file of the node lies here."""
        return node_path(self._directory, path)

    @contextmanager
    def _told(self, path: str, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"{self._node}:{path}: cannot be {what}: {error.strerror}") from None
