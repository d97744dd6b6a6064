"""Notices sockets that come and go in a folder: of a restarted kubelet a plugin gets no other sign."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME
from simkubelet.apis.inotify import Mask, PathWatch

__all__ = ["SocketChange", "SocketWatch"]

_COMES: Final = Mask.CREATE | Mask.MOVED_TO
_GOES: Final = Mask.DELETE | Mask.MOVED_FROM


class SocketChange(NamedTuple):
    """A name of the folder that came, in place or by a move, or went."""

    name: str
    is_there: bool


class SocketWatch:
    """Watches a folder from its construction on; what happens before `changes` is iterated is not lost.

    Args:
        folder: Watched itself, not what is below it.
        kubelet_name: The name of the kubelet's socket there.

    Raises:
        OSError: the folder cannot be watched.
    """

    def __init__(self, folder: Path, kubelet_name: str = KUBELET_SOCKET_NAME) -> None:
        self._kubelet_name = kubelet_name
        self._watch = PathWatch()
        self._watch.add(folder, _COMES | _GOES | Mask.ONLYDIR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._watch.close()

    async def changes(self) -> AsyncGenerator[SocketChange, None]:
        """Each change, in order; never ends by itself.

        The folder removed under a plugin that serves is not noticed: the plugin's own socket keeps it in being.
        """
        async for mask, path in self._watch:
            if path is None:
                # Events were lost: a new kubelet cannot be excluded.
                yield SocketChange(self._kubelet_name, is_there=True)
            else:
                yield SocketChange(path.name, is_there=bool(mask & _COMES))

    async def created(self) -> AsyncGenerator[None, None]:
        """One item for each new socket of a kubelet."""
        async for change in self.changes():
            if change.is_there and change.name == self._kubelet_name:
                yield
