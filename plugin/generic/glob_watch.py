"""Follows the files that globs find: looked for again whenever something changes in a folder on the way to them."""

from __future__ import annotations

import glob
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from ..errors import HostError
from ..framework.inotify import Inotify, Mask

__all__ = ["GlobWatch"]

_MASK: Final = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.MOVE_SELF


class GlobWatch:
    """The files of some globs below a root, from the construction on.

    Args:
        root: Where the node's root file system is seen.
        globs: Absolute paths of the node, with ``*``, ``?`` and ``[...]`` in any part.

    Raises:
        HostError: a folder cannot be watched.
    """

    def __init__(self, root: Path, globs: Sequence[str]) -> None:
        self._root = str(root).rstrip("/")
        self._globs = globs
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise _unwatchable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inotify.close()

    async def found(self) -> AsyncGenerator[list[list[str]], None]:
        """For each glob the files that there are, as paths of the node, sorted; again after each change of them.

        Raises:
            HostError: a folder cannot be watched.
        """
        self._watch_folders()
        known = self._found()
        yield known
        async for _ in self._inotify.events():
            self._watch_folders()
            if (current := self._found()) != known:
                known = current
                yield known

    def _found(self) -> list[list[str]]:
        return [sorted(self._matches(pattern)) for pattern in self._globs]

    def _matches(self, pattern: str) -> list[str]:
        # Path.glob would find hidden files too.
        found = glob.glob(glob.escape(self._root) + pattern)  # noqa: PTH207
        return [path[len(self._root) :] for path in found]

    def _watch_folders(self) -> None:
        """Watch each folder in which a next part of a path may appear; what is watched already stays so."""
        for pattern in self._globs:
            for folder in PurePosixPath(pattern).parents:
                for path in self._matches(str(folder)):
                    try:
                        self._inotify.add(Path(f"{self._root}{path}" or "/"), _MASK)
                    except (FileNotFoundError, NotADirectoryError):
                        # Gone or replaced since it was looked for: an event of the folder above follows.
                        continue
                    except OSError as error:
                        raise _unwatchable(error) from error


def _unwatchable(error: OSError) -> HostError:
    return HostError(
        f"cannot watch the folders of the device files: {os.strerror(error.errno or 0)}; "
        "check their permissions and the limits of inotify"
    )
